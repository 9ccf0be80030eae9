package policy

import (
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Reader is somebody whom a rule shows an entry.
type Reader struct {
	// Who is a user, a group or anybody. A team is replaced by its members.
	Who config.Selector
	// When is the condition that the principal has to satisfy as well; empty if there is none.
	When string
	// Rule is where the rule's block begins, as PATH:LINE.
	Rule string
}

func (r Reader) String() string {
	if r.When == "" {
		return r.Who.String()
	}
	return r.Who.String() + " when " + r.When
}

// Everybody reports whether the rule shows the entry to everybody, without a condition.
func (r Reader) Everybody() bool { return r.Who.Kind == config.Anybody && r.When == "" }

// Readers returns everybody whom some rule shows an entry, each once with the first such rule, in
// the order of the rules. It agrees with [Policy.Explain], but for all principals at once.
func (p *Policy) Readers(team, upstream, name string, definition []byte) []Reader {
	v := p.Visibility(team, upstream, name, definition)
	if v == nil {
		return nil
	}
	var readers []Reader
	for i, id := range v.rules {
		r, when := &p.rules[id], v.when(i)
		for _, who := range p.selectorsOf(r) {
			reader := Reader{who, when, r.place.String()}
			// Two rules may show the entry to the same readers; the first is the one that Explain
			// names.
			if !slices.ContainsFunc(readers, func(known Reader) bool { return known.String() == reader.String() }) {
				readers = append(readers, reader)
			}
		}
	}
	return readers
}

// when returns the condition under which the i-th rule shows the entry and no hide block hides it.
func (v *Visibility) when(i int) string {
	if v.conditional == nil {
		return ""
	}
	var all []string
	if shows := v.conditional.shows[i]; shows != nil {
		all = append(all, shows.When.String())
	}
	for _, hides := range v.conditional.hides {
		all = append(all, "not ("+hides.When.String()+")")
	}
	return strings.Join(all, " and ")
}

// selectorsOf returns whom a rule applies to, with teams replaced by their members.
func (p *Policy) selectorsOf(r *rule) []config.Selector {
	to := []config.Selector{{Kind: config.TeamMembers, Name: r.team}}
	if r.expose != nil {
		to = r.expose.To
	}
	var readers []config.Selector
	for _, selector := range to {
		switch {
		case selector.Kind != config.TeamMembers:
			readers = append(readers, selector)
		case p.open: // everybody is a member of every team
			readers = append(readers, config.Selector{Kind: config.Anybody})
		default:
			readers = append(readers, p.members[selector.Name]...)
		}
	}
	return readers
}

// HiddenBy returns where the block that hides an entry from everybody begins, as PATH:LINE; "" if
// there is none.
func (p *Policy) HiddenBy(team, upstream, name string, definition []byte) string {
	t := p.owner(team, upstream)
	if t == nil {
		return ""
	}
	e := &entry{team: team, upstream: upstream, name: name, definition: definition}
	// Only blocks that hide from everybody count: what others hide depends on who is calling.
	for _, hide := range slices.Concat(p.hides, t.hides) {
		if !hide.Matches(name) {
			continue
		}
		if applies, _ := p.decide(hide, e); applies {
			return hide.Place.String()
		}
	}
	return ""
}
