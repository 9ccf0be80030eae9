package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/clientsetup"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

func serveCommand(a *app) *cobra.Command {
	var profiled bool
	command := &cobra.Command{
		Use: "serve [PATH]", Short: "Serve the MCP endpoint over HTTP until SIGINT or SIGTERM",
		Args: wantArgs(0, 1, "a configuration"),
		Long: `Serve the MCP endpoint over HTTP until SIGINT or SIGTERM.

PATH is the configuration (` + whichConfig + `).
The gateway reloads it when one of its files changes, on SIGHUP, and on promptweir reload.`,
		Example: "  promptweir serve\n" +
			"  promptweir serve examples/quickstart\n" +
			"  promptweir serve --config gateway.hcl --log-format json --log-level warn",
		SuggestFor: []string{"start", "run", "server", "up"}, ValidArgsFunction: aFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.setConfig("serve", args); err != nil {
				return err
			}
			options, flush, err := a.servingOptions(a.whatNext)
			if err != nil {
				return err
			}
			defer flush()
			return serving.HTTP(cmd.Context(), options, profiled)
		},
	}
	command.Flags().BoolVar(&profiled, "pprof", false,
		"serve profiles under /debug/ on the admin listener")
	addEnvFile(command)
	return command
}

// whatNext returns the next steps for the person who started the gateway at a terminal.
func (a *app) whatNext(at serving.Addresses) string {
	use := clientLine(at.Endpoint)
	switch {
	case at.Config.Gateway.PublicURL != "": // clients may be elsewhere, and may sign in
		use = fmt.Sprintf("%s client claude --config %s", os.Args[0], a.config)
	case clientsetup.AccessOf(at.Config.Auth) == clientsetup.Token:
		use += " --auth"
	}
	return nextSteps(at, use, "a file of "+a.config)
}

// clientLine returns the command line that prints the settings of Claude Code.
func clientLine(endpoint string) string {
	return fmt.Sprintf("%s client claude --url %s", os.Args[0], endpoint)
}

func nextSteps(at serving.Addresses, use, files string) string {
	once := ""
	if at.SignsIn {
		once = "  (signs in once, within 10 minutes; promptweir console prints a new link)"
	}
	return fmt.Sprintf("\n  look    %s%s\n  use     %s\n"+
		"  change  edit %s: the next list has it. Ctrl-C stops the gateway.\n\n",
		at.Console, once, use, files)
}

func stdioCommand(a *app) *cobra.Command {
	var as string
	command := &cobra.Command{
		Use: "stdio", Short: "Serve one client over standard input and output",
		Args: wantArgs(0, 0, ""),
		Long: `Serve one client over standard input and output.

The gateway reloads its configuration when one of its files changes. If the configuration has an
auth block, the client's principal comes from --as, or from the bearer token in PROMPTWEIR_TOKEN.`,
		Example: "  promptweir stdio --config promptweir\n" +
			"  promptweir stdio --config promptweir --as user:alice,group:payments --log-level error",
		RunE: func(cmd *cobra.Command, _ []string) error {
			started, err := serveStdio(cmd.Context(), a, as)
			if err != nil && !started {
				serving.AnswerFailure(cmd.Context(), err, a.raw.in, a.raw.out)
			}
			return err
		},
	}
	addPrincipal(command, a, &as, "serve the client as `PRINCIPAL`, for example user:alice,group:payments")
	addEnvFile(command)
	return command
}

// serveStdio serves one client. started reports whether the client's credential was accepted.
func serveStdio(ctx context.Context, a *app, as string) (started bool, err error) {
	options, flush, err := a.servingOptions(nil)
	if err != nil {
		return false, err
	}
	defer flush()
	return serving.Stdio(ctx, options, a.raw.in, a.raw.out, func(cfg *config.Config) (identity.Credential, error) {
		return stdioCredential(cfg, as)
	})
}

// stdioCredential returns the client's credential: the principal of --as, or the token in PROMPTWEIR_TOKEN.
func stdioCredential(cfg *config.Config, as string) (identity.Credential, error) {
	token := os.Getenv("PROMPTWEIR_TOKEN")
	switch {
	case as != "":
		// The person who starts the process vouches for this principal. It has no issuer, so no
		// claims.
		principal, err := (&principalFlags{as: as, claims: "{}"}).principal(cfg)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(principal.Subject, "user:") {
			return nil, &usageError{"--as: name the user, too: the session and the audit log are the user's"}
		}
		return identity.Vouched(*principal), nil
	case token == "" && cfg.Auth != nil:
		return nil, &usageError{"the configuration has an auth block: name the client with --as, " +
			"or set PROMPTWEIR_TOKEN"}
	}
	return func(ctx context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
		principal, err := authenticator.FromToken(ctx, token)
		if err != nil {
			return principal, fmt.Errorf("PROMPTWEIR_TOKEN: %w", err)
		}
		return principal, nil
	}, nil
}
