package policy

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/promptweir/promptweir/config"
)

// maxAudiences bounds the audiences that a policy keeps.
const maxAudiences = 10_000

// Audience is all principals whom the policy cannot tell apart. It never changes.
type Audience struct {
	policy *Policy
	// rules is the set of rules that are for the audience, a bit each. It is a string since it is what tells
	// one audience from another.
	rules string
	// facts are what a when reads of its principals: of what any when reads, they have the same.
	facts config.PrincipalFacts
}

// Audience returns the audience that a principal belongs to: the same pointer for all who belong to it, as long as it
// is among the 10 000 asked for last.
func (p *Policy) Audience(who Principal) *Audience {
	slot := p.placed.slot(who)
	known := slot.Load()
	if known == nil || !known.who.equal(who) {
		rules := p.rulesFor(who)
		facts, key := p.facts(who, rules)
		known = &placement{who, key, string(rules), facts}
		slot.Store(known)
	}
	if kept, ok := p.audiences.Get(known.key); ok {
		return kept
	}
	fresh := &Audience{p, known.rules, known.facts}
	if kept, ok, _ := p.audiences.PeekOrAdd(known.key, fresh); ok { // somebody else was faster
		return kept
	}
	return fresh
}

// placements remember to which audience some principals belong. Where two fall into one slot, the later one stays.
type placements struct {
	seed  maphash.Seed
	slots [1024]atomic.Pointer[placement]
}

// placement is what makes a principal's audience.
type placement struct {
	who   Principal
	key   string
	rules string
	facts config.PrincipalFacts
}

func (p *placements) slot(who Principal) *atomic.Pointer[placement] {
	return &p.slots[maphash.String(p.seed, who.Subject)%uint64(len(p.slots))]
}

// facts returns what the blocks that bear on a principal may read, and what is equal for all principals of its audience: the
// rules that are for them, and the values of whatever those blocks do read.
func (p *Policy) facts(who Principal, rules []byte) (facts config.PrincipalFacts, key string) {
	reads := slices.Clone(p.reads)
	for _, id := range p.reading {
		if contains(rules, id) {
			reads = append(reads, p.rules[id].expose.reads()...)
		}
	}
	if len(reads) == 0 {
		return facts, string(rules)
	}
	facts = who.facts()
	slices.Sort(reads)
	values := slices.Clone(rules)
	for _, read := range slices.Compact(reads) { // which they are follows from the rules
		value := facts.Value(read)
		values = append(strconv.AppendInt(values, int64(len(value)), 10), ' ')
		values = append(values, value...)
	}
	return facts, string(values)
}

// Allows reports whether the audience may see an entry. It is the one decision, for list, get, completion and
// notification alike. An audience and grants of two different policies allow nothing.
func (a *Audience) Allows(g Grants) bool { return a.allowedBy(g) != nil }

// allowedBy returns the first rule by which the audience may see an entry; nil means that it may not.
func (a *Audience) allowedBy(g Grants) *rule {
	if a.policy != g.policy {
		return nil
	}
	if g.gated != nil && slices.ContainsFunc(g.gated.hides, a.opens) {
		return nil
	}
	for i, id := range g.rules {
		if a.has(int(id)) && (g.gated == nil || a.opens(g.gated.shows[i])) {
			return &a.policy.rules[id]
		}
	}
	return nil
}

// Limit returns that of the expose block by which the audience sees an entry; nil where it has none, or where the
// audience is of the team's members.
func (a *Audience) Limit(g Grants) *config.Limit {
	if r := a.allowedBy(g); r != nil && r.expose != nil {
		return r.expose.Limit
	}
	return nil
}

// SeesTeam reports whether the audience may see anything at all of what a team owns: it is of the team's members, or some
// expose block of the team is for it, whatever that block matches at present.
func (a *Audience) SeesTeam(team string) bool {
	t, ok := a.policy.teams[team]
	if !ok {
		return false
	}
	for id := t.first; id < t.end; id++ {
		if a.has(id) {
			return true
		}
	}
	return false
}

// Member reports whether the audience is of a team's members.
func (a *Audience) Member(team string) bool {
	t, ok := a.policy.teams[team]
	return ok && t.first < t.end && a.has(t.first)
}

func (a *Audience) has(rule int) bool { return contains(a.rules, rule) }

func contains[T string | []byte](rules T, id int) bool { return rules[id/8]&(1<<(id%8)) != 0 }

// rulesFor returns the set of rules that are for a principal.
func (p *Policy) rulesFor(who Principal) []byte {
	set := make([]byte, (len(p.rules)+7)/8)
	add := func(rules []int) {
		for _, id := range rules {
			set[id/8] |= 1 << (id % 8)
		}
	}
	if who.EveryTeam {
		add(p.everyTeam)
	}
	for selector := range who.selectors {
		add(p.direct[selector])
		if !who.Anonymous {
			add(p.membership[selector])
		}
	}
	return set
}

// selectors yields whatever a team's members or an expose block may call the principal.
func (p Principal) selectors(yield func(config.Selector) bool) {
	if !yield(config.Selector{Kind: config.Anybody}) {
		return
	}
	if name, ok := strings.CutPrefix(p.Subject, "user:"); ok && !yield(config.Selector{Kind: config.User, Name: name}) {
		return
	}
	for _, group := range p.Groups {
		if name, ok := strings.CutPrefix(group, "group:"); ok && !yield(config.Selector{Kind: config.Group, Name: name}) {
			return
		}
	}
}
