package serving

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/upstream/system"
)

// cutOffTimeout is how long responses may take that say that the gateway is shutting down, and the
// last requests of operators.
const cutOffTimeout = 2 * time.Second

// HTTP listens, logs the bound addresses, and serves until ctx ends. If profiled is set, operators
// get profiles.
func HTTP(ctx context.Context, opts Options, profiled bool) error {
	surviveBrokenPipes()
	p, err := load(ctx, opts)
	if err != nil {
		return err
	}
	if err := p.instrument(ctx); err != nil {
		return err
	}
	defer p.telemetry.stop(ctx, opts.Logger)
	// Before availableMemory, which reads the limit that this sets.
	limitMemory(p.logger)
	paceCollector()
	options := p.gatewayOptions()
	memory := availableMemory(p.logger)
	clients := edge.New(edge.Options{
		Logger: p.logger, Memory: memory,
		Connections: maxConnections(system.DescriptorLimit(), memory, p.cfg.Upstreams()),
	})
	options.Ledger = clients
	if profiled {
		options.Debug = startProfiling()
	}
	if options.Audit, err = audit.Open(p.cfg.Audit, p.logger); err != nil {
		return err
	}
	defer options.Audit.Close()
	g, err := gateway.New(p.cfg, options)
	if err != nil {
		return err
	}
	// Both addresses are bound before the gateway runs: if a port is in use, no child process is
	// started.
	endpoint, err := listen(ctx, "gateway", p.cfg.Gateway.Listen, p.cfg.Gateway.Place, g)
	if err != nil {
		return err
	}
	defer endpoint.Close()
	admin, err := listen(ctx, "admin", p.cfg.Admin.Listen, p.cfg.Admin.Place, g)
	if err != nil {
		return err
	}
	defer admin.Close()
	server, scheme, err := newEndpointServer(p.cfg, g.Handler(), p.logger)
	if err != nil {
		return err
	}
	p.logger.InfoContext(ctx, "listening",
		slog.String("endpoint", scheme+endpoint.Addr().String()+p.cfg.Gateway.Path),
		slog.String("admin", "http://"+admin.Addr().String()))
	if opts.Listening != nil {
		url := scheme + nearest(endpoint.Addr()).String() + p.cfg.Gateway.Path
		opts.Listening(addresses(url, nearest(admin.Addr()), g))
	}
	return p.admit(g, clients, server, endpoint, admin).serve(ctx)
}

// admit returns the servers of clients and of operators behind what admits their connections.
func (p *process) admit(
	g *gateway.Gateway, clients *edge.Ledger, server *http.Server, endpoint, admin net.Listener,
) *listeners {
	// A ledger of their own, so that operators get in however many clients there are.
	operators := edge.New(edge.Options{Logger: p.logger, Connections: adminConnections})
	adminServer := newServer(g.Admin(p.telemetry.metrics), p.logger)
	return &listeners{
		process: p, gateway: g,
		endpoint: bind(server, clients.Listen(server, endpoint, func() *config.Config { return g.Snapshot().Config })),
		admin:    bind(adminServer, operators.Listen(adminServer, admin, nil)),
	}
}

// newEndpointServer returns the server for clients, and how its URL begins.
func newEndpointServer(
	cfg *config.Config, handler http.Handler, logger *slog.Logger,
) (server *http.Server, scheme string, err error) {
	server = newServer(handler, logger)
	if server.TLSConfig, err = serverTLS(cfg, logger); err != nil {
		return nil, "", err
	}
	if server.TLSConfig != nil {
		return server, "https://", nil
	}
	return server, "http://", nil
}

// nearest returns where this machine reaches a listener: one on all addresses on loopback.
func nearest(listener net.Addr) netip.AddrPort {
	address := netip.MustParseAddrPort(listener.String()) // of a TCP listener
	if address.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), address.Port())
	}
	return address
}

// addresses returns where a gateway serves: with a link that signs in where that works, which is on
// loopback and without an admin token.
func addresses(endpoint string, admin netip.AddrPort, g *gateway.Gateway) Addresses {
	console := url.URL{Scheme: "http", Host: admin.String(), Path: "/"}
	if admin.Addr().IsLoopback() {
		if code := g.LinkCode(); code != "" {
			console.Path, console.RawQuery = "/sign-in", url.Values{"code": {code}}.Encode()
		}
	}
	return Addresses{endpoint, console.String(), console.RawQuery != "", g.Snapshot().Config}
}

// listeners are a gateway's two servers, and what they serve.
type listeners struct {
	process         *process
	gateway         *gateway.Gateway
	endpoint, admin boundServer
}

// serve serves until ctx ends or a server fails, and then as long as the configuration gives
// clients to leave.
func (l *listeners) serve(ctx context.Context) error {
	hangups := make(chan os.Signal, 1)
	// Without this, SIGHUP ends the process.
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	upstreams, stopUpstreams := context.WithCancel(context.WithoutCancel(ctx))
	defer stopUpstreams()
	// otherwise streams would keep their connections busy forever
	l.endpoint.server.RegisterOnShutdown(l.gateway.Drain)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.gateway.Run(upstreams) })
	// Not with ctx: while clients are served as before, a prompt that is hidden or a token that is
	// withdrawn counts as before.
	reloads, stopReloads := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReloads()
	group.Go(func() error { return l.process.reloadOnChange(reloads, l.gateway, hangups) })
	group.Go(func() error {
		if awaitReady(ctx, l.gateway.IsReady) {
			l.process.tell(systemd.SdNotifyReady)
			releaseMemory()
		}
		return nil
	})
	group.Go(func() error {
		if l.process.opts.Tried == nil {
			return nil
		}
		if l.gateway.Settle(ctx); ctx.Err() == nil {
			l.process.opts.Tried(l.gateway.Snapshot())
		}
		return nil
	})
	group.Go(l.endpoint.serve)
	group.Go(l.admin.serve)
	group.Go(func() error {
		<-ctx.Done()
		l.process.tell(systemd.SdNotifyStopping)
		l.end(ctx, stopReloads)
		// Last: requests in flight still need them.
		stopUpstreams()
		return nil
	})
	err := group.Wait()
	l.process.logger.InfoContext(ctx, "stopped")
	return err
}

// end stops both servers, the endpoint first: operators watch the drain.
func (l *listeners) end(ctx context.Context, stopReloads func()) {
	logger := l.process.logger
	l.gateway.AnnounceEnd()
	cfg := l.gateway.Snapshot().Config.Gateway
	// Only SIGTERM comes from somebody whose load balancer has to find out. Whether a client is
	// connected at this moment says nothing of the one that the balancer sends next.
	signal, ok := errors.AsType[*SignalError](context.Cause(ctx))
	if ok && signal.Is == syscall.SIGTERM && cfg.DrainDelay > 0 {
		logger.InfoContext(ctx, "no longer ready, stopping soon",
			slog.Duration("drain_delay", cfg.DrainDelay))
		// Nothing has to interrupt it: a second signal ends the process.
		time.Sleep(cfg.DrainDelay)
	}
	stopReloads()
	logger.InfoContext(ctx, "stopping")
	l.endpoint.stop(cfg.DrainTimeout, logger)
	l.admin.stop(cutOffTimeout, logger)
}

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
