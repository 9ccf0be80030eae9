package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
)

// AnonymousSubject is the subject of a caller without a credential.
const AnonymousSubject = "user:anonymous"

// Principal is an authenticated caller, or an anonymous one. Its groups may be shared and must not
// be changed.
type Principal struct {
	// Subject begins with "user:", as in "user:ci". No rule applies to any other subject.
	Subject string
	// Groups begin with "group:" each. Others are ignored.
	Groups []string
	// Source identifies who vouches for the subject, in at most 32 bytes: the same subject of two
	// sources is two callers. It is empty for the subject of a token block.
	Source string
	// Claims is a JSON object with the issuer's claims about the subject, at most 12 KiB; empty
	// without an issuer.
	Claims string
	// Expires is when the credential expires; zero if it does not.
	Expires time.Time
	// ClaimsUnknown means that the principal was named rather than authenticated, so that its
	// claims may be anything.
	ClaimsUnknown bool
	// EveryTeam makes the principal a member of every team, as all are if there is no auth block.
	EveryTeam bool
	// Anonymous means that there was no credential. Such a principal belongs to no team, whoever
	// the team's members are, unless EveryTeam is set.
	Anonymous bool
}

// facts returns what conditions may read of the principal.
func (p Principal) facts() config.PrincipalFacts {
	facts := config.NewPrincipalFacts(p.Subject, p.Groups, p.Claims)
	if p.ClaimsUnknown {
		return facts.WithoutClaims()
	}
	return facts
}

// equal reports whether two principals are the same to a policy.
func (p Principal) equal(q Principal) bool {
	// No rule and no condition depends on Source or Expires.
	return p.Subject == q.Subject && slices.Equal(p.Groups, q.Groups) && p.EveryTeam == q.EveryTeam && p.Anonymous == q.Anonymous &&
		p.Claims == q.Claims && p.ClaimsUnknown == q.ClaimsUnknown
}

