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
	"runtime"
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

// cutOffTimeout bounds the time for the error responses of requests that are cut off, and for the last
// requests of operators.
const cutOffTimeout = 2 * time.Second

// HTTP binds both addresses, logs them, and serves until ctx ends. If profiled is true, the admin listener
// serves profiles under /debug/.
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
	// Call limitMemory first: it sets the limit that availableMemory reads.
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
	} else {
		runtime.MemProfileRate = 0 // only /debug/ serves this profile
	}
	if options.Audit, err = audit.Open(p.cfg.Audit, p.logger); err != nil {
		return err
	}
	defer options.Audit.Close()
	g, err := gateway.New(p.cfg, options)
	if err != nil {
		return err
	}
	// Bind the addresses first: if a port is in use, no child process is started.
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
	server, scheme := newServer(g.Handler(), p.logger), "http://"
	if server.TLSConfig, err = serverTLS(p.cfg, p.logger); err != nil {
		return err
	}
	if server.TLSConfig != nil {
		scheme = "https://"
	}
	// Receive SIGHUP before logging "listening": a program that waits for this record may send the signal,
	// which would otherwise end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	p.logger.InfoContext(ctx, "listening",
		slog.String("endpoint", scheme+endpoint.Addr().String()+p.cfg.Gateway.Path),
		slog.String("admin", "http://"+admin.Addr().String()))
	if opts.Listening != nil {
		url := scheme + nearest(endpoint.Addr()).String() + p.cfg.Gateway.Path
		opts.Listening(addresses(url, nearest(admin.Addr()), g))
	}
	return p.admit(g, clients, server, endpoint, admin).serve(ctx, hangups)
}

// admit returns both servers, on listeners that limit connections.
func (p *process) admit(
	g *gateway.Gateway, clients *edge.Ledger, server *http.Server, endpoint, admin net.Listener,
) *listeners {
	// Operators have a separate ledger, so that clients cannot lock them out.
	operators := edge.New(edge.Options{Logger: p.logger, Connections: adminConnections})
	adminServer := newServer(g.Admin(p.telemetry.metrics), p.logger)
	return &listeners{
		process: p, gateway: g,
		endpoint: bind(server, clients.Listen(server, endpoint, func() *config.Config { return g.Snapshot().Config })),
		admin:    bind(adminServer, operators.Listen(adminServer, admin, nil)),
	}
}

// nearest returns the address at which this machine reaches a listener: 127.0.0.1 for a listener on all
// addresses.
func nearest(listener net.Addr) netip.AddrPort {
	address := netip.MustParseAddrPort(listener.String()) // the address of a TCP listener always parses
	if address.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), address.Port())
	}
	return address
}

// addresses returns the URLs of a gateway. The console's URL contains a sign-in code if the admin listener is
// on loopback and has no admin token.
func addresses(endpoint string, admin netip.AddrPort, g *gateway.Gateway) Addresses {
	console := url.URL{Scheme: "http", Host: admin.String(), Path: "/"}
	if admin.Addr().IsLoopback() {
		if code := g.LinkCode(); code != "" {
			console.Path, console.RawQuery = "/sign-in", url.Values{"code": {code}}.Encode()
		}
	}
	return Addresses{endpoint, console.String(), console.RawQuery != "", g.Snapshot().Config}
}

// listeners are the two servers of a gateway.
type listeners struct {
	process         *process
	gateway         *gateway.Gateway
	endpoint, admin boundServer
}

// serve serves until ctx ends or a server fails. Then requests in flight get drain_timeout to finish. A
// signal from hangups reloads the configuration.
func (l *listeners) serve(ctx context.Context, hangups <-chan os.Signal) error {
	upstreams, stopUpstreams := context.WithCancel(context.WithoutCancel(ctx))
	defer stopUpstreams()
	// Drain ends open streams, which would otherwise keep their connections.
	l.endpoint.server.RegisterOnShutdown(l.gateway.Drain)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.gateway.Run(upstreams) })
	// Reloads do not end with ctx: policy changes must also apply while the gateway drains.
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
	if tried := l.process.opts.Tried; tried != nil {
		group.Go(func() error {
			if l.gateway.Settle(ctx); ctx.Err() == nil {
				tried(l.gateway.Snapshot())
			}
			return nil
		})
	}
	group.Go(l.endpoint.serve)
	group.Go(l.admin.serve)
	group.Go(func() error {
		<-ctx.Done()
		l.process.tell(systemd.SdNotifyStopping)
		l.end(ctx, stopReloads)
		// Stop the upstreams last: requests in flight need them.
		stopUpstreams()
		return nil
	})
	err := group.Wait()
	l.process.logger.InfoContext(ctx, "stopped")
	return err
}

// end stops the endpoint, then the admin listener, so that operators can watch the shutdown.
func (l *listeners) end(ctx context.Context, stopReloads func()) {
	logger := l.process.logger
	l.gateway.AnnounceEnd()
	cfg := l.gateway.Snapshot().Config.Gateway
	// Only SIGTERM comes from environments with load balancers, which need the delay to notice the shutdown.
	// A balancer may send the next client even if there are no connections now.
	signal, ok := errors.AsType[*SignalError](context.Cause(ctx))
	if ok && signal.Is == syscall.SIGTERM && cfg.DrainDelay > 0 {
		logger.InfoContext(ctx, "no longer ready, stopping soon",
			slog.Duration("drain_delay", cfg.DrainDelay))
		// A second signal ends the process immediately.
		time.Sleep(cfg.DrainDelay)
	}
	stopReloads()
	logger.InfoContext(ctx, "stopping")
	l.endpoint.stop(cfg.DrainTimeout, logger)
	l.admin.stop(cutOffTimeout, logger)
}

// readyInterval is the time between the checks of awaitReady.
const readyInterval = 100 * time.Millisecond

// awaitReady waits until ready returns true. If ctx ends first, it returns false.
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
