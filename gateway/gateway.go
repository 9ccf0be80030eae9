package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
)

// Name is what the gateway calls itself towards clients and servers.
const Name = "promptweir"

// settleBound is how long after the start a list waits for upstreams that have not been heard of yet.
const settleBound = 2 * time.Second

// Options are what a gateway needs beside its configuration. The zero value works.
type Options struct {
	// Logger is where changes of state go; nil discards them.
	Logger *slog.Logger
	// Version is what the gateway tells clients and servers.
	Version string
	// StateDir is a folder in which the last good lists are kept, so that a restart while an upstream is down still
	// lists its prompts. Empty keeps nothing.
	StateDir string
	// Lists stand in for what the upstreams would say, until they do: for a gateway that is asked and never run.
	Lists Lists
	// Load loads the configuration again for [Gateway.Reload]; nil where there are no reloads.
	Load func() (*config.Config, config.Diagnostics)
	// Debug is served under /debug/ by [Gateway.Admin], to operators only; nil where there is nothing.
	Debug http.Handler
}

// Gateway is a configuration at work. What follows from the configuration is in its [setup], which a reload replaces;
// everything else lasts. Its methods are safe for concurrent use.
type Gateway struct {
	opts    Options
	logger  *slog.Logger
	metrics *instruments
	// info is the gateway's Implementation.
	info jsontext.Value

	schemas   *schemas // of arguments
	limits    *limits
	own       ownAddresses
	sessions  legacySessions
	calls     calls     // of legacy clients over HTTP, by session and id
	questions questions // to them, by session
	waits     waits     // of modern clients' gets
	sse       sseSessions
	keep      *keeper

	// changed holds at most one mark: that some upstream's state is not in the edition yet.
	changed chan struct{}
	// setups takes another setup to the edition's writer.
	setups chan *setup
	// reloads takes what Reload asks for to Run, and loading says what became of it.
	reloads chan chan<- error
	loading atomic.Pointer[loading]
	// ready is set once the gateway was found ready.
	ready   atomic.Bool
	edition atomic.Pointer[edition]
	subscribers
	detached detached
	started  time.Time
	// closing is closed when streams are to end.
	closing chan struct{}
	drain   sync.Once
	// over is closed when Run has returned.
	over chan struct{}
}

// New makes a gateway. It contacts and starts nothing; [Gateway.Run] does.
func New(cfg *config.Config, opts Options) (*Gateway, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		opts: opts, logger: opts.Logger, metrics: newInstruments(), info: serverInfo(opts.Version),
		changed: make(chan struct{}, 1), setups: make(chan *setup), reloads: make(chan chan<- error),
		started: time.Now(), closing: make(chan struct{}), over: make(chan struct{}),
	}
	g.loading.Store(&loading{since: g.started})
	var err error
	if g.limits, err = newLimits(); err != nil {
		return nil, err
	}
	if g.schemas, err = newSchemas(); err != nil {
		return nil, err
	}
	if g.keep, err = newKeeper(g, opts.StateDir); err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	first, err := g.newSetup(cfg, nil)
	if err != nil {
		return nil, err
	}
	sources, all := first.restoredSources()
	e := newEdition(first, catalog.Merge(sources, first.catalogOptions()), first.states())
	e.unlisted = first.unlisted(all, e.states)
	g.edition.Store(e)
	return g, nil
}

// Own tells the gateway an address that it listens on itself, so that no upstream can point back at it. To be called
// before Run.
func (g *Gateway) Own(address netip.AddrPort) { g.own.add(address) }

// Run keeps the upstreams connected and the catalog current, until ctx ends and all of that has ended. To be called once.
func (g *Gateway) Run(ctx context.Context) error {
	defer close(g.over)
	defer g.observe()()
	defer g.waits.end()
	group, ctx := errgroup.WithContext(ctx)
	crew := &crew{gateway: g, group: group, leave: map[*upstream.Connector]context.CancelFunc{}}
	crew.engage(ctx, g.setup().connectors)
	group.Go(func() error { return crew.run(ctx) })
	group.Go(func() error { return g.publishChanges(ctx) })
	group.Go(func() error { return g.keep.run(ctx) })
	err := group.Wait()
	g.Drain()
	g.detached.end()
	return err
}

// Drain ends the streams of all clients with what their revision says for that. Requests in flight are not touched.
func (g *Gateway) Drain() { g.drain.Do(func() { close(g.closing) }) }

// signal asks for a new edition. It never blocks.
func (g *Gateway) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// setup returns what follows from the present configuration.
func (g *Gateway) setup() *setup { return g.edition.Load().setup }
