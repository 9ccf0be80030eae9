package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/loglimit"
)

// maxReported bounds the new reports of one kind about one upstream that are logged within ten seconds.
const maxReported = 50

// ErrStopped means that the publisher's Run has returned.
var ErrStopped = errors.New("the gateway is not running")

// Options are what a [Publisher] needs beside its configuration.
type Options struct {
	// Logger receives changes of state; nil discards them.
	Logger *slog.Logger
	// StateDir is the folder where the last good lists are kept; empty keeps nothing.
	StateDir string
	// NewConnector returns the connector of an upstream that was not there before. Changed must be called, and never
	// blocks, when the connector's state changes.
	NewConnector func(u config.Upstream, changed func()) *upstream.Connector
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// Publisher turns upstream states and configurations into snapshots, and is their only writer. Its methods are safe for
// concurrent use.
type Publisher struct {
	logger       *slog.Logger
	reportLogger *slog.Logger // is limited: servers decide how often their lists change, and how much in them is wrong
	newConnector func(config.Upstream, func()) *upstream.Connector
	stateDir     *stateDir
	started      time.Time

	current       atomic.Pointer[Snapshot]
	subscriptions subscriptions
	// changed holds at most one mark: some upstream's state is not in the current snapshot yet.
	changed chan struct{}
	// generations passes a new generation to Run.
	generations chan *Generation
	// stopped is closed when Run has returned.
	stopped chan struct{}

	// The rest belongs to Run's goroutine.

	// published are the upstreams' lists as they are in the current snapshot, in its order.
	published []published
	reported  map[string]bool
	// hideAt is when the next upstream that is down is due to be hidden; zero where none is.
	hideAt time.Time
}

// NewPublisher returns a publisher whose first snapshot holds what is in the state_dir. It contacts and starts nothing.
func NewPublisher(cfg *config.Config, opts Options) (*Publisher, error) {
	p := &Publisher{
		logger: opts.logger(), reportLogger: loglimit.New(opts.logger(), maxReported, "kind", "upstream"), newConnector: opts.NewConnector, started: time.Now(),
		reported: map[string]bool{}, changed: make(chan struct{}, 1), generations: make(chan *Generation), stopped: make(chan struct{}),
	}
	var err error
	if p.stateDir, err = openStateDir(opts.StateDir, p.logger); err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	g, err := p.generation(cfg, nil)
	if err != nil {
		return nil, err
	}
	first, published := g.evaluate()
	first.started, p.published = p.started, published
	p.current.Store(first)
	return p, nil
}

// Current returns the current snapshot. It never blocks.
func (p *Publisher) Current() *Snapshot { return p.current.Load() }

// Started returns when the publisher was made.
func (p *Publisher) Started() time.Time { return p.started }

// Stopped is closed once [Publisher.Run] has returned.
func (p *Publisher) Stopped() <-chan struct{} { return p.stopped }

// NewGeneration returns the generation of a configuration that is to replace the current one. Connectors whose upstream
// block is unchanged are shared with it; the others have to be run. Nothing is published yet.
func (p *Publisher) NewGeneration(cfg *config.Config) (*Generation, error) {
	return p.generation(cfg, p.Current().Generation)
}

func (p *Publisher) generation(cfg *config.Config, before *Generation) (*Generation, error) {
	g, err := newGeneration(cfg, before, p.logger)
	if err != nil {
		return nil, err
	}
	for _, u := range g.Upstreams {
		connector, list := p.connector(u, before)
		g.addConnector(connector)
		if list.Definitions != nil {
			g.saved[u.Name] = list
		}
	}
	return g, nil
}

// connector returns the connector of an upstream and the list that stands in until the connector has listed: the
// connector of the generation before if it would be the same, or else a new one with the last list of the same server.
func (p *Publisher) connector(u config.Upstream, before *Generation) (*upstream.Connector, List) {
	var old *upstream.Connector
	if before != nil {
		old = before.connectors[u.Name]
	}
	switch {
	case old != nil && old.Upstream().SameConnection(u):
		return old, before.saved[u.Name]
	case old == nil || serverOf(old.Upstream()) != serverOf(u):
		list, ok := p.stateDir.load(u)
		if ok {
			list = list.known()
		}
		return p.newConnector(u, p.signal), list
	}
	list := before.saved[u.Name]
	if state := old.State(); state.Listed {
		list = List{Definitions: state.Definitions}.known()
	}
	return p.newConnector(u, p.signal), list
}

// signal asks for a new snapshot. It never blocks.
func (p *Publisher) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Run publishes a snapshot whenever an upstream's state changes or [Publisher.Replace] is called, until ctx ends. To be
// called once.
func (p *Publisher) Run(ctx context.Context) error {
	defer close(p.stopped)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.publishChanges(ctx) })
	group.Go(func() error {
		return p.stateDir.run(ctx, func() []*upstream.Connector { return p.Current().Connectors })
	})
	return group.Wait()
}

