package identity

import (
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// NamedPrincipal reads a principal as [ParsePrincipal] does, and completes it by a configuration and the claims of its token, a
// JSON object. Without claims, rules that read those of an issuer are undecided.
func NamedPrincipal(cfg *config.Config, as, claims string) (policy.Principal, error) {
	principal, err := ParsePrincipal(as)
	if err != nil {
		return policy.Principal{}, err
	}
	principal.EveryTeam = cfg.Auth == nil // without an auth block, everybody is a member of every team
	principal.Claims = claims
	principal.ClaimsUnknown = claims == "" && cfg.Auth.MayIssue(principal.Subject)
	return principal, nil
}
