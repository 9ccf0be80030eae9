package policy

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
)

// Diff returns the changes between two configurations that may affect which prompts a caller sees,
// or their names. It does not know the upstreams' prompts. It ignores the order and location of
// blocks, the labels of expose, hide and screen blocks, and the division of a rule into several
// blocks.
func Diff(before, after *config.Config) []Change {
	d := &differ{}
	d.gateway(before, after)
	d.hides("", before.Hides, after.Hides)
	d.screens("", before.Gateway.Screens, after.Gateway.Screens)
	d.locks(before, after)
	d.owners(before, after)
	// A team that exists in only one configuration is compared with an empty team.
	was, is := byName(before.Teams), byName(after.Teams)
	for _, name := range unionOfNames(before.Teams, after.Teams) {
		old, now := was[name], is[name]
		d.upstreams(name, old.Upstreams, now.Upstreams)
		d.members(old, now)
		d.exposed(Removed, now.Exposes, old.Exposes, "%s of team %q no longer shows %s to %s%s", name)
		d.exposed(Added, old.Exposes, now.Exposes, "%s of team %q shows %s to %s%s", name)
		d.hides(name, old.Hides, now.Hides)
		d.overrides(name, old.Overrides, now.Overrides)
		d.screens(name, old.Screens, now.Screens)
	}
	return d.changes
}

// byName indexes teams by their names.
func byName(teams []config.Team) map[string]config.Team {
	all := map[string]config.Team{}
	for _, t := range teams {
		all[t.Name] = t
	}
	return all
}

// unionOfNames returns the names of all teams: first the teams of after, then the removed teams.
func unionOfNames(before, after []config.Team) []string {
	names := exslices.CastFunc(slices.Concat(after, before), func(t config.Team) string { return t.Name })
	return exslices.DeduplicateUnsorted(names)
}

// gateway adds the changes of the auth block and of settings that affect every team.
func (d *differ) gateway(before, after *config.Config) {
	switch {
	case before.Auth == nil && after.Auth != nil:
		d.add(Added, config.Place{}, "callers must authenticate: they are no longer members of every team")
	case before.Auth != nil && after.Auth == nil:
		d.add(Removed, config.Place{}, "the auth block is removed: everybody is a member of every team")
	case before.Auth != nil && before.Auth.Anonymous && !after.Auth.Anonymous:
		d.add(Removed, config.Place{}, "callers without a credential no longer see anything")
	case before.Auth != nil && !before.Auth.Anonymous && after.Auth.Anonymous:
		d.add(Added, config.Place{}, `callers without a credential see what is exposed to "*"`)
	}
	if before.Auth != nil && after.Auth != nil {
		d.callers(before.Auth, after.Auth)
	}
	// The effects of these settings depend on the prompts, which Diff does not know.
	if was, is := before.Gateway.Separator, after.Gateway.Separator; was != is {
		d.add(Other, config.Place{}, "separator %q instead of %q: all prompts with a prefix are renamed", is, was)
	}
	if was, is := before.Gateway.Conflict, after.Gateway.Conflict; was != is {
		d.add(Other, config.Place{}, "conflict = %q instead of %q", is, was)
	}
}

// pairs matches the elements of two lists by their keys. It calls change for each removed element
// with now == nil, then for each element of after, with old == nil if the element is new.
func pairs[T any](before, after []T, key func(*T) string, change func(old, now *T)) {
	index := func(in []T) map[string]*T {
		byKey := map[string]*T{}
		for i := range slices.Backward(in) { // backward, so that the first of equal keys wins
			byKey[key(&in[i])] = &in[i]
		}
		return byKey
	}
	olds, news := index(before), index(after)
	for i := range before {
		if news[key(&before[i])] == nil {
			change(&before[i], nil)
		}
	}
	for i := range after {
		change(olds[key(&after[i])], &after[i])
	}
}

