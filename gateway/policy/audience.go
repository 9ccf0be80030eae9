package policy

import (
	"strings"

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
}

// Audience returns the audience that a principal belongs to: the same pointer for all who belong to it, as long as it
// is among the 10 000 asked for last.
func (p *Policy) Audience(who Principal) *Audience {
	rules := string(p.rulesFor(who))
	if kept, ok := p.audiences.Get(rules); ok {
		return kept
	}
	fresh := &Audience{p, rules}
	if kept, ok, _ := p.audiences.PeekOrAdd(rules, fresh); ok { // somebody else was faster
		return kept
	}
	return fresh
}

// Allows reports whether the audience may see an entry. It is the one decision, for list, get, completion and
// notification alike. An audience and grants of two different policies allow nothing.
func (a *Audience) Allows(g Grants) bool { return a.allowedBy(g) != nil }

// allowedBy returns the first rule by which the audience may see an entry; nil means that it may not.
func (a *Audience) allowedBy(g Grants) *rule {
	if a.policy != g.policy {
		return nil
	}
	for _, id := range g.rules {
		if a.has(int(id)) {
			return &a.policy.rules[id]
		}
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

func (a *Audience) has(rule int) bool { return a.rules[rule/8]&(1<<(rule%8)) != 0 }

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
