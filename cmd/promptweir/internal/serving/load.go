package serving

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/watch"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Options are the settings of a command that serves.
type Options struct {
	// Config is the path of the configuration.
	Config string
	// Loaded, if not nil, is served instead of the configuration at Config. Config is then only a name for
	// the log, and there are no reloads.
	Loaded *config.Config
	// Report prints the diagnostics of the first load. It returns an error if usable is false.
	Report func(diagnostics config.Diagnostics, usable bool) error
	// Version and Commit identify the program.
	Version, Commit string
	// Logger is the local log, see [NewLogger]. It must not export records: it receives the errors of the
	// exporters.
	Logger *slog.Logger
	// Listening, if not nil, is called once [HTTP] has bound its addresses, so that they can be printed for the
	// user.
	Listening func(Addresses)
	// Tried, if not nil, is called by [HTTP] once each upstream has been listed or has failed.
	Tried func(*snapshot.Snapshot)
}

// Addresses are the URLs of a gateway, as seen from this machine.
type Addresses struct {
	// Endpoint is the URL for clients.
	Endpoint string
	// Console is the URL of the console. If SignsIn is true, the URL signs in its first visitor, so it must be
	// kept secret for ten minutes.
	Console string
	SignsIn bool
	// Config is the configuration in use.
	Config *config.Config
}

// process is a gateway's process after the first load of its configuration.
type process struct {
	opts  Options
	files *watch.Watcher
	cfg   *config.Config
	// kept and diagnostics are results of the first load, for [gateway.Options].
	kept        []config.Kept
	diagnostics config.Diagnostics
	// telemetry and logger are set by instrument.
	telemetry *telemetry
	logger    *slog.Logger
}

// load loads the configuration, records its files for the watch, and prints the diagnostics. Team files with
// errors are left out.
func load(ctx context.Context, opts Options) (*process, error) {
	p := &process{opts: opts, files: new(watch.Watcher), cfg: opts.Loaded}
	if p.cfg != nil {
		return p, nil
	}
	if err := untilEnd(ctx, func() { p.cfg, p.kept, p.diagnostics = p.read(nil) }); err != nil {
		return nil, err
	}
	if err := opts.Report(p.diagnostics, p.cfg != nil); err != nil {
		return nil, err
	}
	return p, nil
}

// untilEnd runs f, which cannot be interrupted. If ctx ends first, it leaves f running and returns the cause:
// the process is about to end.
func untilEnd(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read loads the configuration and records its files. inUse contains replacements for team files with errors;
// it is nil for the first load.
func (p *process) read(inUse config.TeamFiles) (cfg *config.Config, kept []config.Kept, diagnostics config.Diagnostics) {
	p.files.Record(func(visit func(path string)) {
		cfg, kept, diagnostics = config.LoadTolerant(p.opts.Config, config.Options{OnRead: visit}, inUse)
	})
	return cfg, kept, diagnostics
}

// instrument starts telemetry and logs the first record. Call it before [gateway.New], which checks once
// whether tracing is enabled.
func (p *process) instrument(ctx context.Context) (err error) {
	if p.telemetry, err = startTelemetry(ctx, p.opts.Version, p.opts.Commit, p.opts.Logger); err != nil {
		return err
	}
	p.logger = slog.New(&tracedHandler{p.opts.Logger.Handler(), p.telemetry.logs})
	p.logger.InfoContext(ctx, "starting", slog.String("version", p.opts.Version),
		slog.String("config", p.opts.Config),
		slog.Int("teams", len(p.cfg.Teams)), slog.Int("upstreams", len(p.cfg.Upstreams())))
	return nil
}

// gatewayOptions returns the options of a gateway that serves clients: it saves lists in state_dir
// and can reload.
func (p *process) gatewayOptions() gateway.Options {
	reload := func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
		// read records the files even after an error, so that a missing file causes the next reload when it
		// appears.
		return p.read(inUse.TeamFiles)
	}
	if p.opts.Loaded != nil {
		reload = nil
	}
	return gateway.Options{
		Logger: p.logger, Version: p.opts.Version, StateDir: p.cfg.Gateway.StateDir,
		Kept: p.kept, Diagnostics: p.diagnostics, Load: reload,
	}
}

