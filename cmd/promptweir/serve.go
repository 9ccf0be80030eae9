package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/watch"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gate"
	"github.com/promptweir/promptweir/gateway/httpconn"
	"github.com/promptweir/promptweir/gateway/places"
)

// cutOffBound is how long responses may take that say that the gateway is shutting down, and the last requests of operators.
const cutOffBound = 2 * time.Second

func (a *app) serveCommand() *cobra.Command {
	var profiled bool
	command := &cobra.Command{
		Use: "serve", Short: "Serve the MCP endpoint over HTTP until SIGINT or SIGTERM", Args: takes(cobra.NoArgs),
		Long: "Serve the MCP endpoint over HTTP until SIGINT or SIGTERM.\n\n" +
			"The gateway reloads its configuration when one of its files changes, on SIGHUP, and on POST /-/reload at the admin listener.",
		Example: "  promptweir serve --config promptweir\n" +
			"  promptweir serve --config gateway.hcl --log-format json --log-level warn",
		SuggestFor: []string{"start", "run", "server", "up"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), profiled) },
	}
	command.Flags().BoolVar(&profiled, "pprof", false, "serve profiles to operators under /debug/ at the admin listener")
	return command
}

// serve listens, logs the bound addresses, and serves until ctx ends.
func (a *app) serve(ctx context.Context, profiled bool) error {
	logger, flush, err := a.servingLogger()
	if err != nil {
		return err
	}
	defer flush()
	surviveBrokenPipes()
	files := watch.New()
	loaded, err := a.loadWatched(files, logger)
	if err != nil {
		return err
	}
	cfg := loaded.Config
	// Before gateway.New, whose instruments find out once whether anybody traces.
	telemetry, err := startTelemetry(ctx, buildVersion(), logger)
	if err != nil {
		return err
	}
	defer telemetry.stop(ctx, logger)
	logger = telemetry.exportLogs(logger)
	logStart(ctx, logger, a.config, cfg)
	limitMemory(logger)
	paceCollector()
	options := a.servingOptions(loaded, files, logger)
	options.Places = places.New(placesOf(descriptorLimit(), options.Memory, cfg.Upstreams()), logger)
	if profiled {
		options.Debug = startProfiling()
	}
	if options.Audit, err = audit.Open(cfg.Audit, logger); err != nil {
		return err
	}
	defer options.Audit.Close()
	g, err := gateway.New(cfg, options)
	if err != nil {
		return err
	}
	// Both addresses are bound before the gateway runs: if a port is in use, no child process is started.
	endpoint, err := listen(ctx, "gateway", cfg.Gateway.Listen, cfg.Gateway.Place, g)
	if err != nil {
		return err
	}
	defer endpoint.Close()
	admin, err := listen(ctx, "admin", cfg.Admin.Listen, cfg.Admin.Place, g)
	if err != nil {
		return err
	}
	defer admin.Close()
	server, scheme, err := newEndpointServer(cfg, g.Handler(), logger)
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "listening", slog.String("endpoint", scheme+endpoint.Addr().String()+cfg.Gateway.Path),
		slog.String("admin", "http://"+admin.Addr().String()))
	entrance := gate.New(logger)
	adminServer := newServer(entrance.Precede(g.Admin(telemetry.metrics)), logger)
	return serveUntilDone(ctx, logger, g, files, entrance, options.Places,
		bind(server, entrance.Listen(options.Places.Listen(httpconn.Listen(server, endpoint), gateway.AddressHolder), gateway.AddressHolder)),
		bind(adminServer, places.New(adminPlaces, logger).Listen(httpconn.Listen(adminServer, admin), gateway.AddressHolder)))
}

// newEndpointServer returns the server for clients, and how its URL begins.
func newEndpointServer(cfg *config.Config, handler http.Handler, logger *slog.Logger) (server *http.Server, scheme string, err error) {
	server = newServer(handler, logger)
	if server.TLSConfig, err = serverTLS(cfg, logger); err != nil {
		return nil, "", err
	}
	if server.TLSConfig != nil {
		return server, "https://", nil
	}
	return server, "http://", nil
}

// isTermination reports whether the cause of the end is SIGTERM, by which load balancers are to be given notice.
func isTermination(cause error) bool {
	signal, ok := errors.AsType[*signalError](cause)
	return ok && signal.Signal == syscall.SIGTERM
}

// unusedBound is how long the gateway must have been without clients to end without drain_delay. If it were shorter, a load balancer
// could still send a client just as the gateway ends; if drain_delay were never skipped, stopping an unused gateway would take as long.
const unusedBound = time.Minute

// readyInterval is how often awaitReady asks.
const readyInterval = 100 * time.Millisecond

// awaitReady waits until ready reports true. It reports false if ctx ends first.
func awaitReady(ctx context.Context, ready func() bool) bool {
	for !ready() {
		select {
		case <-time.After(readyInterval):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// serveUntilDone serves until ctx ends or a server fails, and then as long as the configuration gives clients to leave. The admin
// listener outlives the endpoint, and the upstreams outlive both: requests in flight need them, and operators watch the drain.
func serveUntilDone(
	ctx context.Context, logger *slog.Logger, g *gateway.Gateway, files *watch.Watcher,
	entrance *gate.Gate, clients *places.Places, endpoint, admin boundServer,
) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	upstreams, stopUpstreams := context.WithCancel(context.WithoutCancel(ctx))
	defer stopUpstreams()
	endpoint.server.RegisterOnShutdown(g.Drain) // otherwise streams would keep their connections busy forever

	manager := serviceManager{logger}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.Run(upstreams) })
	// Not with ctx: while clients are served as before, a prompt that is hidden or a token that is withdrawn counts as before.
	reloads, stopReloads := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReloads()
	group.Go(func() error { return reloadOnChange(reloads, g, files, hangups, manager) })
	group.Go(func() error {
		if awaitReady(ctx, g.IsReady) {
			manager.ready()
			releaseMemory()
		}
		return nil
	})
	group.Go(func() error { return entrance.Run(upstreams) })
	group.Go(endpoint.serve)
	group.Go(admin.serve)
	group.Go(func() error {
		<-ctx.Done()
		manager.stopping()
		g.AnnounceEnd()
		cfg := g.Snapshot().Config.Gateway
		if isTermination(context.Cause(ctx)) && clients.UsedWithin(unusedBound) && cfg.DrainDelay > 0 {
			logger.InfoContext(ctx, "no longer ready, stopping soon", slog.Duration("drain_delay", cfg.DrainDelay))
			time.Sleep(cfg.DrainDelay)
		}
		stopReloads()
		logger.InfoContext(ctx, "stopping")
		endpoint.stop(cfg.DrainTimeout, logger)
		admin.stop(cutOffBound, logger)
		stopUpstreams()
		return nil
	})
	err := group.Wait()
	logger.InfoContext(ctx, "stopped")
	return err
}
