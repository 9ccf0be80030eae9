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
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/gateway/transport"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// ErrShuttingDown is [requests.ErrShuttingDown].
var ErrShuttingDown = requests.ErrShuttingDown

// Name is the name by which the gateway identifies itself to clients and servers.
const Name = requests.Name

// MetaPartial is [requests.MetaPartial].
const MetaPartial = requests.MetaPartial

// connectsPerSecond bounds one team's attempts to connect to its upstreams. After a start, the
// first 100 may connect at once.
const connectsPerSecond = 100

// Options are the settings of a gateway that are not in its configuration. The zero value works.
type Options struct {
	// Logger receives changes of state. If it is nil, they are discarded.
	Logger *slog.Logger
	// Version is the gateway's version in messages to clients and servers.
	Version string
	// StateDir is a folder for the last good lists, so that a restart while an upstream is down
	// still lists its prompts. If it is empty, nothing is saved.
	StateDir string
	// Kept are the team files with errors: their previous text is used, or they are left out.
	// Diagnostics are their errors, for operators. See [config.LoadTolerant].
	Kept        []config.Kept
	Diagnostics config.Diagnostics
	// Ledger counts the memory and connections of clients, including the connections that
	// [Gateway.Handler] serves. If it is nil, connections are not bounded, and neither is memory if
	// max_buffered is a percentage.
	Ledger *edge.Ledger
	// Audit records requests, refused credentials, reloads and operators' actions. If it is nil,
	// nothing is recorded. The caller closes it after [Gateway.Run] and the servers have ended.
	Audit *audit.Log
	// Load loads the configuration again for [Gateway.Reload]. It returns a nil Config if no part
	// of the configuration can be used; see [config.LoadTolerant]. If Load is nil, reloads fail.
	Load func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics)
	// Debug serves operators under /debug/ of [Gateway.Admin]. It may be nil.
	Debug http.Handler
	// IsAlone is true over stdio, where the client cannot reach another replica.
	IsAlone bool
}

// Gateway is a running configuration. Its methods are safe for concurrent use.
type Gateway struct {
	opts   Options
	logger *slog.Logger
	guard  dialGuard
	// connects maps a team to the limiter of its attempts to connect, so that one team's dead
	// servers do not delay the servers of other teams.
	connects  sync.Map
	folders   *upstream.Folders
	publisher *publish.Publisher
	requests  *requests.Handler
	transport *transport.Transport
	// cluster is nil if there are no other replicas.
	cluster   *cluster.Replica
	history   *admin.History
	operators *admin.Operators

	// reloads passes calls of Reload to Run. loaded is the state of the configuration, as operators
	// see it.
	reloads chan chan<- error
	loaded  atomic.Pointer[admin.ConfigurationState]
	// ready is true once the gateway has been ready. ending is true after [Gateway.AnnounceEnd].
	ready, ending atomic.Bool
}

// New returns a gateway. It contacts no server and starts nothing before [Gateway.Run].
func New(cfg *config.Config, opts Options) (*Gateway, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		opts: opts, logger: opts.Logger, reloads: make(chan chan<- error),
		folders: upstream.NewFolders(), history: admin.NewHistory(),
	}
	g.loaded.Store(g.inUse(cfg, opts.Kept, opts.Diagnostics))
	var err error
	g.publisher, err = publish.New(cfg, publish.Options{
		Logger: opts.Logger, StateDir: opts.StateDir, NewConnector: g.newConnector,
		Replicated: cfg.Cluster != nil && !opts.IsAlone, ReplyBound: requests.ReplyBound,
	})
	if err != nil {
		return nil, err
	}
	if opts.Ledger == nil {
		opts.Ledger = edge.New(edge.Options{Logger: opts.Logger})
	}
	handling := requests.Options{Logger: opts.Logger, Version: opts.Version, Ledger: opts.Ledger, Audit: opts.Audit}
	if cfg.Cluster != nil {
		g.cluster = cluster.New(cfg, g.Snapshot().Sealer, opts.Logger)
		handling.Shared = g.cluster.Limits
		if !opts.IsAlone {
			handling.Forwarder = g.cluster.Forwarder
		}
	}
	g.requests = requests.New(&g.publisher.Source, handling)
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