// reloadOnChange reloads the gateway when a file of its configuration changes or a signal arrives,
// until ctx ends.
func (p *process) reloadOnChange(ctx context.Context, g *gateway.Gateway, signals <-chan os.Signal) error {
	group, ctx := errgroup.WithContext(ctx)
	reload := func() {
		_ = g.Reload(ctx) // the gateway logs the error
		releaseMemory()
	}
	group.Go(func() error { return p.files.Run(ctx, reload) })
	group.Go(func() error {
		for {
			select {
			case <-signals:
				p.tell(systemd.SdNotifyReloading)
				// logrotate also sends SIGHUP, after it has renamed the audit log.
				g.ReopenAudit()
				reload()
				p.tell(systemd.SdNotifyReady)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// With runs a gateway without listeners while use runs.
func With(ctx context.Context, cfg *config.Config, opts gateway.Options, use func(*gateway.Gateway) error) error {
	g, err := gateway.New(cfg, opts)
	if err != nil {
		return err
	}
	// Nothing listens on these addresses here, but an upstream at one of them would be a loop once the
	// gateway serves.
	for _, address := range []string{cfg.Gateway.Listen, cfg.Admin.Listen} {
		if own, err := netip.ParseAddrPort(address); err == nil {
			g.Own(own)
		}
	}
	// This context does not end with ctx: the upstreams stay open until use has finished its requests.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return g.Run(running) })
	err = use(g)
	stop()
	return errors.Join(err, group.Wait())
}

// exitSignal plus a signal's number is the exit code after that signal, as in shells.
const exitSignal = 128

// SignalError is the cause with which the context of [UntilSignal] ends.
type SignalError struct{ Is os.Signal }

func (s *SignalError) Error() string {
	if s.Is == os.Interrupt {
		return "interrupted"
	}
	return s.Is.String()
}

// ExitCode returns the exit code after this signal, as in shells.
func (s *SignalError) ExitCode() int {
	number, _ := s.Is.(syscall.Signal)
	return exitSignal + int(number)
}

// UntilSignal returns a context that ends at SIGINT or SIGTERM. A second signal ends the process
// immediately.
func UntilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		end(&SignalError{<-signals})
		// Restore the default action for a second signal.
		signal.Stop(signals)
	}()
	return ctx
}

// surviveBrokenPipes makes writes to a closed standard output or error return an error instead of
// ending the process.
func surviveBrokenPipes() {
	// Receive the signal rather than ignore it: child processes would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// tell sends a state to systemd, for units with Type=notify (sd_notify(3)). Without systemd it does nothing.
// After SdNotifyReloading, send SdNotifyReady, even if the reload failed.
func (p *process) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		p.logger.Warn("service manager not notified", slog.String("state", state),
			slog.Any("error", err))
	}
}

const (
	// adminConnections bounds the connections of the admin listener.
	adminConnections = 32
	// ownDescriptors are reserved for the admin listener, files, and closing connections.
	ownDescriptors = adminConnections + 64
	// childDescriptors is the number of descriptors of an upstream with a command: pipes, and a handle of the
	// process.
	childDescriptors = 4
	// connectionMemory is the memory of a connection with a request in flight, in bytes. All connections may
	// use half of the memory in total.
	connectionMemory = 32 << 10
)

// maxConnections returns the bound for connections and streams of clients, at least 1. limit is the number of
// descriptors. memory is in bytes, or 0 if it is unknown.
func maxConnections(limit int, memory int64, upstreams []config.Upstream) int {
	needed := ownDescriptors
	for i := range upstreams {
		if needed += childDescriptors; len(upstreams[i].Command) == 0 {
			needed += upstreams[i].Concurrency
		}
	}
	// Reserve the descriptors that the upstreams may need, but at least a quarter and at most a half of the
	// limit.
	connections := limit - min(max(needed, limit/4), limit/2)
	if memory > 0 {
		connections = min(connections, int(memory/2/connectionMemory))
	}
	return max(connections, 1)
}
