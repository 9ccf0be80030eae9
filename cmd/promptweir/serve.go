package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/watch"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/httpconn"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

const (
	// drainBound is how long requests in flight may take to end when the gateway is told to.
	drainBound = 10 * time.Second
	// headerBound, readBound and idleBound keep slow or silent clients from holding connections: the header of a request, the
	// whole of it, and the next one on the same connection must come within so long.
	headerBound    = 10 * time.Second
	readBound      = 30 * time.Second
	idleBound      = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// healthBound is how long a healthcheck waits for its answer.
	healthBound = 2 * time.Second
)

func (a *app) serveCommand() *cobra.Command {
	var profiled bool
	command := &cobra.Command{
		Use: "serve", Short: "Serve the MCP endpoint over HTTP until SIGINT or SIGTERM", Args: takes(cobra.NoArgs),
		Long: "Serve the MCP endpoint over HTTP until SIGINT or SIGTERM.\n\n" +
			"The configuration is loaded again when one of its files changes, on SIGHUP, and on POST /-/reload at the admin listener.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), profiled) },
	}
	command.Flags().BoolVar(&profiled, "pprof", false, "serve profiles of the gateway to its operators, under /debug/ at the admin listener")
	return command
}

// serve listens, then says where, then serves; it stops in the reverse order of its start.
func (a *app) serve(ctx context.Context, profiled bool) error {
	logger, err := a.logger()
	if err != nil {
		return err
	}
	files := watch.New()
	cfg, err := a.loadWatched(files)
	if err != nil {
		return err
	}
	limitMemory(logger)
	paceCollector()
	telemetry, err := startTelemetry(ctx, buildVersion(), logger)
	if err != nil {
		return err
	}
	defer telemetry.stop(ctx, logger)
	options := a.serving(cfg, files, logger)
	if profiled {
		options.Debug = startProfiling()
	}
	g, err := gateway.New(cfg, options)
	if err != nil {
		return err
	}
	endpoint, err := listen(ctx, cfg.Gateway.Listen, g)
	if err != nil {
		return err
	}
	defer endpoint.Close()
	admin, err := listen(ctx, cfg.Admin.Listen, g)
	if err != nil {
		return err
	}
	defer admin.Close()
	server, scheme := newServer(g.Handler(), logger), "http://"
	if server.TLSConfig, err = serverTLS(cfg, logger); err != nil {
		return err
	}
	if server.TLSConfig != nil {
		scheme = "https://"
	}
	logger.InfoContext(ctx, "listening", slog.String("endpoint", scheme+endpoint.Addr().String()+cfg.Gateway.Path),
		slog.String("admin", "http://"+admin.Addr().String()))
	return serveUntil(ctx, logger, g, files, []served{
		{httpconn.Listen(server, endpoint), server},
		{admin, newServer(g.Admin(telemetry.metrics), logger)},
	})
}

// serving are the options of a gateway that serves clients: unlike one that only answers a command, it keeps state and
// can be reloaded.
func (a *app) serving(cfg *config.Config, files *watch.Watcher, logger *slog.Logger) gateway.Options {
	return gateway.Options{
		Logger: logger, Version: buildVersion(), StateDir: cfg.Gateway.StateDir,
		Load: func() (*config.Config, config.Diagnostics) { return a.read(files) },
	}
}

// read loads the configuration and has what it read watched.
func (a *app) read(files *watch.Watcher) (cfg *config.Config, diagnostics config.Diagnostics) {
	files.Record(func(visit func(path string)) {
		cfg, diagnostics = config.Load(a.config, config.Options{OnRead: visit})
	})
	return cfg, diagnostics
}

