package gateway

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/admin/console"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/gateway/transport"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// ErrShuttingDown is [requests.ErrShuttingDown].
var ErrShuttingDown = requests.ErrShuttingDown

// Name is the gateway's name towards clients and servers.
const Name = requests.Name

// MetaPartial is the _meta key under which a list names the upstreams whose part of it is not
// fresh.
const MetaPartial = requests.MetaPartial

// connectsPerSecond bounds the attempts to connect of one team's upstreams, at first all at once.
const connectsPerSecond = 100

// signsPerSecond is how many idle servers in all are asked in a second whether they are there: each
// of 15 000 every 30 seconds.
const signsPerSecond = 500

// Options are what a gateway needs beside its configuration. The zero value works.
type Options struct {
	// Logger receives changes of state; nil discards them.
	Logger *slog.Logger
	// Version is what the gateway tells clients and servers.
	Version string
	// StateDir is a folder in which the last good lists are kept, so that a restart while an
	// upstream is down still lists its prompts. Empty keeps nothing.
	StateDir string
	// Kept are the files of teams that are not in use as they are, and Diagnostics what there is to
	// say about the configuration, for operators; see [config.LoadTolerant].
	Kept        []config.Kept
	Diagnostics config.Diagnostics
	// Ledger has what clients hold, and the connections that [Gateway.Handler] serves; nil bounds
	// no connections, and makes a percentage in max_buffered bound nothing.
	Ledger *edge.Ledger
	// Audit records requests, refused credentials, reloads and what operators do; nil records
	// nothing. Whoever has opened it closes it when [Gateway.Run] and the servers have ended.
	Audit *audit.Log
	// Load loads the configuration again for [Gateway.Reload]; nil where there are no reloads.
	// The Config is nil where nothing of it can be used; see [config.LoadTolerant].
	Load func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics)
	// Debug is served to operators under /debug/ by [Gateway.Admin]; nil where there is nothing.
	Debug http.Handler
	// IsAlone is set over stdio, where the client never reaches another replica.
	IsAlone bool
}

// Gateway is a running configuration. Its methods are safe for concurrent use.
type Gateway struct {
	opts   Options
	logger *slog.Logger
	guard  dialGuard
	// pace is that of the signs of life of all upstreams.
	pace *rate.Limiter
	// connects has, by team, the limiter of its upstreams' attempts to connect: a team's dead servers
	// delay only its own.
	connects  sync.Map
	folders   *upstream.Folders
	publisher *snapshot.Publisher
	requests  *requests.Handler
	transport *transport.Transport
	// cluster is nil where there are no replicas.
	cluster   *cluster.Replica
	history   *admin.History
	operators *admin.Operators

	// reloads hands calls of Reload to Run, and loaded says what became of the last.
	reloads chan chan<- error
	loaded  atomic.Pointer[admin.ConfigurationState]
	// ready is set once the gateway has been ready, ending once it is about to end.
	ready, ending atomic.Bool
}

// New returns a gateway. It contacts and starts nothing; [Gateway.Run] does.
func New(cfg *config.Config, opts Options) (*Gateway, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		opts: opts, logger: opts.Logger, reloads: make(chan chan<- error),
		pace:    rate.NewLimiter(signsPerSecond, signsPerSecond/10),
		folders: upstream.NewFolders(), history: admin.NewHistory(),
	}
	g.loaded.Store(g.inUse(cfg, opts.Kept, opts.Diagnostics))
	var err error
	g.publisher, err = snapshot.NewPublisher(cfg, snapshot.Options{
		Logger: opts.Logger, StateDir: opts.StateDir, NewConnector: g.newConnector,
		Replicated: cfg.Cluster != nil && !opts.IsAlone,
	})
	if err != nil {
		return nil, err
	}
	if opts.Ledger == nil {
		opts.Ledger = edge.New(edge.Options{Logger: opts.Logger})
	}
	handling := requests.Options{Logger: opts.Logger, Version: opts.Version, Ledger: opts.Ledger, Audit: opts.Audit}
	if cfg.Cluster != nil {
		if g.cluster, err = cluster.New(cfg, g.Snapshot().Sealer, opts.Logger); err != nil {
			return nil, err
		}
		handling.Shared = g.cluster.Limits
		if !opts.IsAlone {
			handling.Forwarder = g.cluster.Forwarder
		}
	}
	g.requests = requests.New(g.publisher, handling)
	g.transport = transport.New(g.publisher, g.requests, transport.Options{
		Logger: opts.Logger, Ledger: opts.Ledger, Forwarder: handling.Forwarder,
	})
	g.operators = admin.NewOperators(g.Snapshot, admin.Records{
		Acted: records{opts.Audit}.act, Refused: func(client, reason string) {
			g.transport.CountRefused(context.Background(), client, reason, errAdminToken)
		},
	})
	return g, nil
}

func (g *Gateway) newConnector(u config.Upstream, changed func()) *upstream.Connector {
	connects, _ := g.connects.LoadOrStore(u.Team, rate.NewLimiter(connectsPerSecond, connectsPerSecond))
	c := upstream.New(u, upstream.Options{
		Logger: g.logger, Name: Name, Version: g.opts.Version, DialGuard: g.guard.check,
		Pace: g.pace, Connects: connects.(*rate.Limiter), //nolint:forcetypeassert // the line above
	}, changed)
	c.ShareFolders(g.folders)
	return c
}

// Own tells the gateway an address on which it listens itself, so that no upstream can point back
// at it. To be called before Run.
func (g *Gateway) Own(address netip.AddrPort) { g.guard.add(address) }

