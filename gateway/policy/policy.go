// Package policy answers: which prompts may a principal see, and which rule says so?
//
// A decision is made of two halves, so that the work is done where it is seldom:
//
//	                       when the entry or the policy changes
//	team, upstream, name ──────────── Grants ───▶ the rules that show the entry ──┐
//	                                                                              ├▶ Allows: one in common?
//	principal ─────────────────────── Audience ─▶ the rules that are for it ──────┘
//	                       once per request
//
// There are two kinds of rule that show an entry: membership of the owner's team, and an expose block of
// that team. A hide block leaves the entry without any. What no rule shows is invisible: every unknown
// (a team, an upstream, the zero [Grants], a half from another policy) ends there.
//
// The when of a block is decided with the Grants where it reads the prompt only, and once for each audience where it
// reads the principal. One that cannot be evaluated hides, or does not expose.
//
// Decisions follow the owner. A name is only ever compared with the globs of the owner's team and of the
// gateway; it is never taken apart.
//
// A [Policy] never changes. It is safe for concurrent use, and nothing here blocks.
package policy

import (
	"hash/maphash"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promptweir/promptweir/config"
)

// Policy is the part of one configuration that says who sees what. Make it with [New].
type Policy struct {
	teams map[string]*team
	hides []*block
	// rules are all that can show an entry; a rule is named by its index.
	rules []rule

	// Whom the rules are for: directly, through membership of a team, and through membership of every team.
	direct     map[config.Selector][]int
	membership map[config.Selector][]int
	everyTeam  []int

	// members are those of each team; open says that everybody is of every team.
	members map[string][]config.Selector
	open    bool

	// audiences are those asked for last, decisions those made last.
	audiences *lru.Cache[string, *Audience]
	placed    placements
	decisions *lru.Cache[decision, bool]
	// reads are what of every principal the hide blocks read.
	reads []string
	// reading are the rules whose when reads the principal.
	reading []int
	// failed is nil where nobody wants to know.
	failed func(Failure)
}

// team is a team that owns upstreams. One that owns none shows nothing: it is only a set of people.
type team struct {
	upstreams map[string]config.Place // where each one's block begins
	hides     []*block
	// The team's rules are first (its membership) and those after it, before end (its exposes).
	first, end int
}

// rule shows entries of a team to somebody: to its members, or to whom an expose block names.
type rule struct {
	team   string
	expose *block // nil for membership
	place  config.Place
}

// New returns the policy of a checked configuration, which it keeps and never changes.
func New(cfg *config.Config) *Policy {
	audiences, err := lru.New[string, *Audience](maxAudiences)
	if err != nil {
		panic(err) // it refuses sizes below one only
	}
	decisions, err := lru.New[decision, bool](maxDecisions)
	if err != nil {
		panic(err) // as above
	}
	p := &Policy{
		audiences:  audiences,
		placed:     placements{seed: maphash.MakeSeed()},
		decisions:  decisions,
		teams:      map[string]*team{},
		hides:      newBlocks(cfg.Hides, true),
		direct:     map[config.Selector][]int{},
		membership: map[config.Selector][]int{},
		members:    map[string][]config.Selector{},
		open:       cfg.Auth == nil,
	}
	for i := range cfg.Teams {
		p.members[cfg.Teams[i].Name] = cfg.Teams[i].Members
	}
	for i := range cfg.Teams {
		if t := &cfg.Teams[i]; len(t.Upstreams) > 0 {
			p.addTeam(t)
		}
	}
	p.addReads(p.hides)
	return p
}

// addReads notes what hide blocks read: it tells everybody apart.
func (p *Policy) addReads(hides []*block) {
	for _, hide := range hides {
		p.reads = append(p.reads, hide.reads()...)
	}
}