func (p *Publisher) publishChanges(ctx context.Context) error {
	for {
		var due <-chan time.Time
		if !p.hideAt.IsZero() {
			due = time.After(time.Until(p.hideAt))
		}
		select {
		case <-p.changed:
		case <-due:
		case next := <-p.generations:
			p.replace(ctx, next)
			continue
		case <-ctx.Done():
			return nil
		}
		p.publish(ctx, p.Current().Generation)
	}
}

// Replace publishes a snapshot of another generation and moves all subscriptions to it. An error means that nothing has
// changed.
func (p *Publisher) Replace(ctx context.Context, next *Generation) error {
	before := p.Current().Generation
	select {
	case p.generations <- next:
	case <-p.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-before.replaced:
		return nil
	case <-p.stopped:
		return ErrStopped
	}
}

func (p *Publisher) replace(ctx context.Context, next *Generation) {
	before := p.Current().Generation
	p.carryOver(before, next)
	p.publish(ctx, next)
	p.moveSubscriptions()
	close(before.replaced)
}

// carryOver keeps the admitted lists that the next generation admits alike, at their upstream's new index.
func (p *Publisher) carryOver(before, next *Generation) {
	old := make(map[string]int, len(before.Upstreams))
	for i, u := range before.Upstreams {
		old[u.Name] = i
	}
	same := next.admission.sameTeams(before.admission)
	carried := make([]published, len(next.Upstreams))
	for i := range next.Upstreams {
		u := &next.Upstreams[i]
		at, known := old[u.Name]
		if !known {
			continue
		}
		was := &before.Upstreams[at]
		if same[u.Team] && was.Team == u.Team && was.Prefix == u.Prefix && was.Place == u.Place {
			carried[i] = p.published[at]
		}
	}
	p.published = carried
}

// manyStale is the number of stale lists up to which each is merged by itself; for more, a full merge is cheaper.
const manyStale = 8

// publish makes a snapshot of all current states, swaps it in, and only then wakes subscriptions.
func (p *Publisher) publish(ctx context.Context, g *Generation) {
	before, states := p.Current(), g.states()
	stale := p.admitStale(g, states)
	merged := before.Catalog
	switch {
	case !g.mergesLike(before.Generation) || len(stale) > manyStale:
		merged = catalog.Merge(g.contributions(p.published), g.catalogOptions())
	default:
		for _, i := range stale {
			merged = merged.With(g.contribution(i, &p.published[i]))
		}
	}
	next := before.next(g, merged, states)
	next.rejected = g.rejections(p.published, states)
	close(p.current.Swap(next).superseded)
	p.report(ctx, next.Reports())
	if merged != before.Catalog && g == before.Generation {
		p.wakeChanged()
	}
	p.stateDir.signal()
}

// admitStale brings the admitted lists up to date and returns the indexes of those that changed.
func (p *Publisher) admitStale(g *Generation, states []*upstream.State) (stale []int) {
	now := time.Now()
	p.hideAt = time.Time{}
	for i, state := range states {
		list, hidden := &p.published[i], false
		if at, ok := hideAt(&g.Upstreams[i], state); ok {
			hidden = !now.Before(at)
			if !hidden && (p.hideAt.IsZero() || at.Before(p.hideAt)) {
				p.hideAt = at
			}
		}
		definitions := g.definitions(i, state)
		current := list.admits(definitions)
		if !current {
			list.admitted = g.admission.admit(&g.sources[i], definitions)
		}
		if !current || hidden != list.hidden {
			stale = append(stale, i)
		}
		list.hidden = hidden
	}
	return stale
}

// hideAt returns when the prompts of an upstream that is down are to be hidden; ok is false where they are not to be.
func hideAt(u *config.Upstream, state *upstream.State) (at time.Time, ok bool) {
	if u.WhenDown != config.WhenDownHide || state.Connected || state.Problem == nil {
		return time.Time{}, false
	}
	return state.Problem.Since.Add(u.Grace), true
}

// report logs the reports that are new.
func (p *Publisher) report(ctx context.Context, reports []catalog.Report) {
	now := make(map[string]bool, len(reports))
	for _, r := range reports {
		now[r.Key()] = true
		if !p.reported[r.Key()] {
			p.reportLogger.WarnContext(ctx, "catalog",
				slog.String("kind", string(r.Kind)), slog.String("upstream", r.Upstream()), slog.String("report", r.Text))
		}
	}
	p.reported = now
}
