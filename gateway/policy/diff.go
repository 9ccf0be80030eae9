package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Sign says how a [Change] changes what is seen.
type Sign string

// The signs of changes.
const (
	More  Sign = "+" // more is seen, or by more
	Less  Sign = "-" // less is seen, or by fewer
	Other Sign = "!" // neither, or it depends
)

// Change is one thing that a configuration says otherwise than the one before about who sees what, and under which names.
type Change struct {
	Sign Sign `json:"sign"`
	// Rule is where the block begins, as PATH:LINE, in the later configuration, or in the one before where it is gone
	// from the later.
	Rule string `json:"rule,omitempty"`
	// Text says it in words.
	Text string `json:"text"`
}

// Diff says what changes between two configurations, from what they say alone. The order and the labels of blocks, where
// they stand, and how a rule is divided into blocks do not count.
func Diff(before, after *config.Config) []Change {
	d := &differ{}
	d.gateway(before, after)
	d.hides("", before.Hides, after.Hides)
	d.screens("", before.Gateway.Screens, after.Gateway.Screens)
	d.locks(before, after)
	was, is := byName(before.Teams), byName(after.Teams)
	for _, name := range unionOfNames(before.Teams, after.Teams) {
		old, now := was[name], is[name]
		d.upstreams(name, old.Upstreams, now.Upstreams)
		d.members(old, now)
		d.exposes(name, old.Exposes, now.Exposes)
		d.hides(name, old.Hides, now.Hides)
		d.shapes(name, old.Shapes, now.Shapes)
		d.screens(name, old.Screens, now.Screens)
	}
	return d.changes
}

func byName(teams []config.Team) map[string]config.Team {
	all := map[string]config.Team{}
	for _, t := range teams {
		all[t.Name] = t
	}
	return all
}

// unionOfNames returns the names of the teams of both configurations, in the later one's order.
func unionOfNames(before, after []config.Team) []string {
	var names []string
	for _, t := range slices.Concat(after, before) {
		if !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

type differ struct{ changes []Change }

func (d *differ) add(sign Sign, place config.Place, text string, args ...any) {
	d.changes = append(d.changes, Change{sign, ruleAt(place), fmt.Sprintf(text, args...)})
}

// ruleAt is where a block begins, "" for one that is in no file.
func ruleAt(place config.Place) string {
	if place == (config.Place{}) {
		return ""
	}
	return place.String()
}

func (d *differ) gateway(before, after *config.Config) {
	switch {
	case before.Auth == nil && after.Auth != nil:
		d.add(Less, config.Place{}, "callers have to say who they are: nobody is in every team any more")
	case before.Auth != nil && after.Auth == nil:
		d.add(More, config.Place{}, "there is no auth block any more: everybody is in every team")
	case before.Auth != nil && before.Auth.Anonymous && !after.Auth.Anonymous:
		d.add(Less, config.Place{}, "callers without a credential see nothing any more")
	case before.Auth != nil && !before.Auth.Anonymous && after.Auth.Anonymous:
		d.add(More, config.Place{}, `callers without a credential see what is exposed to "*"`)
	}
	if before.Auth != nil && after.Auth != nil {
		d.callers(before.Auth, after.Auth)
	}
	if was, is := before.Gateway.Separator, after.Gateway.Separator; was != is {
		d.add(Other, config.Place{}, "separator %q instead of %q: the names of all prompts with a prefix change", is, was)
	}
	if was, is := before.Gateway.Conflict, after.Gateway.Conflict; was != is {
		d.add(Other, config.Place{}, "conflict = %q instead of %q", is, was)
	}
}

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
			d.add(Less, old.Place, "upstream %q of team %q is gone", old.Name, team)
		}
	}
	for i := range after {
		now := &after[i]
		old := find(before, now.Name)
		switch {
		case old == nil:
			d.add(More, now.Place, "upstream %q of team %q is new: its members see its prompts, %s", now.Name, team, prefixed(now.Prefix))
			continue
		case old.Address() != now.Address() || old.Transport != now.Transport:
			d.add(Other, now.Place, "upstream %q of team %q is another server now: %s instead of %s", now.Name, team, now.Address(), old.Address())
		}
		if old.Prefix != now.Prefix {
			d.add(Other, now.Place, "the prompts of upstream %q of team %q are called otherwise: %s instead of %s",
				now.Name, team, prefixed(now.Prefix), prefixed(old.Prefix))
		}
	}
}