// selectors yields every selector by which a team's members or an expose block may name the
// principal.
func (p Principal) selectors(yield func(config.Selector) bool) {
	// Teams are not among them: they are resolved to their members when the policy is made.
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

// Key identifies the caller: two principals with equal keys are the same caller. Groups and claims
// are no part of it, since they may change while the caller stays the same; to learn whether they
// matter, compare audiences.
func (p *Principal) Key() string {
	if p.Anonymous {
		return "anonymous" // unlike any subject, even that of a token block labelled "anonymous"
	}
	if p.Source == "" {
		return p.Subject
	}
	return p.Source + " " + p.Subject // unambiguous: neither contains a space
}

// HasKey reports whether key is the principal's Key, without making one.
func (p *Principal) HasKey(key string) bool {
	if p.Anonymous || p.Source == "" {
		return key == p.Key()
	}
	source, subject, _ := strings.Cut(key, " ")
	return source == p.Source && subject == p.Subject
}

const (
	// maxAudiences bounds the audiences that a policy keeps.
	maxAudiences = 10_000
	// maxDecisions bounds the decisions about gates that a policy keeps.
	maxDecisions = 1 << 17
)

// Audience is all principals whom the policy cannot tell apart. It never changes. Make it with
// [Policy.Audience].
type Audience struct {
	policy *Policy
	// rules is the set of rules that apply to the audience, one bit each. It is a string so that it
	// can be part of the key that identifies an audience.
	rules string
	// facts are what conditions read of the audience's principals.
	facts config.PrincipalFacts
}

// Sees reports whether the audience may see an entry. It is the only decision, for list, get,
// completion and notifications alike.
func (a *Audience) Sees(v *Visibility) bool {
	shownBy, _ := a.shownBy(v, nil) // without a budget there is no error
	return shownBy != nil
}

// Decide evaluates the conditions that decide whether the audience sees an entry, so that Sees need
// not. The error is [ErrBudget].
func (a *Audience) Decide(v *Visibility, b *Budget) error {
	_, err := a.shownBy(v, b)
	return err
}

// EvaluatesNothing reports whether the policy has no condition that reads principals, so that
// Decide has nothing to do.
func (p *Policy) EvaluatesNothing() bool { return len(p.hideReads) == 0 && len(p.readingRules) == 0 }

// shownBy returns the first rule that shows the entry to the audience, or nil if none does.
func (a *Audience) shownBy(v *Visibility, b *Budget) (*rule, error) {
	// After a reload a request may hold halves of two policies, whose rules have nothing to do with
	// each other.
	if v == nil || a.policy != v.policy {
		return nil, nil
	}
	for i, id := range v.rules {
		// The gate last: only for rules that apply to the audience does it have the facts that the
		// condition reads.
		if !a.has(int(id)) {
			continue
		}
		if v.conditional == nil {
			return &a.policy.rules[id], nil
		}
		passes, err := a.passes(v.conditional.shows[i], b)
		if err != nil {
			return nil, err
		}
		if !passes {
			continue
		}
		// The hide blocks after that: what a team writes must cost nothing to those who would not
		// see its prompts anyway.
		hidden, err := a.passesAny(v.conditional.hides, b)
		if hidden || err != nil {
			return nil, err
		}
		return &a.policy.rules[id], nil
	}
	return nil, nil
}

// passesAny reports whether one of the blocks applies to the audience.
func (a *Audience) passesAny(gates []*gate, b *Budget) (bool, error) {
	for _, g := range gates {
		if passes, err := a.passes(g, b); passes || err != nil {
			return passes, err
		}
	}
	return false, nil
}

// ShownBy returns the rule that shows an entry to the audience, nil if none does, and the limit of
// its block, nil if it has none or the audience sees the entry as members of the team.
func (a *Audience) ShownBy(v *Visibility) (*Rule, *config.Limit) {
	r, _ := a.shownBy(v, nil)
	switch {
	case r == nil:
		return nil, nil
	case r.expose == nil:
		return r.named(), nil
	}
	return r.named(), r.expose.Limit
}

// HiddenBy returns the hide block that keeps an entry from the audience, nil where none does. It
// evaluates no condition, and looks only at those that were evaluated before: its caller must not
// take longer for a prompt that is hidden than for one that does not exist.
func (a *Audience) HiddenBy(v *Visibility) *Rule {
	switch {
	case v == nil || a.policy != v.policy:
		return nil
	case v.hiddenBy != nil:
		return &v.hiddenBy.named
	case v.conditional == nil:
		return nil
	}
	for _, g := range v.conditional.hides {
		if hides, ok := a.policy.decisions.Peek(decision{g, a}); ok && hides {
			return &g.named
		}
	}
	return nil
}

// SeesTeam reports whether the audience may see anything that a team owns: it belongs to the team,
// or an expose block of the team names it, whatever that block matches at present.
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
	return ok && a.has(t.first) // membership is the first rule
}

func (a *Audience) has(rule int) bool { return contains(a.rules, rule) }

func contains[T string | []byte](rules T, id int) bool { return rules[id/8]&(1<<(id%8)) != 0 }

// passes reports whether the block of a gate applies to the audience. Without a gate it always
// does.
func (a *Audience) passes(g *gate, b *Budget) (bool, error) {
	if g == nil {
		return true, nil
	}
	// Two goroutines may both decide here. They come to the same result.
	key := decision{g, a}
	if decided, ok := a.policy.decisions.Get(key); ok {
		return decided, nil
	}
	if !b.left() {
		a.policy.report(g.block, g.name, ErrBudget)
		return false, ErrBudget
	}
	decided, steps := a.policy.holds(g.block, g.prompt, a.facts, g.name)
	b.spend(steps)
	a.policy.decisions.Add(key, decided)
	return decided, nil
}

// decision is a gate and the audience that it is decided for. One decision holds for the whole
// audience, since all of its principals have the same values of whatever a condition reads.
type decision struct {
	gate     *gate
	audience *Audience
}

// maxPlacements bounds the principals whose audience is remembered. Finding the rules of a
// principal again for each request would cost more than the rest of the decision.
const maxPlacements = 1024

// placement is what determines a principal's audience.
type placement struct {
	who   Principal
	key   string
	rules string
	facts config.PrincipalFacts
}
