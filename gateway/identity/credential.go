package identity

import (
	"context"

	"github.com/promptweir/promptweir/gateway/policy"
)

// Credential identifies a client to whichever [Authenticator] is current: after a reload it is presented again.
type Credential func(context.Context, *Authenticator) (policy.Principal, error)

// Vouched is the credential of a principal that the operator vouches for. Without an auth block, it is in every team.
func Vouched(principal policy.Principal) Credential {
	return func(_ context.Context, a *Authenticator) (policy.Principal, error) {
		p := principal
		p.EveryTeam = !a.Required()
		return p, nil
	}
}