func (p *Policy) addTeam(t *config.Team) {
	owner := &team{upstreams: map[string]config.Place{}, hides: newBlocks(t.Hides, true), first: len(p.rules)}
	p.addReads(owner.hides)
	for _, u := range t.Upstreams {
		owner.upstreams[u.Name] = u.Place
	}
	p.addRule(rule{team: t.Name, place: t.Place}, []config.Selector{{Kind: config.TeamOf, Name: t.Name}})
	for i := range t.Exposes {
		expose := &t.Exposes[i]
		p.addRule(rule{team: t.Name, expose: newBlock(expose, false), place: expose.Place}, expose.To)
	}
	owner.end = len(p.rules)
	p.teams[t.Name] = owner
}

// addRule indexes a rule by whom it is for, with each team replaced by its members.
func (p *Policy) addRule(r rule, to []config.Selector) {
	id := len(p.rules)
	p.rules = append(p.rules, r)
	if len(r.expose.reads()) > 0 {
		p.reading = append(p.reading, id)
	}
	for _, selector := range to {
		if selector.Kind != config.TeamOf {
			p.direct[selector] = append(p.direct[selector], id)
			continue
		}
		p.everyTeam = append(p.everyTeam, id)
		for _, member := range p.members[selector.Name] {
			p.membership[member] = append(p.membership[member], id)
		}
	}
}

// Grants is what the policy says about one entry: the rules that show it. It stays true until the entry or the
// policy changes. The zero value shows the entry to nobody.
type Grants struct {
	policy *Policy
	rules  []int32
	// gated is nil where no when reads the principal.
	gated *gated
}

// gated is what is still to be decided for each audience.
type gated struct {
	hides []*gate
	// shows has a gate for each of the rules; nil for one that always shows.
	shows []*gate
}

// Grants says which rules show the entry with an exposed name and a definition, as JSON, that an upstream of a team
// owns. Where the team has no such upstream, none does.
func (p *Policy) Grants(team, upstream, name string, definition []byte) Grants {
	t := p.owner(team, upstream)
	if t == nil {
		return Grants{}
	}
	entry := &subject{team: team, upstream: upstream, name: name, definition: definition}
	hides, hidden := p.hidesOf(t, entry)
	if hidden {
		return Grants{}
	}
	grants := Grants{policy: p}
	if len(hides) > 0 {
		grants.gated = &gated{hides: hides}
	}
	for id := t.first; id < t.end; id++ {
		r := &p.rules[id]
		if !r.shows(name) {
			continue
		}
		if counts, open := p.decide(r.expose, entry); counts || open != nil {
			grants.add(id, open)
		}
	}
	grants.rules = slices.Clip(grants.rules) // kept for as long as the entry is
	return grants
}

// add adds a rule, with the gate that decides whether it shows the entry; nil where it does.
func (g *Grants) add(id int, open *gate) {
	g.rules = append(g.rules, int32(id))
	if open != nil && g.gated == nil {
		g.gated = &gated{}
	}
	if g.gated != nil {
		missing := len(g.rules) - 1 - len(g.gated.shows)
		g.gated.shows = append(append(g.gated.shows, make([]*gate, missing)...), open)
	}
}

// hidesOf reports whether an entry of a team's is hidden from everybody, and the gates that may hide it from some.
func (p *Policy) hidesOf(t *team, entry *subject) (gates []*gate, hidden bool) {
	for _, hides := range [][]*block{p.hides, t.hides} {
		for _, hide := range hides {
			if !hide.Matches(entry.name) {
				continue
			}
			counts, open := p.decide(hide, entry)
			if counts {
				return nil, true
			}
			if open != nil {
				gates = append(gates, open)
			}
		}
	}
	return gates, false
}

func (p *Policy) owner(team, upstream string) *team {
	t, ok := p.teams[team]
	if !ok {
		return nil
	}
	if _, ok := t.upstreams[upstream]; !ok {
		return nil
	}
	return t
}

func (r *rule) shows(name string) bool { return r.expose == nil || r.expose.Matches(name) }
