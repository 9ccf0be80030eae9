package gateway

import (
	"context"
	"errors"
	"reflect"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Credential says who a client is, by the configuration that is at work when it is asked: after a reload it is asked again.
type Credential func(context.Context, *identity.Authenticator) (policy.Principal, error)

// As is the credential of a principal whom somebody vouches for. Where there is no auth block, everybody is in every team.
func As(who policy.Principal) Credential {
	return func(_ context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
		who := who
		who.EveryTeam = !authenticator.Required()
		return who, nil
	}
}

// caller is who sends a request, or is at the other end of a stream.
type caller struct {
	policy.Principal

	credential Credential
	// by is the setup in which the credential was last found good.
	by *setup
}

// admit finds out who brings a credential.
func (g *Gateway) admit(ctx context.Context, credential Credential) (caller, error) {
	s := g.setup()
	who, err := credential(ctx, s.identity)
	return caller{who, credential, s}, err
}

// errAnother is why a stream ends whose credential has become somebody else's.
var errAnother = errors.New("the credential is another principal's now")

// readmit asks for the credential of a caller again, by the present setup. On an error the caller is not to be served
// any more; an issuer that cannot be asked has not said no. Changed reports whether there is anything else to be said of the
// principal than before.
func (g *Gateway) readmit(ctx context.Context, who *caller) (changed bool, err error) {
	now, err := g.admit(ctx, who.credential)
	if errors.Is(err, identity.ErrUnavailable) {
		who.by = now.by
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if now.Key() != who.Key() {
		return false, errAnother
	}
	changed = !reflect.DeepEqual(now.Principal, who.Principal)
	*who = now
	return changed, nil
}

// remain lets a stream go on after a reload. It reports whether the reload still accepts who is at the other end.
func (g *Gateway) remain(ctx context.Context, sub *subscriber, who *caller) bool {
	changed, err := g.readmit(ctx, who)
	if changed {
		g.become(sub, who.Principal)
	}
	return err == nil
}
