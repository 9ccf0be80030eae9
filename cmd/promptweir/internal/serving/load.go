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
	// Loaded replaces the configuration at Config, which is then only a name. There are no reloads.
	Loaded *config.Config
	// Report prints the diagnostics of the first load. It returns an error if the configuration cannot be used.
	Report func(diagnostics config.Diagnostics, usable bool) error
	// Version and Commit identify the program.
	Version, Commit string
	// Logger writes only locally. See [NewLogger].
	Logger *slog.Logger
	// Listening is called once [HTTP] serves, for the person who started it; it may be nil.
	Listening func(Addresses)
	// Tried is called once each upstream of [HTTP] has been listed or has failed; it may be nil.
	Tried func(*snapshot.Snapshot)
}

// Addresses are the URLs of a gateway, as seen from this machine.
type Addresses struct {
	// Endpoint is the URL for clients.
	Endpoint string
	// Console is the URL of the console. If SignsIn is true, it is a secret for ten minutes: its first visitor
	// is signed in.
	Console string
	SignsIn bool
	// Config is the configuration in use.
	Config *config.Config
}

// process is the process of a gateway after its first load.
type process struct {
	opts  Options
	files *watch.Watcher
	cfg   *config.Config
	// kept and diagnostics are for [gateway.Options].
	kept        []config.Kept
	diagnostics config.Diagnostics
	// telemetry and logger are set by instrument.
	telemetry *telemetry
	logger    *slog.Logger
}

// load loads the configuration and records its files for the watch. It leaves out files of teams
// with errors, and prints the diagnostics.
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

// untilEnd runs an uninterruptible function. If ctx ends first, it abandons the function, since the
// process is about to end.
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

// read loads a configuration that replaces the one in use, if any, and records its files.
func (p *process) read(inUse config.TeamFiles) (cfg *config.Config, kept []config.Kept, diagnostics config.Diagnostics) {
	p.files.Record(func(visit func(path string)) {
		cfg, kept, diagnostics = config.LoadTolerant(p.opts.Config, config.Options{OnRead: visit}, inUse)
	})
	return cfg, kept, diagnostics
}

// instrument starts telemetry and logs the first line. Call it before [gateway.New], whose
// instruments check only once whether tracing is on.
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
		// read records the files even after an error: the reload may succeed once a missing file
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
		_ = g.Reload(ctx) // the gateway logged it
		releaseMemory()
	}
	group.Go(func() error { return p.files.Run(ctx, reload) })
	group.Go(func() error {
		for {
			select {
			case <-signals:
				p.tell(systemd.SdNotifyReloading)
				// logrotate also sends SIGHUP, after renaming the log.
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
	// An upstream at the gateway's own address would be a loop as soon as the gateway serves.
	for _, address := range []string{cfg.Gateway.Listen, cfg.Admin.Listen} {
		if own, err := netip.ParseAddrPort(address); err == nil {
			g.Own(own)
		}
	}
	// This context is not a child of ctx: use may finish its requests before the upstreams are
	// closed.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return g.Run(running) })
	err = use(g)
	stop()
	return errors.Join(err, group.Wait())
}

// exitSignal is the offset for exit codes after a signal: as in shells, 128 plus its number.
const exitSignal = 128

// SignalError is the cause of a context that [UntilSignal] ends.
type SignalError struct{ Is os.Signal }

func (s *SignalError) Error() string {
	if s.Is == os.Interrupt {
		return "interrupted"
	}
	return s.Is.String()
}

// ExitCode returns the shells' exit code for this signal.
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
		// Go's default action applies again.
		signal.Stop(signals)
	}()
	return ctx
}

// surviveBrokenPipes makes writes to a closed standard output or error return an error instead of
// ending the process.
func surviveBrokenPipes() {
	// Do not ignore the signal: child processes would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// tell notifies systemd for units with Type=notify (sd_notify(3)). Without systemd it does nothing.
// After the report that a reload begins, report readiness, even if the reload fails.
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
	// childDescriptors are the descriptors of an upstream with a command: pipes, and a handle of
	// the process.
	childDescriptors = 4
	// connectionMemory is the memory of a connection with a request in flight, in bytes.
	// Connections may use half of the memory.
	connectionMemory = 32 << 10
)

// maxConnections bounds the connections and streams of clients by a limit of descriptors and a
// memory size in bytes. 0 means unknown.
func maxConnections(limit int, memory int64, upstreams []config.Upstream) int {
	needed := ownDescriptors
	for i := range upstreams {
		if needed += childDescriptors; len(upstreams[i].Command) == 0 {
			needed += upstreams[i].Concurrency
		}
	}
	// The upstreams get the descriptors that they may need, between a quarter and a half of the limit.
	connections := limit - min(max(needed, limit/4), limit/2)
	if memory > 0 {
		connections = min(connections, int(memory/2/connectionMemory))
	}
	return max(connections, 1)
}