// upstreams adds a team's upstreams that are new, removed, or have a different server, transport or
// prefix.
func (d *differ) upstreams(team string, before, after []config.Upstream) {
	pairs(before, after, func(u *config.Upstream) string { return u.Name }, func(old, now *config.Upstream) {
		switch {
		case now == nil:
			d.add(Removed, old.Place, "upstream %q of team %q is removed", old.Name, team)
			return
		case old == nil:
			d.add(Added, now.Place, "upstream %q of team %q is new: the team's members see its "+
				"prompts, %s", now.Name, team, prefixed(now.Prefix))
			return // one change is enough for a new upstream
		case old.Address() != now.Address():
			d.add(Other, now.Place, "upstream %q of team %q points to another server: %s "+
				"instead of %s", now.Name, team, now.Address(), old.Address())
		case old.Transport != now.Transport:
			d.add(Other, now.Place, "upstream %q of team %q uses another transport: %s "+
				"instead of %s", now.Name, team, now.Transport, old.Transport)
		}
		if old.Prefix != now.Prefix {
			d.add(Other, now.Place, "the prompts of upstream %q of team %q are renamed: %s instead of %s",
				now.Name, team, prefixed(now.Prefix), prefixed(old.Prefix))
		}
	})
}

// owners adds the names and prefixes that now belong to another team.
func (d *differ) owners(before, after *config.Config) {
	was, is := namesOf(before), namesOf(after)
	names := map[string]bool{}
	for _, n := range []nameOwners{was, is} {
		for name := range n.renamed {
			names[name] = true
		}
		for prefix := range n.prefixes {
			names[withSeparator(prefix, after)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, now := was.owner(name, before), is.owner(name, after)
		switch {
		case old == "" || now == "" || old == now:
		case name == "":
			d.add(Other, config.Place{}, "names without a prefix belong to team %q instead of team %q", now, old)
		case was.renamed[name] != "" || is.renamed[name] != "":
			d.add(Other, config.Place{}, "the name %q belongs to team %q instead of team %q", name, now, old)
		default:
			d.add(Other, config.Place{}, "names that begin with %q belong to team %q instead of team %q", name, now, old)
		}
	}
}

// nameOwners maps prefixes, and names from prompt blocks, to the teams that own them.
type nameOwners struct{ prefixes, renamed map[string]string }

func namesOf(cfg *config.Config) nameOwners {
	n := nameOwners{map[string]string{}, map[string]string{}}
	for _, t := range cfg.Teams {
		for _, u := range t.Upstreams {
			if owner, isOwned := n.prefixes[u.Prefix]; isOwned && owner != t.Name {
				n.prefixes[u.Prefix] = "" // two teams share the prefix, so the configuration is invalid
				continue
			}
			n.prefixes[u.Prefix] = t.Name
		}
		for _, o := range t.Overrides {
			if o.Name != "" {
				n.renamed[o.Name] = t.Name
			}
		}
	}
	return n
}

// owner returns the team that owns a name, or "" if no team does. The longest prefix decides, then a
// prompt block that renames a prompt to this name, then an upstream without a prefix.
func (n nameOwners) owner(name string, cfg *config.Config) string {
	longest := ""
	for prefix := range n.prefixes {
		if prefix != "" && len(prefix) > len(longest) && strings.HasPrefix(name, withSeparator(prefix, cfg)) {
			longest = prefix
		}
	}
	if longest != "" {
		return n.prefixes[longest]
	}
	return cmp.Or(n.renamed[name], n.prefixes[""])
}

// withSeparator returns the beginning of the exposed names: the prefix and the separator, or "" if
// there is no prefix.
func withSeparator(prefix string, cfg *config.Config) string {
	if prefix == "" {
		return ""
	}
	return prefix + cfg.Gateway.Separator
}

// prefixed describes how an upstream names its prompts.
func prefixed(prefix string) string {
	if prefix == "" {
		return "without a prefix"
	}
	return fmt.Sprintf("with the prefix %q", prefix)
}

// members adds the principals that joined or left a team.
func (d *differ) members(before, after config.Team) {
	pairs(before.Members, after.Members, (*config.Selector).String, func(old, now *config.Selector) {
		switch {
		case now == nil:
			d.add(Removed, cmp.Or(after.Place, before.Place), "%s is no longer a member of team %q", old, before.Name)
		case old == nil:
			d.add(Added, after.Place, "%s is a member of team %q", now, after.Name)
		}
	})
}

// exposed adds, for each reader, the patterns that the blocks in rules show to the reader and the
// blocks in others do not.
func (d *differ) exposed(sign Sign, others, rules []config.Rule, text, team string) {
	for i := range rules {
		r := &rules[i]
		// Compare single readers and patterns: dividing a rule into several blocks is not a change.
		for _, who := range r.To {
			patterns := onlyIn(r, others, func(other *config.Rule) bool { return slices.Contains(other.To, who) })
			if patterns != "" {
				d.add(sign, r.Place, text, r.Title(kindExpose), team, patterns, who, when(r))
			}
		}
	}
}

// hides adds the changes of the hide blocks of a team, or of the gateway if team is empty.
func (d *differ) hides(team string, before, after []config.Rule) {
	whose := ownerOf(team)
	d.hidden(Removed, after, before, "%s %s no longer removes %s%s", whose)
	d.hidden(Added, before, after, "%s %s removes %s from everybody%s", whose)
}

// hidden adds the patterns that the blocks in rules hide and the blocks in others do not.
func (d *differ) hidden(sign Sign, others, rules []config.Rule, text, whose string) {
	for i := range rules {
		r := &rules[i]
		if patterns := onlyIn(r, others, func(*config.Rule) bool { return true }); patterns != "" {
			d.add(sign, r.Place, text, r.Title(kindHide), whose, patterns, when(r))
		}
	}
}

// onlyIn returns the patterns of r that are in no similar rule of others. A rule is similar if like
// accepts it and its condition equals the condition of r.
func onlyIn(r *config.Rule, others []config.Rule, like func(*config.Rule) bool) string {
	var patterns []string
	for _, pattern := range r.Prompts {
		hasPattern := func(other config.Rule) bool {
			return like(&other) && when(&other) == when(r) &&
				slices.ContainsFunc(other.Prompts, func(p config.Pattern) bool { return p.String() == pattern.String() })
		}
		if !slices.ContainsFunc(others, hasPattern) {
			patterns = append(patterns, pattern.String())
		}
	}
	return strings.Join(patterns, ", ")
}

// when returns " when" and the rule's condition, or "" if there is no condition.
func when(r *config.Rule) string {
	if r.When == nil {
		return ""
	}
	return " when " + r.When.String()
}

// overrides adds the changes of a team's prompt blocks.
func (d *differ) overrides(team string, before, after []config.Override) {
	pairs(before, after, func(o *config.Override) string { return o.Prompt }, func(old, now *config.Override) {
		switch {
		case now == nil:
			d.override(team, old.Place, *old, config.Override{Prompt: old.Prompt})
		case old == nil:
			d.override(team, now.Place, config.Override{Prompt: now.Prompt}, *now)
		default:
			d.override(team, now.Place, *old, *now)
		}
	})
}

// override adds the changes of one prompt block. For a new or removed block, the missing Override has
// only its Prompt set.
func (d *differ) override(team string, place config.Place, old, now config.Override) {
	if was, is := cmp.Or(old.Name, old.Prompt), cmp.Or(now.Name, now.Prompt); was != is {
		d.add(Other, place, "prompt %q of team %q is renamed: %q instead of %q", now.Prompt, team, is, was)
	}
	old.Name, old.Place = now.Name, now.Place // a new name was added above, and locations do not matter
	if !reflect.DeepEqual(old, now) {
		d.add(Other, place, "prompt %q of team %q has a different description or different arguments", now.Prompt, team)
	}
}

// Sign is the kind of a [Change], as in the output of git.
type Sign string

// The kinds of changes. A new rule may show or hide prompts; the text of the change tells which of the
// two.
const (
	Added   Sign = "+" // a rule, an upstream, a member or a permission is new
	Removed Sign = "-" // a rule, an upstream, a member or a permission was removed
	Other   Sign = "!" // a setting has a different value
)

// Change is one difference between two configurations.
type Change struct {
	Sign Sign `json:"sign"`
	// Rule is the location of the block in the new configuration, as PATH:LINE. For a removed block, it
	// is the location in the old configuration. It is empty if the change has no single block.
	Rule string `json:"rule,omitempty"`
	// Text describes the change for people.
	Text string `json:"text"`
}

// differ collects changes.
type differ struct{ changes []Change }

func (d *differ) add(sign Sign, place config.Place, text string, args ...any) {
	d.changes = append(d.changes, Change{sign, place.String(), fmt.Sprintf(text, args...)})
}

// ownerOf returns "of team …", or "of the gateway" if team is empty, for the text of a change or step.
func ownerOf(team string) string {
	if team == "" {
		return "of the gateway"
	}
	return fmt.Sprintf("of team %q", team)
}
