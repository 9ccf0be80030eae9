package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Comparison is what a configuration makes otherwise than the one before.
type Comparison struct {
	// Changes are what follows from the configurations alone.
	Changes []policy.Change `json:"changes"`
	// Prompts are what becomes of the prompts in the lists that are known, by name.
	Prompts []PromptChange `json:"prompts"`
	// Unknown are the upstreams of the later configuration whose lists are not known, those that are another server now
	// included.
	Unknown []string `json:"unknown,omitempty"`
}

// What a [PromptChange] is.
const (
	Exposed = "exposed"
	Hidden  = "hidden"
	Renamed = "renamed"
)

// PromptChange is what becomes of one upstream's prompt.
type PromptChange struct {
	Kind string `json:"kind"`
	// Name is the exposed one: the later, but for a prompt that is hidden.
	Name string `json:"name"`
	// Before is the name that a renamed prompt had.
	Before   string `json:"before,omitempty"`
	Upstream string `json:"upstream"`
	// To is to whom it is exposed, or from whom it is hidden: users, groups, or "*" for everybody. In But are those of
	// everybody for whom nothing changes: they saw it before, or still do.
	To  []string `json:"to,omitempty"`
	But []string `json:"but,omitempty"`
	// Rule is where the block begins that decides, as PATH:LINE; empty where there is none. Of a prompt that is hidden
	// because nothing shows it any more it is what did, in the configuration before.
	Rule string `json:"rule,omitempty"`
	// Reason says in words what the rule does not.
	Reason string `json:"reason,omitempty"`
}

// Compare says what changes from one configuration to another, each with what its gateway knows of the upstreams' lists.
func Compare(before, after *Gateway) Comparison {
	c := Comparison{
		Changes: append([]policy.Change{}, policy.Diff(before.setup().cfg, after.setup().cfg)...),
		Prompts: []PromptChange{}, Unknown: after.Unlisted(),
	}
	was, is := before.shown(), after.shown()
	for key, old := range was {
		if slices.Contains(c.Unknown, key.upstream) {
			continue // another server now
		}
		c.Prompts = append(c.Prompts, after.changes(key, old, is[key])...)
	}
	for key, now := range is {
		if _, known := was[key]; !known {
			c.Prompts = append(c.Prompts, after.changes(key, exposure{}, now)...)
		}
	}
	slices.SortFunc(c.Prompts, func(a, b PromptChange) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Upstream, b.Upstream), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Rule, b.Rule))
	})
	return c
}

// promptKey is a prompt whatever it is called towards clients.
type promptKey struct{ upstream, own string }

// exposure is under which name a prompt is seen, and by whom.
type exposure struct {
	name    string
	readers []policy.Reader
}

// shown returns what is in the catalog for anybody.
func (g *Gateway) shown() map[promptKey]exposure {
	e, all := g.edition.Load(), map[promptKey]exposure{}
	for _, entry := range e.snapshot.Entries() {
		readers := e.policy.Readers(entry.Team, entry.Owners[0].Upstream, entry.Name, entry.JSON)
		if len(readers) == 0 {
			continue
		}
		for _, owner := range entry.Owners {
			all[promptKey{owner.Upstream, owner.Name}] = exposure{entry.Name, readers}
		}
	}
	return all
}

// changes says what becomes of one prompt in this gateway's configuration.
func (g *Gateway) changes(key promptKey, was, is exposure) (changes []PromptChange) {
	if was.name != "" && is.name != "" && was.name != is.name {
		changes = append(changes, PromptChange{Kind: Renamed, Name: is.name, Before: was.name, Upstream: key.upstream})
	}
	to, but := beyond(was.readers, is.readers)
	for _, rule := range slices.Sorted(maps.Keys(to)) {
		changes = append(changes, PromptChange{
			Kind: Exposed, Name: is.name, Upstream: key.upstream, To: to[rule], But: but, Rule: rule,
		})
	}
	from, but := beyond(is.readers, was.readers)
	for _, rule := range slices.Sorted(maps.Keys(from)) {
		hidden := PromptChange{Kind: Hidden, Name: was.name, Upstream: key.upstream, To: from[rule], But: but}
		hidden.Rule, hidden.Reason = g.whyHidden(key, rule)
		changes = append(changes, hidden)
	}
	return changes
}

// beyond returns whom the later readers have more than the earlier ones, by the rule that shows it to them. Where that is
// everybody, but are those who are no news.
func beyond(before, after []policy.Reader) (more map[string][]string, but []string) {
	more = map[string][]string{}
	if slices.ContainsFunc(before, policy.Reader.Everybody) {
		return more, nil
	}
	if at := slices.IndexFunc(after, policy.Reader.Everybody); at >= 0 {
		for _, r := range before {
			but = append(but, r.String())
		}
		more[after[at].Rule] = []string{string(config.Anybody)}
		return more, but
	}
	for _, r := range after {
		if !slices.ContainsFunc(before, func(known policy.Reader) bool { return known.String() == r.String() }) {
			more[r.Rule] = append(more[r.Rule], r.String())
		}
	}
	return more, nil
}

// whyHidden says why somebody does not see a prompt whom another configuration showed it by a rule.
func (g *Gateway) whyHidden(key promptKey, before string) (rule, reason string) {
	e := g.edition.Load()
	at := slices.IndexFunc(e.upstreams, func(u config.Upstream) bool { return u.Name == key.upstream })
	if at < 0 {
		return "", fmt.Sprintf("upstream %q is gone", key.upstream)
	}
	u := e.upstreams[at]
	name := e.intake.exposed(&catalog.Source{Prefix: u.Prefix}, key.own)
	if s := e.intake.shapes[name]; s.Override != nil {
		name = cmp.Or(s.Name, name)
	}
	var definition []byte
	if entry := e.snapshot.Lookup(name); entry != nil {
		definition = entry.JSON
	}
	for _, report := range e.reports() {
		if report.Name == name && e.snapshot.Lookup(name) == nil {
			return "", report.Text
		}
	}
	if hide := e.policy.HiddenBy(u.Team, u.Name, name, definition); hide != "" {
		return hide, ""
	}
	return before, "which showed it, does not any more"
}
