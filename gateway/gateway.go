package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
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
}

// Gateway is one configuration at work. Its methods are safe for concurrent use.
type Gateway struct {
	cfg     *config.Config
	opts    Options
	logger  *slog.Logger
	metrics *instruments

	connectors []*upstream.Connector // in configuration order
	byName     map[string]*upstream.Connector
	intake     *intake
	policy     *policy.Policy
	identity   *identity.Authenticator
	sealer     *seal.Sealer
	asking     *seal.Box // of requestState
	schemas    *schemas  // of arguments
	limits     *limits
	teamLimits map[string]*config.Limit
	hosts      hostGuard
	own        ownAddresses
	sessions   legacySessions
	calls      calls     // of legacy clients over HTTP, by session and id
	questions  questions // to them, by session
	waits      waits     // of modern clients' gets
	sse        sseSessions
	keep       *keeper

	// changed holds at most one mark: that some upstream's state is not in the edition yet.
	changed chan struct{}
	edition atomic.Pointer[edition]
	subscribers
	detached detached
	started  time.Time
	// closing is closed when streams are to end.
	closing chan struct{}
	drain   sync.Once
}

// New makes a gateway. It contacts and starts nothing; [Gateway.Run] does.
func New(cfg *config.Config, opts Options) (*Gateway, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	keys := make([][32]byte, 0, len(cfg.Gateway.CursorKeys))
	for _, key := range cfg.Gateway.CursorKeys {
		keys = append(keys, key.Reveal())
	}
	sealer, err := seal.New(keys)
	if err != nil {
		return nil, fmt.Errorf("cursor_keys: %w", err)
	}
	g := &Gateway{
		cfg: cfg, opts: opts, logger: opts.Logger,
		byName: map[string]*upstream.Connector{},
		intake: newIntake(cfg), identity: identity.New(cfg, opts.Logger), sealer: sealer, asking: sealer.For(statePurpose),
		hosts:   newHostGuard(cfg.Gateway.Listen, cfg.Gateway.PublicURL, cfg.Gateway.AllowedHosts, cfg.Gateway.AllowedOrigins),
		metrics: newInstruments(),
		changed: make(chan struct{}, 1), started: time.Now(), closing: make(chan struct{}),
	}
	g.policy = policy.New(cfg).Reporting(g.reportCondition)
	if g.limits, err = newLimits(); err != nil {
		return nil, err
	}
	g.teamLimits = map[string]*config.Limit{}
	for i := range cfg.Teams {
		g.teamLimits[cfg.Teams[i].Name] = cfg.Teams[i].Limit
	}
	if g.schemas, err = newSchemas(); err != nil {
		return nil, err
	}
	for _, u := range cfg.Upstreams() {
		connector := upstream.New(u, upstream.Options{
			Logger: opts.Logger, Name: Name, Version: opts.Version, Forbidden: g.own.forbids,
		}, g.signal)
		g.connectors = append(g.connectors, connector)
		g.byName[u.Name] = connector
	}
	if g.keep, err = newKeeper(g, opts.StateDir); err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	sources, all := g.restored()
	first := newEdition(catalog.Merge(sources, g.catalogOptions()), g.states())
	first.unlisted = g.unlisted(all, first.states)
	g.edition.Store(first)
	return g, nil
}

// Own tells the gateway an address that it listens on itself, so that no upstream can point back at it. To be called
// before Run.
func (g *Gateway) Own(address netip.AddrPort) { g.own.add(address) }

// Run keeps the upstreams connected and the catalog current, until ctx ends and all of that has ended.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.observe()()
	defer g.waits.end()
	group, ctx := errgroup.WithContext(ctx)
	for _, connector := range g.connectors {
		group.Go(func() error { return connector.Run(ctx) })
	}
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

func (g *Gateway) catalogOptions() catalog.Options {
	return catalog.Options{
		Separator: g.cfg.Gateway.Separator, Conflict: string(g.cfg.Gateway.Conflict),
		Tag: func(e *catalog.Entry) any { return g.policy.Grants(e.Team, e.Owners[0].Upstream, e.Name, e.JSON) },
	}
}

// reportCondition logs a when that could not be evaluated.
func (g *Gateway) reportCondition(f policy.Failure) {
	g.logger.Warn("when cannot be evaluated: it hides, or does not expose", slog.String("rule", f.Rule),
		slog.String("prompt", f.Prompt), slog.Any("error", f.Err))
}

// definitions are what an upstream lists, or listed before this process began; nil where that is not known.
func (g *Gateway) definitions(i int, state *upstream.State) []jsontext.Value {
	if state.Lists == 0 {
		return g.keep.restored[g.connectors[i].Upstream().Name]
	}
	return state.Definitions
}

// restored are the sources with the lists that a process before this one kept, and what was made of each.
func (g *Gateway) restored() (sources []catalog.Source, all []taken) {
	sources = g.sources()
	all = make([]taken, len(sources))
	for i := range sources {
		all[i] = g.intake.take(&sources[i], g.keep.restored[sources[i].Upstream])
		sources[i].Prompts = all[i].prompts
	}
	return sources, all
}

// unlisted are the reports about what is not in the catalog, or not as its upstream says it.
func (g *Gateway) unlisted(all []taken, states []*upstream.State) (reports []catalog.Report) {
	by, listed := map[string]taken{}, map[string]bool{}
	for i, c := range g.connectors {
		reports = append(reports, all[i].reports...)
		by[c.Upstream().Name], listed[c.Upstream().Name] = all[i], g.listed(i, states[i])
	}
	return append(reports, g.intake.unmatched(by, func(u string) bool { return listed[u] })...)
}

// sources are the upstreams as the catalog knows them before any of them was listed.
func (g *Gateway) sources() []catalog.Source { return sourcesOf(g.cfg) }

func sourcesOf(cfg *config.Config) []catalog.Source {
	var sources []catalog.Source
	for _, u := range cfg.Upstreams() {
		sources = append(sources, catalog.Source{
			Upstream: u.Name, Team: u.Team, Prefix: u.Prefix, Place: u.Place.String(),
		})
	}
	return sources
}
