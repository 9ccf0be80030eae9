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
