package policy

import (
	"fmt"
	"slices"
	"strconv"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promptweir/promptweir/config"
)

// Policy decides for one configuration who may see which prompts. Make it with [New].
type Policy struct {
	teams map[string]*team
	hides []*block
	// rules are all rules that can show entries. Audiences and visibilities refer to a rule by its
	// index.
	rules []rule

	// These are indexes of rules by their readers: readers that an expose block names, readers that a
	// team lists as members, and members of every team. They save a pass over all rules.
	direct     map[config.Selector][]int
	membership map[config.Selector][]int
	everyTeam  []int

	// members maps each team to its members.
	members map[string][]config.Selector
	// open is true if there is no auth block. Everyone is then a member of every team.
	open bool

	audiences  *lru.Cache[string, *Audience]
	placements *lru.Cache[string, *placement] // by subject
	decisions  *lru.Cache[decision, bool]

	// hideReads are the principal attributes that hide blocks read. Their values are part of every
	// audience key, because hide blocks apply to all principals.
	hideReads []string
	// conditionalRules are the indexes of the rules with a condition on the principal.
	conditionalRules []int

	onFailure func(Failure) // nil unless ReportFailures was called
}

// New returns the policy of a validated configuration. It keeps a reference to the configuration
// and does not change it.
func New(cfg *config.Config) *Policy {
	audiences, _ := lru.New[string, *Audience](maxAudiences) // fails only for a size below one
	decisions, _ := lru.New[decision, bool](maxDecisions)
	placements, _ := lru.New[string, *placement](maxPlacements)
	p := &Policy{
		audiences:  audiences,
		placements: placements,
		decisions:  decisions,
		teams:      map[string]*team{},
		direct:     map[config.Selector][]int{},
		membership: map[config.Selector][]int{},
		members:    map[string][]config.Selector{},
		open:       cfg.Auth == nil,
	}
	p.hides = p.newHides(cfg.Hides)
	// All members come first, because a team's expose block may name any other team.
	for i := range cfg.Teams {
		p.members[cfg.Teams[i].Name] = cfg.Teams[i].Members
	}
	for i := range cfg.Teams {
		if t := &cfg.Teams[i]; len(t.Upstreams) > 0 {
			p.addTeam(t)
		}
	}
	return p
}

// newHides returns hide blocks, and records the principal attributes that they read.
func (p *Policy) newHides(rules []config.Rule) []*block {
	blocks := make([]*block, len(rules))
	for i := range rules {
		blocks[i] = newBlock(kindHide, &rules[i])
		p.hideReads = append(p.hideReads, blocks[i].reads()...)
	}
	return blocks
}

// addTeam adds a team with its hide blocks and its rules: membership, then the expose blocks.
func (p *Policy) addTeam(t *config.Team) {
	// Membership is the team's first rule: for a member, explanations name the membership and not an
	// expose block.
	owner := &team{upstreams: map[string]config.Place{}, hides: p.newHides(t.Hides), first: len(p.rules)}
	for _, u := range t.Upstreams {
		owner.upstreams[u.Name] = u.Place
	}
	membership := Rule{Title: fmt.Sprintf("team %q", t.Name), Place: t.Place.String()}
	p.addRule(rule{team: t.Name, named: membership}, []config.Selector{{Kind: config.TeamMembers, Name: t.Name}})
	for i := range t.Exposes {
		b := newBlock(kindExpose, &t.Exposes[i])
		p.addRule(rule{team: t.Name, expose: b, named: b.named}, b.To)
	}
	owner.end = len(p.rules)
	p.teams[t.Name] = owner
}

// addRule adds a rule and indexes it by the given selectors. The members of a team replace the
// selector of the team.
func (p *Policy) addRule(r rule, to []config.Selector) {
	id := len(p.rules)
	p.rules = append(p.rules, r)
	if len(r.expose.reads()) > 0 {
		p.conditionalRules = append(p.conditionalRules, id)
	}
	for _, selector := range to {
		if selector.Kind != config.TeamMembers {
			p.direct[selector] = append(p.direct[selector], id)
			continue
		}
		// A principal with EveryTeam is a member even if the team lists no members.
		p.everyTeam = append(p.everyTeam, id)
		for _, member := range p.members[selector.Name] {
			p.membership[member] = append(p.membership[member], id)
		}
	}
}

// ReportFailures sets a function that is called if a condition cannot be evaluated, at most once a
// minute per block. Call ReportFailures before any other method.
func (p *Policy) ReportFailures(report func(Failure)) *Policy {
	p.onFailure = report
	return p
}

// owner returns the team if it owns the upstream, or nil if it does not.
func (p *Policy) owner(team, upstream string) *team {
	if t, ok := p.teams[team]; ok {
		if _, ok := t.upstreams[upstream]; ok {
			return t
		}
	}
	return nil
}

// ReadsUpstream reports whether a condition for this name reads prompt.upstream. If so, the entry's
// visibility may differ between its owners.
func (p *Policy) ReadsUpstream(team, name string) bool {
	t, ok := p.teams[team]
	if !ok {
		return false
	}
	reads := func(b *block) bool { return b != nil && b.When != nil && b.When.ReadsUpstream && b.Matches(name) }
	return slices.ContainsFunc(p.hides, reads) || slices.ContainsFunc(t.hides, reads) ||
		slices.ContainsFunc(p.rules[t.first:t.end], func(r rule) bool { return reads(r.expose) })
}

