package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

// oauthFlags are the flags of an OAuth client that gets its token by client credentials.
type oauthFlags struct{ id, secret, keyFile string }

func (f *oauthFlags) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.id, "client-id", "",
		"get a token as this OAuth `CLIENT`, from the authorization server that the MCP server names")
	addSecret(flags, &f.secret, "client-secret", "PROMPTWEIR_CLIENT_SECRET",
		"`SECRET` of the client")
	flags.StringVar(&f.keyFile, "private-key", "",
		"PEM `FILE` with a key that signs for the client, instead of a secret")
	completeFlag(command, "private-key", aFile)
}

// settings returns the client's part of an oauth block, nil if no client is given.
func (f *oauthFlags) settings(token string) (*config.OAuth, error) {
	switch {
	case f.id == "" && f.keyFile == "":
		return nil, nil //nolint:nilnil // as in config.Upstream
	case f.id == "":
		return nil, &usageError{"--private-key requires --client-id"}
	case token != "":
		return nil, &usageError{"--token and --client-id are mutually exclusive"}
	case (f.secret == "") == (f.keyFile == ""):
		return nil, &usageError{"--client-id requires one of --client-secret and --private-key"}
	}
	o := &config.OAuth{ClientID: f.id, ClientSecret: config.NewSecret(f.secret)}
	if f.keyFile == "" {
		return o, nil
	}
	key, err := os.ReadFile(f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--private-key: %w", err)
	}
	o.ClientSecret, o.PrivateKey = config.Secret{}, config.NewSecret(string(key))
	if _, err := o.Signer(); err != nil {
		return nil, fmt.Errorf("--private-key: %s %w", f.keyFile, err)
	}
	return o, nil
}

// discoverAuthorization completes the server's oauth settings by discovery. Only probe does this:
// an upstream's token_url is configured, since a server that names its own could have the client's
// secret sent to itself.
func (p *prober) discoverAuthorization(ctx context.Context, server config.Upstream, options client.Options) error {
	found, err := client.DiscoverAuthorization(ctx, server, options)
	if err != nil {
		return fmt.Errorf("%s: %w", server.Name, err)
	}
	o := server.OAuth
	o.TokenURL, o.Issuer, o.Scopes, o.Resource = found.TokenURL, found.Issuer, found.Scopes, found.Resource
	p.found.Authorization = found.Issuer
	_, err = fmt.Fprintf(p.out, "authorization server: %s\n", terminal.OneLine(found.Issuer))
	return err
}