func prefixed(prefix string) string {
	if prefix == "" {
		return "without a prefix"
	}
	return fmt.Sprintf("with the prefix %q", prefix)
}

func (d *differ) members(before, after config.Team) {
	for _, who := range before.Members {
		if !slices.Contains(after.Members, who) {
			d.add(Less, cmp.Or(after.Place, before.Place), "%s is not a member of team %q any more", who, before.Name)
		}
	}
	for _, who := range after.Members {
		if !slices.Contains(before.Members, who) {
			d.add(More, after.Place, "%s is a member of team %q", who, after.Name)
		}
	}
}

func (d *differ) exposes(team string, before, after []config.Rule) {
	d.exposed(Less, after, before, "%s of team %q does not show %s to %s%s any more", team)
	d.exposed(More, before, after, "%s of team %q shows %s to %s%s", team)
}

// exposed adds what some rules show that others do not.
func (d *differ) exposed(sign Sign, others, rules []config.Rule, text, team string) {
	for i := range rules {
		r := &rules[i]
		for _, who := range r.To {
			patterns := unsaid(r, others, func(other *config.Rule) bool { return slices.Contains(other.To, who) })
			if patterns != "" {
				d.add(sign, r.Place, text, title("expose", r), team, patterns, who, when(r))
			}
		}
	}
}

// hides adds what hide blocks of a team, or with "" of the gateway, change.
func (d *differ) hides(team string, before, after []config.Rule) {
	whose := "of the gateway"
	if team != "" {
		whose = fmt.Sprintf("of team %q", team)
	}
	d.hidden(More, after, before, "%s %s does not remove %s%s any more", whose)
	d.hidden(Less, before, after, "%s %s removes %s from everybody%s", whose)
}

func (d *differ) hidden(sign Sign, others, rules []config.Rule, text, whose string) {
	for i := range rules {
		r := &rules[i]
		if patterns := unsaid(r, others, func(*config.Rule) bool { return true }); patterns != "" {
			d.add(sign, r.Place, text, title("hide", r), whose, patterns, when(r))
		}
	}
}

// unsaid returns those of a rule's patterns that none of the others has, of those that are like it otherwise.
func unsaid(r *config.Rule, others []config.Rule, like func(*config.Rule) bool) string {
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

// when is a rule's condition as it continues a sentence.
func when(r *config.Rule) string {
	if r.When == nil {
		return ""
	}
	return " when " + r.When.String()
}

// shapes adds what prompt blocks change.
func (d *differ) shapes(team string, before, after []config.Shape) {
	find := func(in []config.Shape, prompt string) config.Shape {
		at := slices.IndexFunc(in, func(s config.Shape) bool { return s.Prompt == prompt })
		if at < 0 {
			return config.Shape{Prompt: prompt}
		}
		return in[at]
	}
	for _, now := range after {
		d.shape(team, now.Place, find(before, now.Prompt), now)
	}
	for _, old := range before {
		if now := find(after, old.Prompt); now.Place == (config.Place{}) {
			d.shape(team, old.Place, old, now)
		}
	}
}

func (d *differ) shape(team string, place config.Place, old, now config.Shape) {
	if was, is := cmp.Or(old.Name, old.Prompt), cmp.Or(now.Name, now.Prompt); was != is {
		d.add(Other, place, "prompt %q of team %q is called %q instead of %q", now.Prompt, team, is, was)
	}
	old.Name, old.Place = now.Name, now.Place
	if !reflect.DeepEqual(old, now) {
		d.add(Other, place, "prompt %q of team %q is described, or takes arguments, otherwise", now.Prompt, team)
	}
}
