package policy

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Diff returns the changes from one configuration to another, without looking at any upstream's
// prompts. The order, labels and places of blocks do not matter, nor does how a rule is divided
// into blocks.
func Diff(before, after *config.Config) []Change {
	d := &differ{}
	d.gateway(before, after)
	d.hides("", before.Hides, after.Hides)
	d.screens("", before.Gateway.Screens, after.Gateway.Screens)
	d.locks(before, after)
	d.owners(before, after)
	// A team that is in one configuration only is compared with an empty one.
	was, is := byName(before.Teams), byName(after.Teams)
	for _, name := range unionOfNames(before.Teams, after.Teams) {
		old, now := was[name], is[name]
		d.upstreams(name, old.Upstreams, now.Upstreams)
		d.members(old, now)
		d.exposes(name, old.Exposes, now.Exposes)
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

// unionOfNames returns the names of the teams of both configurations, in the order of the later
// one.
func unionOfNames(before, after []config.Team) []string {
	var names []string
	for _, t := range slices.Concat(after, before) {
		if !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// gateway adds the changes that concern every team.
func (d *differ) gateway(before, after *config.Config) {
	switch {
	case before.Auth == nil && after.Auth != nil:
		d.add(Less, config.Place{}, "callers must authenticate: they are no longer members of every team")
	case before.Auth != nil && after.Auth == nil:
		d.add(More, config.Place{}, "the auth block is removed: everybody is a member of every team")
	case before.Auth != nil && before.Auth.Anonymous && !after.Auth.Anonymous:
		d.add(Less, config.Place{}, "callers without a credential no longer see anything")
	case before.Auth != nil && !before.Auth.Anonymous && after.Auth.Anonymous:
		d.add(More, config.Place{}, `callers without a credential see what is exposed to "*"`)
	}
	if before.Auth != nil && after.Auth != nil {
		d.callers(before.Auth, after.Auth)
	}
	// What these change depends on the prompts, which Diff does not know.
	if was, is := before.Gateway.Separator, after.Gateway.Separator; was != is {
		d.add(Other, config.Place{}, "separator %q instead of %q: all prompts with a prefix are renamed", is, was)
	}
	if was, is := before.Gateway.Conflict, after.Gateway.Conflict; was != is {
		d.add(Other, config.Place{}, "conflict = %q instead of %q", is, was)
	}
}

// upstreams adds the upstreams of a team that are new, removed, renamed or somewhere else.
func (d *differ) upstreams(team string, before, after []config.Upstream) {
	find := func(in []config.Upstream, name string) *config.Upstream {
		at := slices.IndexFunc(in, func(u config.Upstream) bool { return u.Name == name })
		if at < 0 {
			return nil
		}
		return &in[at]
	}
	for i := range before {
		if old := &before[i]; find(after, old.Name) == nil {
			d.add(Less, old.Place, "upstream %q of team %q is removed", old.Name, team)
		}
	}
	for i := range after {
		now := &after[i]
		old := find(before, now.Name)
		switch {
		case old == nil:
			d.add(More, now.Place, "upstream %q of team %q is new: the team's members see its "+
				"prompts, %s", now.Name, team, prefixed(now.Prefix))
			continue // everything else about it is new as well
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
	}
}

// owners adds the names that now belong to another team.
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
			d.add(Other, config.Place{}, "names that begin with %q belong to team %q instead "+
				"of team %q", name, now, old)
		}
	}
}

// nameOwners has the team of each prefix, and of each name that a prompt block gives.
type nameOwners struct{ prefixes, renamed map[string]string }

func namesOf(cfg *config.Config) nameOwners {
	n := nameOwners{map[string]string{}, map[string]string{}}
	for _, t := range cfg.Teams {
		for _, u := range t.Upstreams {
			if owner, isOwned := n.prefixes[u.Prefix]; isOwned && owner != t.Name {
				n.prefixes[u.Prefix] = "" // which no configuration that loads has
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

// owner returns the team that a name belongs to, "" if none: that of its longest prefix, then that
// of a rename to it, then that of names without a prefix.
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

// withSeparator returns what the names with a prefix begin with.
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
	for _, who := range before.Members {
		if !slices.Contains(after.Members, who) {
			d.add(Less, cmp.Or(after.Place, before.Place), "%s is no longer a member of team %q", who, before.Name)
		}
	}
	for _, who := range after.Members {
		if !slices.Contains(before.Members, who) {
			d.add(More, after.Place, "%s is a member of team %q", who, after.Name)
		}
	}
}

// exposes adds the changes of a team's expose blocks.
func (d *differ) exposes(team string, before, after []config.Rule) {
	d.exposed(Less, after, before, "%s of team %q no longer shows %s to %s%s", team)
	d.exposed(More, before, after, "%s of team %q shows %s to %s%s", team)
}

// exposed adds what rules show that none of the others shows.
func (d *differ) exposed(sign Sign, others, rules []config.Rule, text, team string) {
	for i := range rules {
		r := &rules[i]
		// By reader and pattern, since a rule may be divided into blocks in another way without
		// changing anything.
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
	d.hidden(More, after, before, "%s %s no longer removes %s%s", whose)
	d.hidden(Less, before, after, "%s %s removes %s from everybody%s", whose)
}

// hidden adds what rules hide that none of the others hides.
func (d *differ) hidden(sign Sign, others, rules []config.Rule, text, whose string) {
	for i := range rules {
		r := &rules[i]
		if patterns := onlyIn(r, others, func(*config.Rule) bool { return true }); patterns != "" {
			d.add(sign, r.Place, text, r.Title(kindHide), whose, patterns, when(r))
		}
	}
}

// onlyIn returns the rule's patterns that are in no other rule that is alike apart from its
// patterns.
func onlyIn(r *config.Rule, others []config.Rule, like func(*config.Rule) bool) string {
	var patterns []string
	for _, pattern := range r.Prompts {
		said := func(other config.Rule) bool {
			return like(&other) && when(&other) == when(r) &&
				slices.ContainsFunc(other.Prompts, func(p config.Pattern) bool { return p.String() == pattern.String() })
		}
		if !slices.ContainsFunc(others, said) {
			patterns = append(patterns, pattern.String())
		}
	}
	return strings.Join(patterns, ", ")
}

// when returns a rule's condition as it continues a sentence.
func when(r *config.Rule) string {
	if r.When == nil {
		return ""
	}
	return " when " + r.When.String()
}

// overrides adds the changes of a team's prompt blocks.
func (d *differ) overrides(team string, before, after []config.Override) {
	find := func(in []config.Override, prompt string) config.Override {
		at := slices.IndexFunc(in, func(s config.Override) bool { return s.Prompt == prompt })
		if at < 0 {
			return config.Override{Prompt: prompt}
		}
		return in[at]
	}
	for _, now := range after {
		d.override(team, now.Place, find(before, now.Prompt), now)
	}
	for _, old := range before {
		if now := find(after, old.Prompt); now.Place == (config.Place{}) { // find made it up
			d.override(team, old.Place, old, now)
		}
	}
}

// override adds the change of one prompt block. Either of the two may be empty.
func (d *differ) override(team string, place config.Place, old, now config.Override) {
	if was, is := cmp.Or(old.Name, old.Prompt), cmp.Or(now.Name, now.Prompt); was != is {
		d.add(Other, place, "prompt %q of team %q is renamed: %q instead of %q", now.Prompt, team, is, was)
	}
	old.Name, old.Place = now.Name, now.Place // which are reported above, or do not matter
	if !reflect.DeepEqual(old, now) {
		d.add(Other, place, "prompt %q of team %q has a different description or different arguments", now.Prompt, team)
	}
}

// Sign says in which direction a [Change] goes.
type Sign string

// The directions of changes.
const (
	More  Sign = "+" // more prompts are visible, or to more principals
	Less  Sign = "-" // fewer prompts are visible, or to fewer principals
	Other Sign = "!" // neither, or it depends
)

// Change is one difference between two configurations in who sees which prompts, and under which
// names.
type Change struct {
	Sign Sign `json:"sign"`
	// Rule is where the block begins, as PATH:LINE: in the later configuration or, if it was
	// removed, in the earlier one.
	Rule string `json:"rule,omitempty"`
	// Text says it in words.
	Text string `json:"text"`
}

// differ collects changes.
type differ struct{ changes []Change }

func (d *differ) add(sign Sign, place config.Place, text string, args ...any) {
	d.changes = append(d.changes, Change{sign, ruleAt(place), fmt.Sprintf(text, args...)})
}

// ruleAt is where a block begins, "" if it is in no file.
func ruleAt(place config.Place) string {
	if place == (config.Place{}) {
		return ""
	}
	return place.String()
}

// ownerOf names whose a block is, as it continues a sentence.
func ownerOf(team string) string {
	if team == "" {
		return "of the gateway"
	}
	return fmt.Sprintf("of team %q", team)
}
