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

// Principal is an authenticated or anonymous caller.
type Principal struct {
	// Subject begins with "user:", as in "user:ci". No rule applies to other subjects.
	Subject string
	// Groups begin with "group:". Groups without this prefix are ignored. Principals may share the
	// slice: do not modify it.
	Groups []string
	// Source identifies the issuer of the subject, in at most 32 bytes: the same subject from two
	// sources is two callers. It is empty for token blocks.
	Source string
	// Claims is a JSON object with the issuer's claims about the subject, at most 12 KiB. It is empty
	// if the principal has no issuer.
	Claims string
	// Expires is the expiry of the credential. It is zero if the credential does not expire.
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

// equal reports whether every decision is the same for p and q. It ignores Source and Expires, which
// no rule or condition reads.
func (p Principal) equal(q Principal) bool {
	return p.Subject == q.Subject && slices.Equal(p.Groups, q.Groups) && p.EveryTeam == q.EveryTeam && p.Anonymous == q.Anonymous &&
		p.Claims == q.Claims && p.ClaimsUnknown == q.ClaimsUnknown
}

// selectors yields every selector with which a team's members or an expose block may name the
// principal.
func (p Principal) selectors(yield func(config.Selector) bool) {
	// There are no team selectors: New has replaced each team by its members.
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

// Key identifies the caller: principals with equal keys are the same caller. The key contains no
// groups or claims, because they may change. To see whether a change matters, compare audiences.
func (p *Principal) Key() string {
	if p.Anonymous {
		return "anonymous" // unlike any subject, even of a token block labelled "anonymous"
	}
	if p.Source == "" {
		return p.Subject
	}
	return p.Source + " " + p.Subject // unambiguous: Source contains no space
}

// HasKey reports whether key is the principal's Key, without allocating a string.
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
	// rules is the set of rules that apply to the audience: bit i%8 of byte i/8 stands for rule i.
	rules string
	// facts are the attributes of one of the audience's principals. All its principals have the same
	// values of the attributes that their rules read.
	facts config.PrincipalFacts
}

// Sees reports whether the audience may see an entry. List, get, completion and notifications all
// use this decision.
func (a *Audience) Sees(v *Visibility) bool {
	shownBy, _ := a.shownBy(context.Background(), v) // the error is nil: this context never ends
	return shownBy != nil
}

// Decide evaluates the conditions for the audience and an entry, and caches the results for Sees. It
// returns [ErrBudget] after the deadline of ctx, and the error of ctx if it was canceled.
func (a *Audience) Decide(ctx context.Context, v *Visibility) error {
	_, err := a.shownBy(ctx, v)
	return err
}

// EvaluatesNothing reports whether the policy has no condition on principals, so that Decide does
// nothing.
func (p *Policy) EvaluatesNothing() bool {
	return len(p.hideReads) == 0 && len(p.conditionalRules) == 0
}

// shownBy returns the first rule that shows the entry to the audience, or nil if no rule does.
func (a *Audience) shownBy(ctx context.Context, v *Visibility) (*rule, error) {
	// After a reload, a request may have an audience and a visibility of different policies.
	if v == nil || a.policy != v.policy {
		return nil, nil
	}
	for i, id := range v.rules {
		if !a.has(int(id)) {
			continue // before its gate: the audience's principals may differ in the attributes that other rules read
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
		// Check hide blocks last. Their conditions are then evaluated only for audiences that would
		// see the prompt.
		for _, g := range v.conditional.hides {
			if hidden, err := a.passes(ctx, g); hidden || err != nil {
				return nil, err
			}
		}
		return &a.policy.rules[id], nil
	}
	return nil, nil
}

// ShownBy returns the rule that shows an entry to the audience, and the limit of its block. The rule
// is nil if no rule shows the entry. The limit is nil if the block has no limit, or if the rule is the
// team's membership.
func (a *Audience) ShownBy(v *Visibility) (*Rule, *config.Limit) {
	r, _ := a.shownBy(context.Background(), v)
	switch {
	case r == nil:
		return nil, nil
	case r.expose == nil:
		return &r.named, nil
	}
	return &r.named, r.expose.Limit
}

// HiddenBy returns the block that hides an entry from the audience, or nil if none is known to do so.
// It uses only cached decisions: evaluating a condition would take longer for a hidden prompt than for
// a prompt that does not exist, and callers could measure the difference.
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

// SeesTeam reports whether the audience is a member of a team, or one of the team's expose blocks is
// for the audience, even if that block currently matches no prompt.
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
	// Two goroutines may decide at the same time. They get the same result.
	key := decision{g, a}
	if decided, ok := a.policy.decisions.Get(key); ok {
		return decided, nil
	}
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		a.policy.report(g.block, g.name, ErrBudget)
		return false, ErrBudget
	case err != nil: // the client canceled the request
		return false, err
	}
	decided := a.policy.holds(g.block, g.prompt, a.facts, g.name)
	a.policy.decisions.Add(key, decided)
	return decided, nil
}

// decision is the key of a cached decision. The decision is the same for all principals of the
// audience, because they have the same values of the attributes that the gate's condition reads.
type decision struct {
	gate     *gate
	audience *Audience
}

// maxPlacements bounds the cached placements, one per subject. To look up a principal's rules for each
// request would cost more than all other steps of the decision.
const maxPlacements = 1024

// placement is the rules and facts of a principal, and the key of its audience.
type placement struct {
	who   Principal
	key   string
	rules string
	facts config.PrincipalFacts
}
