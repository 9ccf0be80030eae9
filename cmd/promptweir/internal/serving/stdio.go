package serving

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Stdio serves one client over in and out until the client closes one of them, SIGHUP arrives, or ctx ends.
// started reports whether the client's credential was accepted. If not, nothing was read or written.
func Stdio(
	ctx context.Context, opts Options, in io.Reader, out io.Writer,
	credential func(*config.Config) (identity.Credential, error),
) (started bool, err error) {
	surviveBrokenPipes()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the client's terminal is gone
	defer stop()
	p, err := load(ctx, opts)
	if err != nil {
		return false, err
	}
	accepted, err := credential(p.cfg)
	if err != nil {
		return false, err
	}
	if err := checkStandardOutput(p.cfg); err != nil {
		return false, err
	}
	if err := p.instrument(ctx); err != nil {
		return false, err
	}
	defer p.telemetry.stop(ctx, opts.Logger)
	options := p.gatewayOptions()
	options.IsAlone = true
	options.Ledger = edge.New(edge.Options{Memory: availableMemory(p.logger)})
	if options.Audit, err = audit.Open(p.cfg.Audit, p.logger); err != nil {
		return false, err
	}
	defer options.Audit.Close()
	err = With(ctx, p.cfg, options, func(g *gateway.Gateway) error {
		watching, stop := context.WithCancel(ctx)
		var group errgroup.Group
		group.Go(func() error { return p.reloadOnChange(watching, g, nil) })
		err := g.ServeStdio(ctx, noting(&started, accepted), in, out)
		stop()
		if errors.Is(err, syscall.EPIPE) { // the client has closed out, which ends the session normally
			err = nil
		}
		return errors.Join(err, group.Wait())
	})
	return started, err
}

// noting returns a credential that also sets *accepted if the authentication succeeds.
func noting(accepted *bool, credential identity.Credential) identity.Credential {
	return func(ctx context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
		principal, err := credential(ctx, authenticator)
		*accepted = *accepted || err == nil
		return principal, err
	}
}

// checkStandardOutput returns an error if an exporter or the audit log would write to standard output,
// between MCP messages.
func checkStandardOutput(cfg *config.Config) error {
	for _, signal := range []string{"TRACES", "METRICS", "LOGS"} {
		if os.Getenv("OTEL_"+signal+"_EXPORTER") == "console" {
			return fmt.Errorf("OTEL_%s_EXPORTER=console would write to standard output, which carries MCP messages: "+
				"export to an endpoint", signal)
		}
	}
	if cfg.Audit != nil && cfg.Audit.Path == config.AuditToStdout {
		return fmt.Errorf("audit.path = %q would write to standard output, which carries MCP "+
			"messages: record in a file",
			config.AuditToStdout)
	}
	return nil
}

const (
	// failureLine bounds each message of the client after a failed start, in bytes.
	failureLine = 1 << 20
	// failureTimeout bounds the wait for the client's first message and for each further message: a client may
	// try server/discover first, then initialize.
	failureTimeout = 2 * time.Second
)

// AnswerFailure answers each request over stdio with the reason why the gateway does not start. Clients show
// the reason to users who do not see standard error. It returns at the end of the input, or after
// failureTimeout without a message. It may leave a goroutine that reads from in.
func AnswerFailure(ctx context.Context, cause error, in io.Reader, out io.Writer) {
	lines := make(chan []byte)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go readFailureLines(ctx, in, lines)
	for {
		var line []byte
		select {
		case line = <-lines:
		case <-time.After(failureTimeout):
		case <-ctx.Done():
		}
		if line == nil {
			return
		}
		if message, err := wire.Parse(line); err == nil && message.IsRequest() {
			answer := wire.AppendError(nil, message.ID, wire.NewError(wire.InternalError,
				failureText(cause)))
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return
			}
		}
	}
}

// readFailureLines sends the lines of in until in or ctx ends, then closes lines.
func readFailureLines(ctx context.Context, in io.Reader, lines chan<- []byte) {
	defer close(lines)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, failureLine)
	for scanner.Scan() {
		select {
		case lines <- bytes.Clone(scanner.Bytes()):
		case <-ctx.Done():
			return
		}
	}
}

// failureText returns one line with the first error and the number of further errors.
func failureText(cause error) string {
	first, rest, _ := strings.Cut(cause.Error(), "\n")
	text := "promptweir does not start: " + first
	if rest != "" {
		text += fmt.Sprintf(" (and %s; promptweir validate prints all)",
			terminal.Count(strings.Count(rest, "\n")+1, "more mistake"))
	}
	return text
}
