package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
)

// AnonymousSubject is the subject of whoever calls without a credential.
const AnonymousSubject = "user:anonymous"

// Principal is who calls. Its groups may be shared: nobody changes them.
type Principal struct {
	// Subject is "user:ci". One without "user:" in front is nobody's.
	Subject string
	// Groups are "group:ci" each. What does not have "group:" in front counts for nothing.
	Groups []string
	// EveryTeam makes the principal a member of every team: there is no auth block.
	EveryTeam bool
	// Source tells apart who vouches for the subject, in at most 32 bytes: one subject of two sources is two callers.
	// It is empty for whoever a token block names.
	Source string
	// Claims is a JSON object with what an issuer says of the subject, of at most 12 KiB; empty where nobody does.
	Claims string
	// ClaimsUnknown means that the issuer may say anything: somebody spoke of the principal, who was not there.
	ClaimsUnknown bool
	// Expires is when the credential ends to be good; zero means that it does not end.
	Expires time.Time
	// Anonymous means that there was no credential. Without EveryTeam the principal is then in no team,
	// whatever the members of a team say.
	Anonymous bool
}

// facts are what conditions may read of the principal.
func (p Principal) facts() config.PrincipalFacts {
	facts := config.NewPrincipalFacts(p.Subject, p.Groups, p.Claims)
	if p.ClaimsUnknown {
		return facts.WithoutClaims()
	}
	return facts
}

// equal reports whether the policy is told the same of both.
func (p Principal) equal(q Principal) bool {
	return p.Subject == q.Subject && slices.Equal(p.Groups, q.Groups) && p.EveryTeam == q.EveryTeam && p.Anonymous == q.Anonymous &&
		p.Claims == q.Claims && p.ClaimsUnknown == q.ClaimsUnknown
}

// Key says whose a token is, as a comparable value: two principals with one key are the same caller. What the
// caller may see may change meanwhile, so the groups are no part of it; for that, compare audiences.
func (p *Principal) Key() string {
	if p.Anonymous {
		return "anonymous" // never equal to a subject, not even to that of a token with this label
	}
	if p.Source == "" {
		return p.Subject
	}
	return p.Source + " " + p.Subject // neither has a space in it
}

// HasKey reports whether the key is the principal's.
func (p *Principal) HasKey(key string) bool {
	if p.Anonymous || p.Source == "" {
		return key == p.Key()
	}
	source, subject, _ := strings.Cut(key, " ")
	return source == p.Source && subject == p.Subject
}