// keepCurrent reloads the gateway when a file of its configuration changes, or on one of the signals, until ctx ends.
// What comes of it is in the log.
func keepCurrent(ctx context.Context, g *gateway.Gateway, files *watch.Watcher, signals <-chan os.Signal) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return files.Run(ctx, func() { _ = g.Reload(ctx) }) })
	group.Go(func() error {
		for {
			select {
			case <-signals:
				_ = g.Reload(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// listen binds an address, and tells the gateway that it is its own.
func listen(ctx context.Context, address string, g *gateway.Gateway) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if own, err := netip.ParseAddrPort(listener.Addr().String()); err == nil {
		g.Own(own)
	}
	return listener, nil
}

// newServer has no bound on how long a response takes: streams last. Writes have bounds of their own.
func newServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerBound, ReadTimeout: readBound, IdleTimeout: idleBound, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

type served struct {
	listener net.Listener
	server   *http.Server
}

func (s served) serve() error {
	if s.server.TLSConfig != nil {
		return s.server.ServeTLS(s.listener, "", "") // the certificate is in the settings
	}
	return s.server.Serve(s.listener)
}

// serveUntil serves until ctx ends. Then it stops accepting, ends the streams, lets requests in flight end within
// drainBound, and only then lets go of the upstreams.
func serveUntil(ctx context.Context, logger *slog.Logger, g *gateway.Gateway, files *watch.Watcher, all []served) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	upstreams, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.Run(upstreams) })
	group.Go(func() error { return keepCurrent(ctx, g, files, hangups) })
	group.Go(func() error { return releaseStartupMemory(ctx, func() bool { return g.Ready().Ready }) })
	for _, s := range all {
		group.Go(func() error {
			if err := s.serve(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		logger.InfoContext(ctx, "stopping")
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainBound)
		defer cancel()
		for i, s := range all {
			if i == 0 {
				s.server.RegisterOnShutdown(g.Drain)
			}
			if err := s.server.Shutdown(bound); err != nil {
				logger.WarnContext(ctx, "requests cut off", slog.Any("error", err))
				_ = s.server.Close()
			}
		}
		release()
		return nil
	})
	err := group.Wait()
	logger.InfoContext(ctx, "stopped")
	return err
}

func (a *app) stdioCommand() *cobra.Command {
	var as string
	command := &cobra.Command{
		Use: "stdio", Short: "Serve one client over standard input and output", Args: takes(cobra.NoArgs),
		Long: "Serve one client over standard input and output.\n\n" +
			"The configuration is loaded again when one of its files changes. Where it has an auth block, the client's principal comes from --as or, as a bearer token, from PROMPTWEIR_TOKEN.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.stdio(cmd.Context(), as) },
	}
	command.Flags().StringVar(&as, "as", "", "serve `PRINCIPAL`, for example user:alice,group:payments")
	return command
}

func (a *app) stdio(ctx context.Context, as string) error {
	logger, err := a.logger()
	if err != nil {
		return err
	}
	files := watch.New()
	cfg, err := a.loadWatched(files)
	if err != nil {
		return err
	}
	who, err := stdioCredential(cfg, as)
	if err != nil {
		return err
	}
	for _, signal := range []string{"TRACES", "METRICS", "LOGS"} {
		if os.Getenv("OTEL_"+signal+"_EXPORTER") == "console" {
			return fmt.Errorf("OTEL_%s_EXPORTER=console writes to standard output, which is the client's here: export to an address", signal)
		}
	}
	telemetry, err := startTelemetry(ctx, buildVersion(), logger)
	if err != nil {
		return err
	}
	defer telemetry.stop(ctx, logger)
	return withGateway(ctx, cfg, a.serving(cfg, files, logger), func(g *gateway.Gateway) error {
		watching, stop := context.WithCancel(ctx)
		var group errgroup.Group
		group.Go(func() error { return keepCurrent(watching, g, files, nil) })
		err := g.ServeStdio(ctx, who, a.in, a.out)
		stop()
		return errors.Join(err, group.Wait())
	})
}

// stdioCredential says who stands at the other end of the pipes.
func stdioCredential(cfg *config.Config, as string) (identity.Credential, error) {
	token := os.Getenv("PROMPTWEIR_TOKEN")
	switch {
	case as != "":
		who, err := (&somebody{as: as, claims: "{}"}).principal(cfg)
		return identity.Vouched(who), err
	case token == "" && cfg.Auth != nil:
		return nil, &usageError{"the configuration has an auth block: say who the client is with --as or PROMPTWEIR_TOKEN"}
	}
	return func(ctx context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
		who, err := authenticator.FromToken(ctx, token)
		if err != nil {
			return who, fmt.Errorf("PROMPTWEIR_TOKEN: %w", err)
		}
		return who, nil
	}, nil
}

// withGateway runs a gateway without listeners while use does.
func withGateway(ctx context.Context, cfg *config.Config, opts gateway.Options, use func(*gateway.Gateway) error) error {
	g, err := gateway.New(cfg, opts)
	if err != nil {
		return err
	}
	for _, address := range []string{cfg.Gateway.Listen, cfg.Admin.Listen} {
		if own, err := netip.ParseAddrPort(address); err == nil {
			g.Own(own)
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return g.Run(running) })
	err = use(g)
	stop()
	return errors.Join(err, group.Wait())
}

// healthcheckCommand is for containers without a shell: it asks the admin listener of the gateway beside it.
func (a *app) healthcheckCommand() *cobra.Command {
	var admin string
	command := &cobra.Command{
		Use: "healthcheck", Short: "Ask a running gateway's admin listener whether it is alive", Hidden: true,
		Args: takes(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if admin == "" {
				listen, err := a.adminListen()
				if err != nil {
					return err
				}
				admin = "http://" + listen
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthBound)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/healthz", nil)
			if err != nil {
				return &usageError{"--admin: " + err.Error()}
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("healthz answered %s", response.Status)
			}
			return nil
		},
	}
	command.Flags().StringVar(&admin, "admin", "", "`URL` of the admin listener; from the configuration, or http://"+config.DefaultAdminListen)
	return command
}

// adminListen is where the gateway beside this command has its admin listener, by the same configuration.
func (a *app) adminListen() (string, error) {
	if a.config == "" {
		return config.DefaultAdminListen, nil
	}
	if _, err := os.Stat(a.config); err != nil { // else it would be somebody else's health
		return "", err
	}
	host, port, err := net.SplitHostPort(config.AdminListen(a.config, config.Options{AllowUnsetEnv: true}))
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1" // it listens everywhere, but that is no address to ask
	}
	return net.JoinHostPort(host, port), nil
}
