package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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
	// TellReplicas tells the other replicas of the gateway which lists this one serves from now on, and must not take long; nil where
	// there are none. What they tell is for [Publisher.HearReplica].
	TellReplicas func([]ListChange)
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
	// changed are the upstreams whose states, or lists, are not in the current snapshot yet.
	changed *changes
	// swapped passes the snapshots that were swapped in to announceChanges.
	swapped   swapped
	elsewhere elsewhere
	// replacements passes a new generation to Run, drainChanges what an operator wants.
	replacements chan replacement
	drainChanges chan drainChange
	// stopped is closed when Run has returned.
	stopped chan struct{}

	// The rest belongs to Run's goroutine.

	// published are the upstreams' lists as they are in the current snapshot, in its order.
	published []published
	reported  map[string]bool
	// drains are those of the current snapshot.
	drains drains
	// due is when upstreams that are down are due to be hidden, or lists to be admitted.
	due appointments
	// inlineBound is the constant, unless a test has another one.
	inlineBound time.Duration
	// admissions are the goroutines that admit lists.
	admissions sync.WaitGroup
}

// replacement is a generation that is to take another one's place.
type replacement struct {
	next *Generation
	kept []int // see [Generation.kept]
	// lists are those that the next generation's rules admit; nil for those that are kept, and where that takes long.
	lists []*admitted
}

// admissionBound is how long the start waits for lists to be admitted, a reload for those in the catalog whose rules it
// changes, and everybody for an upstream's first one. What takes longer is published later.
const admissionBound = time.Second

// inlineBound is how long the publisher admits lists by itself before it publishes a snapshot. Nearly all take less.
const inlineBound = 5 * time.Millisecond

// NewPublisher returns a publisher whose first snapshot holds what is in the state_dir. It contacts and starts nothing.
func NewPublisher(cfg *config.Config, opts Options) (*Publisher, error) {
	p := &Publisher{
		logger: opts.logger(), reportLogger: loglimit.New(opts.logger(), maxReported, "kind", "upstream"), newConnector: opts.NewConnector,
		started: time.Now(), reported: map[string]bool{}, changed: newChanges(), replacements: make(chan replacement),
		drainChanges: make(chan drainChange), drains: drains{}, inlineBound: inlineBound,
		swapped: swapped{wake: make(chan struct{}, 1)}, elsewhere: elsewhere{tell: opts.TellReplicas, lists: map[string]servedList{}},
		stopped: make(chan struct{}),
	}
	var err error
	if p.stateDir, err = openStateDir(opts.StateDir, p.logger); err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	g, err := p.generation(cfg, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), admissionBound)
	defer cancel()
	first, published := g.evaluate(ctx)
	first.started, p.published = p.started, published
	p.current.Store(first)
	for i := range g.Upstreams {
		p.changed.add(g.Upstreams[i].Name) // Run admits what took longer
	}
	return p, nil
}

// Current returns the current snapshot. It never blocks.
func (p *Publisher) Current() *Snapshot { return p.current.Load() }

// Started returns when the publisher was made.
func (p *Publisher) Started() time.Time { return p.started }

// Unsaved returns sentences about the lists that could not be saved in the state_dir. They hold nothing sensitive.
func (p *Publisher) Unsaved() []string { return p.stateDir.unsaved() }

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
	label := u.Name // all of u would stay in memory
	changed := func() { p.changed.add(label) }
	switch {
	case old != nil && old.Upstream().SameConnection(u):
		return old, before.saved[u.Name]
	case old == nil || serverOf(old.Upstream()) != serverOf(u):
		list, ok := p.stateDir.load(u)
		if ok {
			list = list.known()
		}
		return p.newConnector(u, changed), list
	}
	list := before.saved[u.Name]
	if state := old.State(); state.Listed {
		list = List{Definitions: state.Definitions}.known()
	}
	return p.newConnector(u, changed), list
}

// Run publishes a snapshot whenever an upstream's state changes, a list is admitted or [Publisher.Replace] is called, until
// ctx ends. To be called once.
func (p *Publisher) Run(ctx context.Context) error {
	defer close(p.stopped)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.publishChanges(ctx) })
	group.Go(func() error { return p.announceChanges(ctx) })
	group.Go(func() error {
		return p.stateDir.run(ctx, func() *Generation { return p.Current().Generation })
	})
	err := group.Wait()
	p.admissions.Wait()
	return err
}

