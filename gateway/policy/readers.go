package policy

import (
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Reader is whom one rule shows an entry to.
type Reader struct {
	// Who is a user, a group or anybody: a team stands for its members.
	Who config.Selector
	// When is what has to hold of the principal beside that; empty where nothing has to.
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

// Everybody reports whether the rule shows the entry to all there are.
func (r Reader) Everybody() bool { return r.Who.Kind == config.Anybody && r.When == "" }

// Readers returns all whom some rule shows an entry to, each once with the first rule that does, in the order of the rules.
// It is what [Policy.Explain] says of everybody at once.
func (p *Policy) Readers(team, upstream, name string, definition []byte) []Reader {
	grants := p.Grants(team, upstream, name, definition)
	var readers []Reader
	for i, id := range grants.rules {
		r, when := &p.rules[id], grants.when(i)
		for _, who := range p.readersOf(r) {
			reader := Reader{who, when, r.place.String()}
			if !slices.ContainsFunc(readers, func(known Reader) bool { return known.String() == reader.String() }) {
				readers = append(readers, reader)
			}
		}
	}
	return readers
}

// when is what has to hold of a principal for the rule at a position to show the entry, and none of the hide blocks to
// hide it.
func (g Grants) when(at int) string {
	if g.gated == nil {
		return ""
	}
	var all []string
	if shows := g.gated.shows[at]; shows != nil {
		all = append(all, shows.When.String())
	}
	for _, hides := range g.gated.hides {
		all = append(all, "not ("+hides.When.String()+")")
	}
	return strings.Join(all, " and ")
}

// readersOf returns whom a rule is for.
func (p *Policy) readersOf(r *rule) []config.Selector {
	to := []config.Selector{{Kind: config.TeamOf, Name: r.team}}
	if r.expose != nil {
		to = r.expose.To
	}
	var readers []config.Selector
	for _, selector := range to {
		switch {
		case selector.Kind != config.TeamOf:
			readers = append(readers, selector)
		case p.open:
			readers = append(readers, config.Selector{Kind: config.Anybody})
		default:
			readers = append(readers, p.members[selector.Name]...)
		}
	}
	return readers
}

// HiddenBy returns where the block begins that hides an entry from everybody, as PATH:LINE; "" where none does.
func (p *Policy) HiddenBy(team, upstream, name string, definition []byte) string {
	t := p.owner(team, upstream)
	if t == nil {
		return ""
	}
	entry := &subject{team: team, upstream: upstream, name: name, definition: definition}
	for _, hide := range slices.Concat(p.hides, t.hides) {
		if !hide.Matches(name) {
			continue
		}
		if counts, _ := p.decide(hide, entry); counts {
			return hide.Place.String()
		}
	}
	return ""
}
