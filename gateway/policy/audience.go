package policy

import (
	"slices"

	"github.com/promptweir/promptweir/config"
)

const (
	// maxAudiences bounds the audiences that a policy keeps.
	maxAudiences = 10_000
	// maxDecisions bounds the decisions about gates that a policy keeps.
	maxDecisions = 1 << 17
)

// Audience is all principals whom the policy cannot tell apart. It never changes. Make it with [Policy.Audience].
type Audience struct {
	policy *Policy
	// rules is the set of rules that apply to the audience, one bit each. It is a string so that it can be part of the key
	// that identifies an audience.
	rules string
	// facts are what conditions read of the audience's principals.
	facts config.PrincipalFacts
}

// Sees reports whether the audience may see an entry. It is the only decision, for list, get, completion and notifications
// alike.
func (a *Audience) Sees(v *Visibility) bool { return a.shownBy(v) != nil }

// shownBy returns the first rule that shows the entry to the audience, or nil if none does.
func (a *Audience) shownBy(v *Visibility) *rule {
	// After a reload a request may hold halves of two policies, whose rules have nothing to do with each other.
	if v == nil || a.policy != v.policy {
		return nil
	}
	for i, id := range v.rules {
		// The gate last: only for rules that apply to the audience does it have the facts that the condition reads.
		if !a.has(int(id)) || v.conditional != nil && !a.passes(v.conditional.shows[i]) {
			continue
		}
		// The hide blocks after that: what a team writes must cost nothing to those who would not see its prompts anyway.
		if v.conditional != nil && slices.ContainsFunc(v.conditional.hides, a.passes) {
			return nil
		}
		return &a.policy.rules[id]
	}
	return nil
}

// Limit returns the limit of the expose block that shows an entry to the audience. It is nil if the block has none, or if
// the audience sees the entry as members of the team.
func (a *Audience) Limit(v *Visibility) *config.Limit {
	if r := a.shownBy(v); r != nil && r.expose != nil {
		return r.expose.Limit
	}
	return nil
}

// SeesTeam reports whether the audience may see anything that a team owns: it belongs to the team, or an expose block of
// the team names it, whatever that block matches at present.
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

// Member reports whether the audience belongs to a team.
func (a *Audience) Member(team string) bool {
	t, ok := a.policy.teams[team]
	return ok && t.first < t.end && a.has(t.first)
}

func (a *Audience) has(rule int) bool { return contains(a.rules, rule) }

func contains[T string | []byte](rules T, id int) bool { return rules[id/8]&(1<<(id%8)) != 0 }

// passes reports whether the block of a gate applies to the audience. Without a gate it always does.
func (a *Audience) passes(g *gate) bool {
	if g == nil {
		return true
	}
	// Two goroutines may both decide here. They come to the same result.
	key := decision{g, a}
	if decided, ok := a.policy.decisions.Get(key); ok {
		return decided
	}
	decided := a.policy.holds(g.block, g.prompt, a.facts, g.name)
	a.policy.decisions.Add(key, decided)
	return decided
}

// decision is a gate and the audience that it is decided for. One decision holds for the whole audience, since all of its
// principals have the same values of whatever a condition reads.
type decision struct {
	gate     *gate
	audience *Audience
}

// maxPlacements bounds the principals whose audience is remembered. Finding the rules of a principal again for each request
// would cost more than the rest of the decision.
const maxPlacements = 1024

// placement is what determines a principal's audience.
type placement struct {
	who   Principal
	key   string
	rules string
	facts config.PrincipalFacts
}