// restFactor is the rest after a publication, in multiples of what it took: with very many upstreams, or a large catalog, states
// that change all the time take a fifth of one processor at most. What changes meanwhile shares the next snapshot.
const restFactor = 4

func (p *Publisher) publishChanges(ctx context.Context) error {
	var rested <-chan time.Time // nil while the publisher does not rest
	for {
		var due <-chan time.Time
		changed := p.changed.wake
		if rested != nil {
			changed = nil
		} else if !p.due.next.IsZero() {
			due = time.After(time.Until(p.due.next))
		}
		select {
		case <-changed:
		case <-due:
		case <-rested:
			rested = nil
			continue
		case r := <-p.replacements:
			p.replace(ctx, r)
			continue
		case change := <-p.drainChanges:
			p.setDrained(ctx, change)
			continue
		case <-ctx.Done():
			return nil
		}
		began := time.Now()
		p.publish(ctx, p.Current().Generation)
		rested = time.After(restFactor * time.Since(began))
	}
}

// Replace publishes a snapshot of another generation and moves all subscriptions to it. An error means that nothing has
// changed. It waits for admissionBound at most until the lists that the next generation admits by other rules are admitted,
// so that their prompts need not be away meanwhile. To be called once at a time.
func (p *Publisher) Replace(ctx context.Context, next *Generation) error {
	before := p.Current().Generation
	select {
	case p.replacements <- p.prepare(ctx, next):
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

// prepare admits, beside Run, the lists in the catalog that the next generation admits by other rules.
func (p *Publisher) prepare(ctx context.Context, next *Generation) replacement {
	ctx, cancel := context.WithTimeout(ctx, admissionBound)
	defer cancel()
	current := p.Current()
	r := replacement{next: next, kept: next.kept(current.Generation)}
	indexes := current.index
	r.lists = next.admitLists(ctx, func(i int) (offered offer, earlier *admitted, ok bool) {
		at, known := indexes[next.Upstreams[i].Name]
		if r.kept[i] >= 0 || !known || current.lists[at] == nil {
			return offer{}, nil, false
		}
		offered, ok = next.offer(i, next.state(i))
		return offered, current.lists[at], ok
	})
	return r
}

func (p *Publisher) replace(ctx context.Context, r replacement) {
	before := p.Current().Generation
	p.carryOver(before, r)
	p.publish(ctx, r.next)
	close(before.replaced)
}

// carryOver keeps the lists that the next generation admits alike, with their admissions that are under way, at their
// upstream's new index. It ends all other admissions, and no list that other rules admitted stays.
func (p *Publisher) carryOver(before *Generation, r replacement) {
	carried, indexes := make([]published, len(r.next.Upstreams)), before.index
	for i := range carried {
		if at := r.kept[i]; at >= 0 {
			carried[i], p.published[at].running = p.published[at], nil
		} else if at, known := indexes[r.next.Upstreams[i].Name]; known {
			was := &p.published[at]
			carried[i] = published{list: r.lists[i], earlier: cmp.Or(was.list, was.earlier), tried: was.tried, merged: was.merged}
			if list := r.lists[i]; list != nil {
				carried[i].files = list.offer.files
			}
		}
	}
	for i := range p.published {
		p.published[i].running.cancel()
	}
	p.published = carried
}

// manyStale is the number of stale lists up to which each is merged by itself; for more, a full merge is cheaper.
const manyStale = 8

// publish makes a snapshot of the current states, swaps it in, and only then has subscriptions woken. While the generation stays,
// it looks only at upstreams that have changed.
func (p *Publisher) publish(ctx context.Context, g *Generation) {
	before := p.Current()
	if g != before.Generation && g.Policy == before.Policy {
		g.unmatched.inherit(before.unmatched)
	}
	if g != before.Generation {
		p.drains = p.drains.of(g)
	}
	next := before.successor(g)
	next.drains = p.drains
	touched := p.touched(before.Generation, g)
	stale := p.takeUp(ctx, next, touched)
	switch {
	case g != before.Generation && !g.mergesLike(before.Generation), len(stale) > manyStale:
		next.Catalog = catalog.Merge(g.contributions(p.published), g.catalogOptions())
	default:
		for _, i := range stale {
			next.Catalog = next.Catalog.With(g.contribution(i, &p.published[i]))
		}
	}
	next.complete(before, touched)
	next.published = time.Now()
	p.elsewhere.start(before)
	close(p.current.Swap(next).superseded)
	if next.Catalog != before.Catalog || g != before.Generation {
		p.swapped.add(next, p.listChanges(before.Generation, g, stale))
	}
	if isOther := func(i int) bool { return next.lists[i] != before.lists[i] }; g != before.Generation || slices.ContainsFunc(touched, isOther) {
		p.stateDir.signal()
	}
	if next.Catalog != before.Catalog || !sameRejections(next, before, touched) {
		p.report(ctx, next.Reports())
	}
}

// touched returns the indexes of the upstreams that may have changed since the last snapshot, in order: of another generation,
// all.
func (p *Publisher) touched(before, g *Generation) []int {
	labels, touched := p.changed.take(), p.due.take(time.Now())
	if g != before {
		p.due = appointments{}
		return g.all()
	}
	for label := range labels {
		if i, ok := g.index[label]; ok { // else it is the label of a connector that a reload starts or ends
			touched = append(touched, i)
		}
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// takeUp puts what upstreams offer into the next snapshot, as far as it is admitted. It returns the indexes of those whose
// part in the catalog changed. It admits lists for inlineBound at most, all together; others follow in a later snapshot.
func (p *Publisher) takeUp(ctx context.Context, next *Snapshot, touched []int) (stale []int) {
	now, g := time.Now(), next.Generation
	inline, cancel := context.WithTimeout(ctx, p.inlineBound)
	defer cancel()
	for _, i := range touched {
		state, u := g.state(i), &p.published[i]
		p.due.cancel(i)
		u.receive()
		offered, known := g.offer(i, state)
		if due := u.pace.due(); known && !u.list.admits(offered) && u.running == nil && !p.wait(i, now, due) {
			p.admit(ctx, inline, g, i, offered)
		}
		if u.running != nil {
			p.wait(i, now, u.running.began.Add(admissionBound)) // see [Generation.shown]
		}
		shown := next.drains.shown(g.Upstreams[i].Name, g.shown(i, u, state))
		hide, ok := hideAt(&g.Upstreams[i], shown)
		u.hidden = ok && !p.wait(i, now, hide)
		if u.visible() != u.merged {
			stale = append(stale, i)
		}
		next.States[i], next.lists[i] = shown, u.list
	}
	return stale
}

// wait reports whether a time is still to come, and has Run look at the upstream at index i again then.
func (p *Publisher) wait(i int, now, due time.Time) bool {
	if !now.Before(due) {
		return false
	}
	p.due.make(i, due)
	return true
}

// admit admits a list of the upstream at index i, here or, where that takes longer than the context of inline lasts, beside
// Run, which looks at the upstream again when it is done.
func (p *Publisher) admit(ctx, inline context.Context, g *Generation, i int, offered offer) {
	u, began := &p.published[i], time.Now()
	earlier := cmp.Or(u.list, u.earlier)
	if list, err := g.admission.admitOffer(inline, &g.sources[i], offered, earlier); err == nil {
		u.admitted(list, began, time.Now())
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{began: began, stop: cancel, done: make(chan result, 1)}
	u.running = r
	p.admissions.Go(func() {
		defer cancel()
		list, err := g.admission.admitOffer(ctx, &g.sources[i], offered, earlier)
		if err != nil {
			return
		}
		ended := time.Now()
		if took := ended.Sub(r.began); took > admissionBound {
			p.logger.WarnContext(ctx, "list takes long to admit",
				slog.String("upstream", g.Upstreams[i].Name), slog.Duration("took", took))
		}
		r.done <- result{list, ended}
		p.changed.add(g.Upstreams[i].Name)
	})
}

// running is an admission under way. The nil one is none.
type running struct {
	began time.Time
	stop  context.CancelFunc
	done  chan result // receives once, unless the admission is canceled
}

// result is an admitted list, and when its admission ended.
type result struct {
	list  *admitted
	ended time.Time
}

func (r *running) cancel() {
	if r != nil {
		r.stop()
	}
}

// hideAt returns when the prompts of an upstream that is down, or drained, are to be hidden; ok is false where they are not to be: a
// server that refuses the gateway is up.
func hideAt(u *config.Upstream, state *upstream.State) (at time.Time, ok bool) {
	problem := state.Problem
	switch {
	case u.WhenDown != config.WhenDownHide, problem == nil, problem.IsRefusal():
		return time.Time{}, false
	case state.Connected && problem.Reason != upstream.Draining:
		return time.Time{}, false
	}
	return problem.Since.Add(u.Grace), true
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