func (g *Gateway) newConnector(u config.Upstream, changed func()) publish.Connector {
	connects, _ := g.connects.LoadOrStore(u.Team, rate.NewLimiter(connectsPerSecond, connectsPerSecond))
	c := upstream.New(u, upstream.Options{
		Logger: g.logger, Name: Name, Version: g.opts.Version, DialGuard: g.guard.check,
		Connects: connects.(*rate.Limiter), //nolint:forcetypeassert // LoadOrStore above stores only limiters
	}, changed)
	c.ShareFolders(g.folders)
	return c
}

// Own adds an address on which the gateway listens, so that no upstream can point back at it. Call
// it before Run.
func (g *Gateway) Own(address netip.AddrPort) { g.guard.add(address) }

// Run keeps the upstreams connected and the catalog current until ctx ends, and returns when
// everything that it started has ended. Call it once.
func (g *Gateway) Run(ctx context.Context) error {
	defer observe(g)()
	defer g.requests.Close()
	if g.cluster != nil {
		defer g.cluster.Start(ctx)() // ends after the transport, which counts requests in the store
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.publisher.Run(ctx) })
	group.Go(func() error { return g.carryOutReloads(ctx) })
	group.Go(func() error {
		g.history.Run(ctx, g.Snapshot, g.requests.PromptGets)
		return nil
	})
	err := group.Wait()
	g.Drain()
	return err
}

// Snapshot returns the current snapshot.
func (g *Gateway) Snapshot() *snapshot.Snapshot { return g.publisher.Current() }

// Settle waits until every upstream has answered or failed once, or ctx ends.
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

// Call gets a prompt or completes an argument for a command. The principal may be nil, see
// [requests.Handler.HandleLocal].
func (g *Gateway) Call(
	ctx context.Context, principal *policy.Principal, method string, params wire.Object,
) (jsontext.Value, error) {
	return g.requests.HandleLocal(ctx, requests.Local{Principal: principal}, method, params)
}

// AnnounceEnd makes the gateway unready, so that load balancers send it no more clients.
func (g *Gateway) AnnounceEnd() { g.ending.Store(true) }

// Drain ends the streams of all clients as their revision requires. Requests in flight go on.
func (g *Gateway) Drain() { g.transport.Drain() }

// ReopenAudit reopens the file of the audit log, see [audit.Log.Reopen].
func (g *Gateway) ReopenAudit() { g.opts.Audit.Reopen() }

// Admin returns the handler of the admin listener, see [admin.New]. It serves metrics at /metrics.
func (g *Gateway) Admin(metrics http.Handler) http.Handler {
	reload := func(ctx context.Context, client string) error {
		err := g.Reload(ctx)
		records{g.opts.Audit}.act(client, "reload", err)
		return err
	}
	view := &admin.View{
		Snapshot: g.Snapshot, IsReady: g.IsReady, Ready: g.Ready,
		Configuration: g.loaded.Load, History: g.history,
	}
	return admin.New(admin.Options{
		View: view, Operators: g.operators, Console: console.New(view, g.operators, console.Options{
			Logger: g.logger, Call: g.callAsOperator, Connect: g.connect, Reload: reload,
		}),
		Reload: reload, Metrics: metrics, Debug: g.opts.Debug,
	})
}

// LinkCode returns a code for a link that opens the console, see [admin.Operators.LinkCode].
func (g *Gateway) LinkCode() string { return g.operators.LinkCode() }

// isKnown reports whether the store was reached or has failed. Before that, this replica should get no
// requests, because it would count them alone. A nil store counts as known.
func isKnown(store *cluster.Replica) bool {
	if store == nil {
		return true
	}
	state := store.State()
	return state.Connected || state.Err != nil
}

// IsReady reports whether the gateway can take requests: it has been ready once, see [admin.IsReady],
// is not about to end, and its audit log accepts lines. A reload that adds an upstream does not make
// it unready. Load balancers call this often, so later calls are cheap.
func (g *Gateway) IsReady() bool {
	if !g.ready.Load() && isKnown(g.cluster) && admin.IsReady(g.Snapshot(), time.Since(g.publisher.Started())) {
		g.ready.Store(true)
	}
	return g.ready.Load() && !g.ending.Load() && !g.opts.Audit.Refuses()
}

// Ready returns the gateway's condition, for operators.
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
