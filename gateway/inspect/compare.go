package inspect

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/skills"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Comparison is the effect of a change of the configuration.
type Comparison struct {
	// Changes are the changes of the configuration.
	Changes []policy.Change `json:"changes"`
	// Prompts are the changes of the prompts in known lists, sorted by name.
	Prompts []PromptChange `json:"prompts"`
	// Unknown are the upstreams whose list is unknown in either configuration. Prompts does not
	// contain their prompts.
	Unknown []string `json:"unknown,omitempty"`
}

// The kinds of [PromptChange].
const (
	Exposed = "exposed"
	Hidden  = "hidden"
	Renamed = "renamed"
	// Changed is the kind of a prompt from files with a different definition or text. Definitions of
	// servers are not compared.
	Changed = "changed"
)

// PromptChange is a change of one prompt of an upstream.
type PromptChange struct {
	Kind string `json:"kind"`
	// Name is the new exposed name or, for a hidden prompt, the old exposed name.
	Name string `json:"name"`
	// Before is the old exposed name of a renamed prompt.
	Before   string `json:"before,omitempty"`
	Upstream string `json:"upstream"`
	// To are the users and groups who begin or cease to see the prompt; "*" is everybody.
	To []string `json:"to,omitempty"`
	// But are the exceptions if To is everybody: readers who saw the prompt before, or still see it.
	But []string `json:"but,omitempty"`
	// Rule is the location of the deciding block, as PATH:LINE. It is empty if there is no such
	// block. If no rule shows the prompt any more, it is the rule of the old configuration that showed it.
	Rule string `json:"rule,omitempty"`
	// Reason explains the change if Rule does not.
	Reason string `json:"reason,omitempty"`
	// UsedBy are the users who used a prompt that is now hidden from them, the most recent first.
	// [Compare] does not set it: the caller may fill it from an audit log.
	UsedBy []string `json:"used_by,omitempty"`
}

// Compare returns the effects of a change from one configuration to another. Each snapshot contains a
// configuration and the known lists of its upstreams.
func Compare(before, after *snapshot.Snapshot) Comparison {
	c := Comparison{
		// Empty slices make the JSON contain [] and not null.
		Changes: append([]policy.Change{}, policy.Diff(before.Config, after.Config)...),
		Prompts: []PromptChange{}, Unknown: append(before.Unlisted(), after.Unlisted()...),
	}
	slices.Sort(c.Unknown)
	c.Unknown = slices.Compact(c.Unknown)
	was, is := exposures(before), exposures(after)
	contentBefore, contentAfter := contents(before), contents(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for key := range all {
		if slices.Contains(c.Unknown, key.upstream) {
			continue
		}
		old, now := was[key], is[key]
		c.Prompts = append(c.Prompts, changes(after, key, old, now)...)
		if old.name != "" && now.name != "" {
			c.Prompts = append(c.Prompts, contentChange(key, now.name, contentBefore, contentAfter)...)
		}
	}
	slices.SortFunc(c.Prompts, func(a, b PromptChange) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Upstream, b.Upstream),
			strings.Compare(a.Kind, b.Kind), strings.Compare(a.Rule, b.Rule))
	})
	return c
}

// promptKey identifies a prompt by its upstream and the upstream's own name for it.
type promptKey struct{ upstream, own string }

// exposure is a prompt's exposed name and its readers.
type exposure struct {
	name    string
	readers []policy.Reader
}

// exposures returns the prompts that have at least one reader.
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

// content is the content of a prompt from files.
type content struct {
	definition [sha256.Size]byte
	text       string
	skill      *skills.Skill // nil for a prompt
}

// contents returns the content of all prompts from files.
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

// contentChange returns the change of the definition or text of a prompt that is visible before and
// after. It returns nil for a prompt that is not from files.
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
		reasons = append(reasons, skills.Changes(was.skill, is.skill)...)
	}
	return []PromptChange{{Kind: Changed, Name: name, Upstream: key.upstream, Reason: strings.Join(reasons, "; ")}}
}

// changes returns the changes of one prompt's name and readers. A zero exposure has no readers.
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

// beyond returns the readers of after who are not in before, by the rule that shows the prompt to
// them. If everybody is a new reader, more contains only "*", and but contains the readers of before.
func beyond(before, after []policy.Reader) (more map[string][]string, but []string) {
	more = map[string][]string{}
	if slices.ContainsFunc(before, policy.Reader.Everybody) {
		return more, nil
	}
	if at := slices.IndexFunc(after, policy.Reader.Everybody); at >= 0 {
		more[after[at].Rule] = []string{string(config.Anybody)}
		return more, exslices.CastFunc(before, policy.Reader.String)
	}
	for _, r := range after {
		if !slices.ContainsFunc(before, func(old policy.Reader) bool { return old.String() == r.String() }) {
			more[r.Rule] = append(more[r.Rule], r.String())
		}
	}
	return more, nil
}

// whyHidden explains why readers no longer see a prompt in the new snapshot. before is the rule of the
// old configuration that showed it.
func whyHidden(s *snapshot.Snapshot, key promptKey, before string) (rule, reason string) {
	at, ok := s.Index(key.upstream)
	if !ok {
		return "", fmt.Sprintf("upstream %q is gone", key.upstream)
	}
	source := &s.Sources[at]
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
	if hide := s.Policy.HiddenBy(source.Team, source.Upstream, name, definition); hide.Decides {
		return hide.Rule, ""
	}
	return before, "which showed it, no longer does"
}
