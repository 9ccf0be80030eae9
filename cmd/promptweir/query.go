package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/client"
)

// query holds the flags that list and get share: which gateway or server, on behalf of whom, and the output format.
type query struct {
	listSource
	principalFlags

	url, token, output string
}

func (q *query) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&q.url, "url", "", "connect to the running gateway, or any other MCP server, at `URL`")
	flags.StringVar(&q.token, "token", os.Getenv("PROMPTWEIR_TOKEN"), "bearer `TOKEN` for --url (PROMPTWEIR_TOKEN)")
	flags.Lookup("token").DefValue = "" // so that help does not show a secret from the environment
	q.principalFlags.addTo(command, q.app, "with --config, see what `PRINCIPAL` sees, for example user:alice,group:payments")
}

func (q *query) check() error {
	switch {
	case q.url == "" && q.config == "":
		return &usageError{"--config PATH or --url URL is required"}
	case q.url != "" && q.configGiven():
		return &usageError{"--config and --url are mutually exclusive: use the upstreams of a configuration, or a running gateway"}
	case q.url != "" && q.as != "":
		return &usageError{"--as requires --config: a running gateway identifies its caller by --token"}
	case q.claims != "" && q.as == "":
		return errClaimsWithoutAs
	case q.url != "" && q.given():
		return &usageError{"--state and --live require --config: a running gateway has lists of its own"}
	}
	return q.listSource.check()
}

// loadConfig returns the configuration and the principal of --as. Without --as the principal is nil, which sees everything.
func (q *query) loadConfig() (*config.Config, *policy.Principal, error) {
	cfg, err := q.load(!q.live)
	if err != nil || q.as == "" {
		return cfg, nil, err
	}
	principal, err := q.principal(cfg)
	if err != nil {
		return nil, nil, err
	}
	if principal.ClaimsUnknown && cfg.ReadsClaims() {
		fmt.Fprintf(q.err, "promptweir: the claims of %s are not known: prompts whose visibility depends on claims are left out; set them with --claims\n",
			principal.Subject)
	}
	return cfg, &principal, nil
}

// withSession connects to --url while use runs.
func (q *query) withSession(ctx context.Context, use func(*client.Session) error) error {
	return q.withSessionFor(ctx, client.SessionOptions{}, use)
}

// withSessionFor is withSession for a session that is more than the zero options.
func (q *query) withSessionFor(ctx context.Context, options client.SessionOptions, use func(*client.Session) error) error {
	server, err := serverAt("--url", q.url, q.token)
	if err != nil {
		return err
	}
	waiting := q.announceWait(server.Name)
	session, err := client.ConnectFor(ctx, server, clientOptions(nil), options)
	waiting.Stop()
	if err != nil {
		return connectError(server.Name, err)
	}
	defer session.Close()
	return use(session)
}

// announceWait tells a person at a terminal, after a moment, what the command waits for, unless the timer is stopped before.
func (q *query) announceWait(what string) *time.Timer {
	return time.AfterFunc(progressAfter, func() {
		if _, isTerminal := terminal.Width(q.raw.err); isTerminal {
			fmt.Fprintf(q.err, "promptweir: waiting for %s\n", terminal.OneLine(what, terminal.MaxReport))
		}
	})
}
