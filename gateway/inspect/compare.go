package inspect

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Comparison is the difference that a change of the configuration makes.
type Comparison struct {
	// Changes are what follows from the configurations alone.
	Changes []policy.Change `json:"changes"`
	// Prompts are the changes to prompts in the lists that are known, by name.
	Prompts []PromptChange `json:"prompts"`
	// Unknown are the upstreams whose lists are unknown in either configuration, including labels
	// that belong to another server now, unless that is listed too.
	Unknown []string `json:"unknown,omitempty"`
}

// The kinds of [PromptChange].
const (
	Exposed = "exposed"
	Hidden  = "hidden"
	Renamed = "renamed"
	// Changed is a prompt from files with another definition or text. What servers list is the same
	// before and after.
	Changed = "changed"
)

// PromptChange is what changes for one prompt of an upstream.
type PromptChange struct {
	Kind string `json:"kind"`
	// Name is the exposed name: the later one, except for a prompt that is hidden.
	Name string `json:"name"`
	// Before is the name that a renamed prompt had.
	Before   string `json:"before,omitempty"`
	Upstream string `json:"upstream"`
	// To is to whom it is exposed, or from whom it is hidden: users, groups, or "*" for everybody.
	// But are those among everybody for whom nothing changes: they saw it before, or still do.
	To  []string `json:"to,omitempty"`
	But []string `json:"but,omitempty"`
	// Rule is where the deciding block begins, as PATH:LINE; empty where there is none. For a
	// prompt that no rule shows any more, it is the rule that did in the earlier configuration.
	Rule string `json:"rule,omitempty"`
	// Reason explains in words what the rule does not.
	Reason string `json:"reason,omitempty"`
	// UsedBy are the users who used the prompt and lose it, the most recent first. Compare leaves it
	// empty: an audit log has them.
	UsedBy []string `json:"used_by,omitempty"`
}

// Compare returns what changes from one configuration to another. Each snapshot holds the lists
// that are known to its configuration.
func Compare(before, after *snapshot.Snapshot) Comparison {
	c := Comparison{
		// Empty rather than nil, for which JSON would have null and not a list.
		Changes: append([]policy.Change{}, policy.Diff(before.Config, after.Config)...),
		Prompts: []PromptChange{}, Unknown: append(before.Unlisted(), after.Unlisted()...),
	}
	slices.Sort(c.Unknown)
	c.Unknown = slices.Compact(c.Unknown)
	was, is := exposures(before), exposures(after)
	contentBefore, contentAfter := contents(before), contents(after)
	for key, old := range was {
		if slices.Contains(c.Unknown, key.upstream) {
			continue
		}
		c.Prompts = append(c.Prompts, changes(after, key, old, is[key])...)
		if now, kept := is[key]; kept {
			c.Prompts = append(c.Prompts, contentChange(key, now.name, contentBefore, contentAfter)...)
		}
	}
	for key, now := range is {
		if _, known := was[key]; !known && !slices.Contains(c.Unknown, key.upstream) {
			c.Prompts = append(c.Prompts, changes(after, key, exposure{}, now)...)
		}
	}
	slices.SortFunc(c.Prompts, func(a, b PromptChange) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Upstream, b.Upstream),
			strings.Compare(a.Kind, b.Kind), strings.Compare(a.Rule, b.Rule))
	})
	return c
}

// promptKey identifies a prompt, whatever clients call it.
type promptKey struct{ upstream, own string }

// exposure is the name under which a prompt is visible, and to whom.
type exposure struct {
	name    string
	readers []policy.Reader
}

// exposures returns the prompts that are visible to anybody.
func exposures(s *snapshot.Snapshot) map[promptKey]exposure {
	all := map[promptKey]exposure{}
	for _, entry := range s.Catalog.Entries() {
		for _, owner := range entry.Owners {
			if readers := s.Policy.Readers(entry.Team, owner.Upstream, entry.Name, entry.Facts()); len(readers) > 0 {
				all[promptKey{owner.Upstream, owner.Name}] = exposure{entry.Name, readers}
			}
		}
	}
	return all
}

// content is what a prompt from files consists of.
type content struct {
	definition [sha256.Size]byte
	text       string
	skill      *catalog.Skill // nil for a prompt
}

// contents returns those of all prompts from files.
func contents(s *snapshot.Snapshot) map[promptKey]content {
	all := map[promptKey]content{}
	for i, u := range s.Upstreams {
		if u.Files == nil {
			continue
		}
		for _, definition := range s.Definitions(i) {
			if prompt, err := catalog.ParseDefinition(definition, u.Skills != ""); err == nil {
				all[promptKey{u.Name, prompt.Name}] = content{prompt.Hash, s.Text(u.Name, prompt.Name), prompt.Skill}
			}
		}
	}
	return all
}

// contentChange returns how a prompt from files changes that is visible before and after.
func contentChange(key promptKey, name string, before, after map[promptKey]content) []PromptChange {
	was, wasInFiles := before[key]
	is, isInFiles := after[key]
	if !wasInFiles || !isInFiles {
		return nil
	}
	var what []string
	if was.definition != is.definition {
		what = append(what, "a different definition")
	}
	if was.text != is.text {
		what = append(what, "a different text")
	}
	if len(what) == 0 {
		return nil
	}
	reasons := []string{strings.Join(what, " and ")}
	if was.skill != nil && is.skill != nil {
		reasons = append(reasons, skillChanges(was.skill, is.skill)...)
	}
	return []PromptChange{{Kind: Changed, Name: name, Upstream: key.upstream, Reason: strings.Join(reasons, "; ")}}
}

// changes returns what changes for one prompt in the later snapshot.
func changes(after *snapshot.Snapshot, key promptKey, was, is exposure) (changes []PromptChange) {
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
		hidden.Rule, hidden.Reason = whyHidden(after, key, rule)
		changes = append(changes, hidden)
	}
	return changes
}

// beyond returns the later readers that are not among the earlier ones, by the rule that shows the
// prompt to them. If these are everybody, but holds those for whom nothing changes.
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

// whyHidden returns why somebody does not see a prompt that a rule of the earlier configuration
// showed.
func whyHidden(s *snapshot.Snapshot, key promptKey, before string) (rule, reason string) {
	at, known := s.Index(key.upstream)
	if !known {
		return "", fmt.Sprintf("upstream %q is gone", key.upstream)
	}
	u := &s.Upstreams[at]
	source := &catalog.Source{Prefix: u.Prefix, Team: u.Team, Upstream: u.Name, Skills: u.Skills != ""}
	name := s.ExposedName(source, key.own)
	if block := s.PromptBlock(source, key.own); block != nil {
		name = cmp.Or(block.Name, name)
	}
	var definition []byte
	if entry := s.Catalog.Lookup(name); entry != nil {
		definition = entry.Facts()
	}
	for _, report := range s.Reports() {
		if report.Name == name && definition == nil {
			return "", report.Text
		}
	}
	if prompt, listed := listedPrompt(s, source, key.own); prompt == nil && listed {
		return "", fmt.Sprintf("upstream %q does not offer it", key.upstream)
	}
	if hide := s.Policy.HiddenBy(u.Team, u.Name, name, definition); hide.Decides {
		return hide.Rule, ""
	}
	return before, "which showed it, no longer does"
}
