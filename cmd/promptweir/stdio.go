package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/watch"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

func (a *app) stdioCommand() *cobra.Command {
	var as string
	command := &cobra.Command{
		Use: "stdio", Short: "Serve one client over standard input and output", Args: takes(cobra.NoArgs),
		Long: "Serve one client over standard input and output.\n\n" +
			"The gateway reloads its configuration when one of its files changes. If the configuration has an auth block, the " +
			"client's principal comes from --as, or from the bearer token in PROMPTWEIR_TOKEN.",
		Example: "  promptweir stdio --config promptweir\n" +
			"  promptweir stdio --config promptweir --as user:alice,group:payments --log-level error",
		RunE: func(cmd *cobra.Command, _ []string) error {
			started := false
			err := a.stdio(cmd.Context(), as, &started)
			if err != nil && !started {
				answerFailure(cmd.Context(), err, a.raw.in, a.raw.out)
			}
			return err
		},
	}
	command.Flags().StringVar(&as, "as", "", "serve the client as `PRINCIPAL`, for example user:alice,group:payments")
	completeFlag(command, "as", a.completePrincipal)
	return command
}

// stdio serves until the client closes standard input or output, SIGHUP, or ctx ends. It sets started once the client's credential
// is accepted: until then, nothing is read or written.
func (a *app) stdio(ctx context.Context, as string, started *bool) error {
	logger, flush, err := a.servingLogger()
	if err != nil {
		return err
	}
	defer flush()
	surviveBrokenPipes()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the client's terminal has gone
	defer stop()
	files := watch.New()
	loaded, err := a.loadWatched(files, logger)
	if err != nil {
		return err
	}
	cfg := loaded.Config
	credential, err := stdioCredential(cfg, as)
	if err != nil {
		return err
	}
	if err := checkConsoleExporters(); err != nil {
		return err
	}
	telemetry, err := startTelemetry(ctx, buildVersion(), logger)
	if err != nil {
		return err
	}
	defer telemetry.stop(ctx, logger)
	logger = telemetry.exportLogs(logger)
	logStart(ctx, logger, a.config, cfg)
	if cfg.Audit != nil && cfg.Audit.Path == config.AuditToStdout {
		return fmt.Errorf("audit.path = %q would write to standard output, which carries MCP messages: record in a file", config.AuditToStdout)
	}
	options := a.servingOptions(loaded, files, logger)
	if options.Audit, err = audit.Open(cfg.Audit, logger); err != nil {
		return err
	}
	defer options.Audit.Close()
	return withGateway(ctx, cfg, options, func(g *gateway.Gateway) error {
		watching, stop := context.WithCancel(ctx)
		var group errgroup.Group
		group.Go(func() error { return reloadOnChange(watching, g, files, nil, serviceManager{logger}) })
		err := g.ServeStdio(ctx, noting(started, credential), a.raw.in, a.raw.out)
		stop()
		if errors.Is(err, syscall.EPIPE) { // the client has left, which is how its session ends
			err = nil
		}
		return errors.Join(err, group.Wait())
	})
}

// stdioCredential returns the client's credential: the principal of --as, or the token in PROMPTWEIR_TOKEN.
func stdioCredential(cfg *config.Config, as string) (identity.Credential, error) {
	token := os.Getenv("PROMPTWEIR_TOKEN")
	switch {
	case as != "":
		// Whoever starts the process vouches for the principal, whom no issuer knows: it has no claims.
		principal, err := (&principalFlags{as: as, claims: "{}"}).principal(cfg)
		return identity.Vouched(principal), err
	case token == "" && cfg.Auth != nil:
		return nil, &usageError{"the configuration has an auth block: name the client's principal with --as, or set PROMPTWEIR_TOKEN"}
	}
	return func(ctx context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
		principal, err := authenticator.FromToken(ctx, token)
		if err != nil {
			return principal, fmt.Errorf("PROMPTWEIR_TOKEN: %w", err)
		}
		return principal, nil
	}, nil
}

// noting returns a credential that sets accepted once it has been.
func noting(accepted *bool, credential identity.Credential) identity.Credential {
	return func(ctx context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
		principal, err := credential(ctx, authenticator)
		*accepted = *accepted || err == nil
		return principal, err
	}
}

// checkConsoleExporters rejects exporters that would write between the messages on standard output.
func checkConsoleExporters() error {
	for _, signal := range []string{"TRACES", "METRICS", "LOGS"} {
		if os.Getenv("OTEL_"+signal+"_EXPORTER") == "console" {
			return fmt.Errorf("OTEL_%s_EXPORTER=console would write to standard output, which carries MCP messages: export to an endpoint", signal)
		}
	}
	return nil
}
