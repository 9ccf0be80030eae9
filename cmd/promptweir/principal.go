package main

import (
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

var errClaimsWithoutAs = &usageError{"--claims requires --as: name the principal that has the claims"}

// principalFlags are the flags that name the principal a command is about.
type principalFlags struct{ as, claims string }

// addTo declares the flags; usage describes --as. The app has the configuration that completes it.
func (p *principalFlags) addTo(command *cobra.Command, a *app, usage string) {
	command.Flags().StringVar(&p.as, "as", "", usage)
	completeFlag(command, "as", a.completePrincipal)
	command.Flags().StringVar(&p.claims, "claims", "",
		"with --as, the claims of the principal's token, a `JSON` object; if not set, rules that read claims are undecided")
}

// principal returns the principal of the flags.
func (p *principalFlags) principal(cfg *config.Config) (policy.Principal, error) {
	if p.claims != "" {
		if _, err := wire.ParseObject([]byte(p.claims)); err != nil {
			return policy.Principal{}, &usageError{"--claims: write a JSON object: " + err.Error()}
		}
	}
	principal, err := identity.NamedPrincipal(cfg, p.as, p.claims)
	if err != nil {
		return policy.Principal{}, &usageError{"--as: " + err.Error()}
	}
	return principal, nil
}