// Run keeps the upstreams connected and the catalog current until ctx ends and all of that has
// ended. To be called once.
func (g *Gateway) Run(ctx context.Context) error {
	defer observe(g)()
	defer g.requests.Close()
	if g.cluster != nil {
		defer g.cluster.Start(ctx)() // it ends last: requests are counted until then
	}
	group, ctx := errgroup.WithContext(ctx)
	s := supervisor{gateway: g, group: group, cancels: map[*upstream.Connector]context.CancelFunc{}}
	// Here, since the supervisor belongs to the next goroutine once that runs.
	s.start(ctx, g.Snapshot().Connectors)
	group.Go(func() error { return s.run(ctx) })
	group.Go(func() error { return g.publisher.Run(ctx) })
	group.Go(func() error {
		g.history.Run(ctx, g.Snapshot, g.requests.PromptGets)
		return nil
	})
	err := group.Wait()
	g.Drain()
	g.transport.Wait()
	return err
}

// Snapshot returns what the gateway knows now.
func (g *Gateway) Snapshot() *snapshot.Snapshot { return g.publisher.Current() }

// Settle waits until every upstream has answered or failed once, at most until ctx ends.
func (g *Gateway) Settle(ctx context.Context) {
	for s := g.Snapshot(); !s.AllTried(); s = g.Snapshot() {
		select {
		case <-s.Superseded():
		case <-ctx.Done():
			return
		}
	}
}

// Handler serves the MCP endpoint, see [transport.Transport.Handler].
func (g *Gateway) Handler() http.Handler { return g.transport.Handler() }

// ServeStdio serves one client over a pair of pipes, see [transport.Transport.ServeStdio].
func (g *Gateway) ServeStdio(ctx context.Context, credential identity.Credential, in io.Reader, out io.Writer) error {
	return g.transport.ServeStdio(ctx, credential, in, out)
}

// Call gets a prompt, or completes an argument, for a command and on behalf of a principal that may
// be nil, see [requests.Handler.HandleLocal].
func (g *Gateway) Call(
	ctx context.Context, principal *policy.Principal, method string, params wire.Object,
) (jsontext.Value, error) {
	return g.requests.HandleLocal(ctx, requests.Local{Principal: principal}, method, params)
}

// AnnounceEnd makes the gateway unready, so that load balancers send no further clients.
func (g *Gateway) AnnounceEnd() { g.ending.Store(true) }

// Drain ends the streams of all clients in the way that their revision defines. Requests in flight
// are not affected.
func (g *Gateway) Drain() { g.transport.Drain() }

// ReopenAudit has the file of the audit log opened again, see [audit.Log.Reopen].
func (g *Gateway) ReopenAudit() { g.opts.Audit.Reopen() }

// Admin serves the operators' side, see [admin.New]. Metrics is served as /metrics.
func (g *Gateway) Admin(metrics http.Handler) http.Handler {
	acts := records{g.opts.Audit}
	view := &admin.View{
		Snapshot: g.Snapshot, IsReady: g.IsReady, Ready: g.Ready,
		Configuration: g.loaded.Load, History: g.history,
	}
	return admin.New(admin.Options{
		View: view, Operators: g.operators, Console: console.New(view, g.operators, console.Options{
			Logger: g.logger, Call: operatorCalls(g.requests),
			Connect: g.connect,
			Reload: func(ctx context.Context, client string) error {
				err := g.Reload(ctx)
				acts.act(client, "reload", err)
				return err
			},
		}),
		Reload: g.Reload, Metrics: metrics, Debug: g.opts.Debug, Acted: acts.act,
	})
}

// LinkCode returns the code of a link that opens the console, see [admin.Operators.LinkCode].
func (g *Gateway) LinkCode() string { return g.operators.LinkCode() }

// isKnown reports whether it is known if the store, which may be nil, can be used: before that,
// this replica would count each request alone.
func isKnown(store *cluster.Replica) bool {
	if store == nil {
		return true
	}
	state := store.State()
	return state.Connected || state.Err != nil
}

// IsReady reports whether the gateway is ready, as [admin.IsReady] says. It stays ready when a
// reload adds an upstream. Load balancers ask often, and it costs nothing once the gateway is.
func (g *Gateway) IsReady() bool {
	if !g.ready.Load() && isKnown(g.cluster) && admin.IsReady(g.Snapshot(), time.Since(g.publisher.Started())) {
		g.ready.Store(true)
	}
	return g.ready.Load() && !g.ending.Load() && !g.opts.Audit.Refuses()
}

// Ready returns the gateway's condition.
func (g *Gateway) Ready() admin.Readiness {
	started := g.publisher.Started()
	readiness := admin.Health(g.Snapshot())
	readiness.Draining, readiness.Ready = g.ending.Load(), g.IsReady()
	readiness.Version, readiness.Started, readiness.Configuration = g.opts.Version, &started, g.loaded.Load()
	readiness.ConfigurationHash = g.Snapshot().Config.Hash
	readiness.Reports = append(readiness.Reports, g.publisher.Unsaved()...)
	if problem := g.opts.Audit.State().Problem; problem != nil {
		readiness.AuditProblem = problem.Error()
	}
	if g.cluster != nil {
		state := g.cluster.State()
		readiness.Store = &admin.StoreHealth{Here: state.Connected, Since: state.Since, Evicts: state.Evicts}
	}
	readiness.Streams = g.publisher.Subscriptions()
	readiness.Waiting = g.requests.Parked() + g.transport.AwaitedReplies()
	return readiness
}
