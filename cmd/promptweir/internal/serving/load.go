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

// Options are what a command that serves knows.
type Options struct {
	// Config is the path of the configuration.
	Config string
	// Loaded is used in place of what is at Config, which only names it then; there are no reloads.
	Loaded *config.Config
	// Report prints the diagnostics of the first load. Where the configuration cannot be used, it
	// returns the error that says so.
	Report func(diagnostics config.Diagnostics, usable bool) error
	// Version and Commit are those of the program.
	Version, Commit string
	// Logger is the local one, see [NewLogger].
	Logger *slog.Logger
	// Listening is called once [HTTP] serves, for a person who started it; nil where there is none.
	Listening func(Addresses)
	// Tried is called once each upstream of [HTTP] has been listed or has failed; nil to do nothing.
	Tried func(*snapshot.Snapshot)
}

// Addresses are where a gateway serves, as seen from this machine.
type Addresses struct {
	// Endpoint is the URL for clients.
	Endpoint string
	// Console is the URL of the console. Where SignsIn is set, it is a secret for ten minutes: it
	// signs in whoever opens it first.
	Console string
	SignsIn bool
	// Config is what the gateway serves.
	Config *config.Config
}

// process is a gateway's process after its first load.
type process struct {
	opts  Options
	files *watch.Watcher
	cfg   *config.Config
	// kept and diagnostics are of the load, see [gateway.Options].
	kept        []config.Kept
	diagnostics config.Diagnostics
	// telemetry and logger are set by instrument.
	telemetry *telemetry
	logger    *slog.Logger
}

// load loads the configuration and has its files watched. Files of teams that
// have errors are left out; the diagnostics are printed all the same.
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

// untilEnd calls what cannot be interrupted. If ctx ends first, the process is about to end, and leaves
// it behind.
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

// read loads the configuration in the place of one that may be in use, and records the files that it
// reads.
func (p *process) read(inUse config.TeamFiles) (cfg *config.Config, kept []config.Kept, diagnostics config.Diagnostics) {
	p.files.Record(func(visit func(path string)) {
		cfg, kept, diagnostics = config.LoadTolerant(p.opts.Config, config.Options{OnRead: visit}, inUse)
	})
	return cfg, kept, diagnostics
}

// instrument starts telemetry, and logs the first line. It comes before [gateway.New], whose
// instruments find out once whether anybody traces.
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

// gatewayOptions returns the options of a gateway that serves clients. Unlike one that runs for a
// single result, it saves lists in state_dir and can reload.
func (p *process) gatewayOptions() gateway.Options {
	reload := func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
		// Failed reads are watched too: a reload can succeed as soon as the missing file appears.
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
		_ = g.Reload(ctx) // the gateway has logged it
		releaseMemory()
	}
	group.Go(func() error { return p.files.Run(ctx, reload) })
	group.Go(func() error {
		for {
			select {
			case <-signals:
				p.tell(systemd.SdNotifyReloading)
				// SIGHUP is also how logrotate says that it has renamed the log.
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

// With runs a gateway without listeners while use runs. It has no part in watching servers for
// replicas: it shows what servers say to it, and may end at any moment.
func With(ctx context.Context, cfg *config.Config, opts gateway.Options, use func(*gateway.Gateway) error) error {
	g, err := gateway.New(cfg, opts)
	if err != nil {
		return err
	}
	// An upstream that points at the configured addresses would be a loop once the gateway serves.
	for _, address := range []string{cfg.Gateway.Listen, cfg.Admin.Listen} {
		if own, err := netip.ParseAddrPort(address); err == nil {
			g.Own(own)
		}
	}
	// Not a child of ctx: use may end its requests in order before the upstreams are closed.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return g.Run(running) })
	err = use(g)
	stop()
	return errors.Join(err, group.Wait())
}

// exitSignal is what shells add to the number of the signal that ended a process.
const exitSignal = 128

// SignalError is the cause with which a signal ends the context of [UntilSignal].
type SignalError struct{ Is os.Signal }

func (s *SignalError) Error() string {
	if s.Is == os.Interrupt {
		return "interrupted"
	}
	return s.Is.String()
}

// ExitCode is what shells report for a process that the signal ends.
func (s *SignalError) ExitCode() int {
	number, _ := s.Is.(syscall.Signal)
	return exitSignal + int(number)
}

// UntilSignal returns a context that ends at SIGINT or SIGTERM. A second one of them ends the
// process at once.
func UntilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		end(&SignalError{<-signals})
		// Go's default action is back from here on.
		signal.Stop(signals)
	}()
	return ctx
}

// surviveBrokenPipes makes a write to standard output or error fail where nobody reads it any more,
// instead of ending the process there and then.
func surviveBrokenPipes() {
	// Caught and not ignored: child processes would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// tell says how the process fares to what started it, if that wants to know: systemd, for a unit with
// Type=notify (sd_notify(3)). To any other, nothing is sent. A reload that has begun must be followed
// by readiness, whether it succeeds or not.
func (p *process) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		p.logger.Warn("service manager not notified", slog.String("state", state),
			slog.Any("error", err))
	}
}

const (
	// adminConnections bounds the connections of the admin listener.
	adminConnections = 32
	// ownDescriptors is how many descriptors the process keeps for itself: the admin listener,
	// files, and connections that are about to close.
	ownDescriptors = adminConnections + 64
	// childDescriptors is how many an upstream with a command uses: its pipes, and a handle of the
	// process.
	childDescriptors = 4
	// connectionMemory is what a connection uses with a request in flight, in bytes. Connections
	// may use half of the memory.
	connectionMemory = 32 << 10
)

// maxConnections returns how many connections and streams clients may have under a limit of
// descriptors and with an amount of memory in bytes, 0 if that is not known.
func maxConnections(limit int, memory int64, upstreams []config.Upstream) int {
	needed := ownDescriptors
	for i := range upstreams {
		if needed += childDescriptors; len(upstreams[i].Command) == 0 {
			needed += upstreams[i].Concurrency
		}
	}
	// The upstreams get the descriptors that they may need, from a quarter of the limit to half.
	connections := limit - min(max(needed, limit/4), limit/2)
	if memory > 0 {
		connections = min(connections, int(memory/2/connectionMemory))
	}
	return max(connections, 1)
}