// Visibility returns the rules that show an entry with this exposed name and JSON definition, which
// an upstream of the team owns. It is nil if the team has no such upstream.
func (p *Policy) Visibility(team, upstream, name string, definition []byte) *Visibility {
	t := p.owner(team, upstream)
	if t == nil {
		return nil
	}
	e := &entry{team: team, upstream: upstream, name: name, definition: definition}
	hides, hiddenBy := p.hidesOf(t, e) // hide blocks take precedence over rules
	v := &Visibility{policy: p, hiddenBy: hiddenBy}
	if hiddenBy != nil {
		return v
	}
	var shows []*gate
	isConditional := len(hides) > 0
	for id := t.first; id < t.end; id++ {
		r := &p.rules[id]
		if !r.matches(name) {
			continue
		}
		if applies, open := p.decide(r.expose, e); applies || open != nil {
			v.rules, shows = append(v.rules, int32(id)), append(shows, open)
			isConditional = isConditional || open != nil
		}
	}
	if isConditional {
		v.conditional = &conditional{hides, shows}
	}
	v.rules = slices.Clip(v.rules) // saves memory: there is one Visibility per entry
	return v
}

// hidesOf returns the block that hides an entry from everyone. If there is none, it returns the
// gates that may hide the entry from some audiences.
func (p *Policy) hidesOf(t *team, e *entry) (gates []*gate, hiddenBy *block) {
	for _, hides := range [][]*block{p.hides, t.hides} {
		for _, hide := range hides {
			if !hide.Matches(e.name) {
				continue
			}
			applies, open := p.decide(hide, e)
			if applies {
				return nil, hide
			}
			if open != nil {
				gates = append(gates, open)
			}
		}
	}
	return gates, nil
}

// decide reports whether a block that matches the entry's name applies. If that depends on the
// principal, it returns the gate that decides.
func (p *Policy) decide(b *block, e *entry) (applies bool, open *gate) {
	switch {
	case b == nil || b.When == nil: // the rule of membership has no block
		return true, nil
	case len(b.When.PrincipalFields) > 0 && b.shared != nil:
		return false, b.shared
	case len(b.When.PrincipalFields) > 0:
		return false, &gate{block: b, prompt: e.read(), name: e.name}
	}
	// The condition does not read the principal: decide now, once for everyone.
	return p.holds(b, e.read(), config.PrincipalFacts{}, e.name), nil
}

// holds evaluates a block's condition. If that fails, it reports the failure and returns the block's
// fallback.
func (p *Policy) holds(b *block, prompt config.PromptFacts, who config.PrincipalFacts, name string) bool {
	holds, err := b.When.Holds(prompt, who)
	if err != nil {
		p.report(b, name, err)
		return b.fallback
	}
	return holds
}

// report reports, at most once a minute per block, that a block's condition could not be evaluated.
func (p *Policy) report(b *block, name string, err error) {
	if p.onFailure != nil {
		b.alarm.Do(func() { p.onFailure(Failure{Rule: b.Place.String(), Prompt: name, Err: err}) })
	}
}

// Audience returns the audience of a principal. All principals of an audience get the same pointer,
// as long as it is one of the 10 000 most recently used audiences.
func (p *Policy) Audience(who Principal) *Audience {
	// Principals with the same subject but other groups or claims evict each other from this cache.
	// That costs time but does not change the answer.
	placed, ok := p.placements.Get(who.Subject)
	if !ok || !placed.who.equal(who) {
		rules := p.rulesFor(who)
		facts, key := p.distinguish(who, rules)
		placed = &placement{who, key, string(rules), facts}
		p.placements.Add(who.Subject, placed)
	}
	if cached, ok := p.audiences.Get(placed.key); ok {
		return cached
	}
	fresh := &Audience{p, placed.rules, placed.facts}
	if cached, ok, _ := p.audiences.PeekOrAdd(placed.key, fresh); ok { // another goroutine was faster
		return cached
	}
	return fresh
}

// rulesFor returns the set of rules that apply to a principal.
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
		// A caller without a credential is in no team, even if a team lists "user:anonymous" as a
		// member.
		if !who.Anonymous {
			add(p.membership[selector])
		}
	}
	return set
}

// distinguish returns the facts about a principal that conditions may read, and a key for its
// audience: the rules that apply, and the values of the attributes that conditions read. Two
// principals have the same audience if, and only if, their keys are equal.
func (p *Policy) distinguish(who Principal, rules []byte) (facts config.PrincipalFacts, key string) {
	reads := slices.Clone(p.hideReads)
	for _, id := range p.conditionalRules {
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
	// The key needs no attribute names: the rules in it determine which attributes are read. A length
	// precedes each value, so that different lists have different keys.
	for _, read := range slices.Compact(reads) {
		value := facts.Value(read)
		values = append(strconv.AppendInt(values, int64(len(value)), 10), ' ')
		values = append(values, value...)
	}
	return facts, string(values)
}
