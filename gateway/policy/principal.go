package policy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
)

// AnonymousSubject is the subject of a caller without a credential.
const AnonymousSubject = "user:anonymous"

// Principal is an authenticated or anonymous caller. Groups may be shared; do not change them.
type Principal struct {
	// Subject begins with "user:", as in "user:ci". No rule applies to other subjects.
	Subject string
	// Groups begin with "group:". Groups without this prefix are ignored.
	Groups []string
	// Source identifies the issuer of the subject, in at most 32 bytes: the same subject from two
	// sources is two callers. It is empty for token blocks.
	Source string
	// Claims is a JSON object with the issuer's claims about the subject, at most 12 KiB; empty
	// without an issuer.
	Claims string
	// Expires is the expiry of the credential; zero for none.
	Expires time.Time
	// ClaimsUnknown is true if only the principal's name was given, so that its claims are unknown.
	ClaimsUnknown bool
	// EveryTeam makes the principal a member of every team. It is true for all principals if there
	// is no auth block.
	EveryTeam bool
	// Anonymous is true for a caller without a credential. An anonymous principal is in no team
	// unless EveryTeam is set.
	Anonymous bool
}

// facts returns the attributes that conditions may read.
func (p Principal) facts() config.PrincipalFacts {
	facts := config.NewPrincipalFacts(p.Subject, p.Groups, p.Claims)
	if p.ClaimsUnknown {
		return facts.WithoutClaims()
	}
	return facts
}

// equal reports whether two principals are equal for every decision.
func (p Principal) equal(q Principal) bool {
	// No rule and no condition depends on Source or Expires.
	return p.Subject == q.Subject && slices.Equal(p.Groups, q.Groups) && p.EveryTeam == q.EveryTeam && p.Anonymous == q.Anonymous &&
		p.Claims == q.Claims && p.ClaimsUnknown == q.ClaimsUnknown
}

// selectors yields every selector with which a team's members or an expose block may name the
// principal.
func (p Principal) selectors(yield func(config.Selector) bool) {
	// Teams are left out: they are replaced by their members when the policy is made.
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

// Key identifies the caller: principals with equal keys are the same caller. Groups and claims are
// not part of it, because they may change. Compare audiences to find out whether such a change
// matters.
func (p *Principal) Key() string {
	if p.Anonymous {
		return "anonymous" // unlike any subject, even of a token block labelled "anonymous"
	}
	if p.Source == "" {
		return p.Subject
	}
	return p.Source + " " + p.Subject // unambiguous: Source contains no space
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
	// maxAudiences bounds the cached audiences of a policy.
	maxAudiences = 10_000
	// maxDecisions bounds the cached decisions about gates.
	maxDecisions = 1 << 17
)

// Audience is a set of principals that the policy cannot tell apart. It is immutable. Make it with
// [Policy.Audience].
type Audience struct {
	policy *Policy
	// rules is the set of rules that apply to the audience, one bit each. It is a string because it
	// is part of a key.
	rules string
	// facts are the attributes of the audience's principals that conditions read.
	facts config.PrincipalFacts
}

// Sees reports whether the audience may see an entry. List, get, completion and notifications all
// use this decision.
func (a *Audience) Sees(v *Visibility) bool {
	shownBy, _ := a.shownBy(context.Background(), v) // fails only at the end of a context
	return shownBy != nil
}

// Decide evaluates the conditions for the audience and an entry in advance, for Sees, until ctx ends. The error
// is [ErrBudget] at its deadline.
func (a *Audience) Decide(ctx context.Context, v *Visibility) error {
	_, err := a.shownBy(ctx, v)
	return err
}

// EvaluatesNothing reports whether the policy has no condition on principals, so that Decide does
// nothing.
func (p *Policy) EvaluatesNothing() bool { return len(p.hideReads) == 0 && len(p.readingRules) == 0 }

// shownBy returns the first rule that shows the entry to the audience, or nil.
func (a *Audience) shownBy(ctx context.Context, v *Visibility) (*rule, error) {
	// After a reload a request may have halves of two policies. Their rules are unrelated.
	if v == nil || a.policy != v.policy {
		return nil, nil
	}
	for i, id := range v.rules {
		// Check the gate only now: the audience's facts are complete only for rules that apply to
		// it.
		if !a.has(int(id)) {
			continue
		}
		if v.conditional == nil {
			return &a.policy.rules[id], nil
		}
		passes, err := a.passes(ctx, v.conditional.shows[i])
		if err != nil {
			return nil, err
		}
		if !passes {
			continue
		}
		// Hide blocks come last: their conditions must cost nothing for audiences that do not see
		// the prompt anyway.
		hidden, err := a.passesAny(ctx, v.conditional.hides)
		if hidden || err != nil {
			return nil, err
		}
		return &a.policy.rules[id], nil
	}
	return nil, nil
}

// passesAny reports whether one of the blocks applies to the audience.
func (a *Audience) passesAny(ctx context.Context, gates []*gate) (bool, error) {
	for _, g := range gates {
		if passes, err := a.passes(ctx, g); passes || err != nil {
			return passes, err
		}
	}
	return false, nil
}

// ShownBy returns the rule that shows an entry to the audience, or nil, and the limit of its block.
// The limit is nil if the block has none, or if the audience sees the entry as members.
func (a *Audience) ShownBy(v *Visibility) (*Rule, *config.Limit) {
	r, _ := a.shownBy(context.Background(), v)
	switch {
	case r == nil:
		return nil, nil
	case r.expose == nil:
		return r.named(), nil
	}
	return r.named(), r.expose.Limit
}

// HiddenBy returns the hide block that keeps an entry from the audience, or nil. It evaluates no
// condition and uses only cached decisions, so that a hidden prompt takes no longer than a prompt
// that does not exist.
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

// SeesTeam reports whether the audience may see anything of a team: it belongs to the team, or an
// expose block of the team names it, whether or not that block matches a prompt at present.
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

// Member reports whether the audience is a member of a team.
func (a *Audience) Member(team string) bool {
	t, ok := a.policy.teams[team]
	return ok && a.has(t.first) // membership is the first rule
}

func (a *Audience) has(rule int) bool { return contains(a.rules, rule) }

func contains[T string | []byte](rules T, id int) bool { return rules[id/8]&(1<<(id%8)) != 0 }

// passes reports whether the block of a gate applies to the audience. A nil gate always passes.
func (a *Audience) passes(ctx context.Context, g *gate) (bool, error) {
	if g == nil {
		return true, nil
	}
	// Two goroutines may both decide here, with the same result.
	key := decision{g, a}
	if decided, ok := a.policy.decisions.Get(key); ok {
		return decided, nil
	}
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		a.policy.report(g.block, g.name, ErrBudget)
		return false, ErrBudget
	case err != nil: // the client has gone
		return false, err
	}
	decided := a.policy.holds(g.block, g.prompt, a.facts, g.name)
	a.policy.decisions.Add(key, decided)
	return decided, nil
}

// decision is the key of a cached decision: a gate and an audience. The decision holds for the
// whole audience, whose principals have equal values of all attributes that conditions read.
type decision struct {
	gate     *gate
	audience *Audience
}

// maxPlacements bounds the cached placements, one per subject. Finding a principal's rules for each
// request would cost more than the rest of the decision.
const maxPlacements = 1024

// placement determines a principal's audience: its facts and rules.
type placement struct {
	who   Principal
	key   string
	rules string
	facts config.PrincipalFacts
}
