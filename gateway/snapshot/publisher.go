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
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/loglimit"
)

// maxReported bounds the new reports of one kind about one upstream that are logged within ten
// seconds.
const maxReported = 50

// ErrStopped means that the publisher's Run has returned.
var ErrStopped = errors.New("the gateway is not running")

// Options are what a [Publisher] needs beside its configuration.
type Options struct {
	// Logger receives changes of state; nil discards them.
	Logger *slog.Logger
	// StateDir is the folder where the last good lists are kept; empty keeps nothing.
	StateDir string
	// Replicated is set where clients may list at other replicas: they are notified of each change
	// again, once these have had time to get it.
	Replicated bool
	// NewConnector returns the connector of an upstream that was not there before. Changed must be
	// called, and never blocks, when the connector's state changes.
	NewConnector func(u config.Upstream, changed func()) *upstream.Connector
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// Publisher turns upstream states and configurations into snapshots, and is their only writer. Its
// methods are safe for concurrent use.
type Publisher struct {
	logger *slog.Logger
	// reportLogger is limited: servers decide how often their lists change, and how much is wrong.
	reportLogger *slog.Logger
	newConnector func(config.Upstream, func()) *upstream.Connector
	stateDir     *stateDir
	started      time.Time

	current       atomic.Pointer[Snapshot]
	subscriptions subscriptions
	// changed are the upstreams whose states, or lists, are not in the current snapshot yet.
	changed       *changes
	announcements announcements
	repeats       repeats
	// calls passes functions to Run's goroutine, see do.
	calls chan func(context.Context)
	// stopped is closed when Run has returned.
	stopped chan struct{}
	// builder belongs to Run's goroutine.
	builder builder
}

// replacement is a generation that is to take another one's place.
type replacement struct {
	next *Generation
	kept []int // see [Generation.kept]
	// lists are those that the next generation's rules admit; nil for those that are kept, and
	// where that takes long.
	lists []*admitted
}

// admissionBound is how long the start waits for lists to be admitted, a reload for those in the
// catalog whose rules it changes, and everybody for an upstream's first one. What takes longer is
// published later.
const admissionBound = time.Second

// inlineBound is how long the publisher admits lists by itself before it publishes a snapshot.
// Nearly all take less.
const inlineBound = 5 * time.Millisecond

// NewPublisher returns a publisher whose first snapshot holds what is in the state_dir. It contacts
// and starts nothing.
func NewPublisher(cfg *config.Config, opts Options) (*Publisher, error) {
	p := &Publisher{
		logger: opts.logger(), reportLogger: loglimit.New(opts.logger(), maxReported, "kind", "upstream"), newConnector: opts.NewConnector,
		started: time.Now(), changed: newChanges(), calls: make(chan func(context.Context)),
		announcements: announcements{wake: make(chan struct{}, 1)},
		repeats:       repeats{isOn: opts.Replicated, lastChange: time.Now()},
		stopped:       make(chan struct{}),
	}
	p.builder = builder{publisher: p, reported: map[string]bool{}, inlineBound: inlineBound}
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
	first.started, p.builder.published = p.started, published
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

// Unsaved returns sentences about the lists that could not be saved in the state_dir. They hold
// nothing sensitive.
func (p *Publisher) Unsaved() []string { return p.stateDir.unsaved() }

// Stopped is closed once [Publisher.Run] has returned.
func (p *Publisher) Stopped() <-chan struct{} { return p.stopped }

// NewGeneration returns the generation of a configuration that is to replace the current one.
// Connectors whose upstream block is unchanged are shared with it; the others have to be run.
// Nothing is published yet.
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
		g.Connectors = append(g.Connectors, connector)
		if list.Definitions != nil {
			g.saved[u.Name] = list
		}
	}
	return g, nil
}

// connector returns the connector of an upstream and the list that stands in until the connector
// has listed: the connector of the generation before if it would be the same, or else a new one
// with the last list of the same server.
func (p *Publisher) connector(u config.Upstream, before *Generation) (*upstream.Connector, List) {
	var old *upstream.Connector
	if before != nil {
		old = before.Connector(u.Name)
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
		// What the old connector listed is newer than what was saved when it began.
		list = List{Definitions: state.Definitions}.known()
	}
	return p.newConnector(u, changed), list
}

// Run publishes a snapshot whenever an upstream's state changes, a list is admitted or
// [Publisher.Replace] is called, until ctx ends. To be called once.
func (p *Publisher) Run(ctx context.Context) error {
	defer close(p.stopped)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.publishChanges(ctx) })
	group.Go(func() error { return p.announceChanges(ctx) })
	group.Go(func() error {
		return p.stateDir.run(ctx, func() *Generation { return p.Current().Generation })
	})
	err := group.Wait()
	// Their ctx has ended, and nothing may go on after Run.
	p.builder.admissions.Wait()
	return err
}

// restFactor is the rest after a publication, in multiples of what it took: with very many
// upstreams, or a large catalog, states that change all the time take a fifth of one processor at
// most. What changes meanwhile shares the next snapshot.
const restFactor = 4

func (p *Publisher) publishChanges(ctx context.Context) error {
	var rested <-chan time.Time // nil while the publisher does not rest
	for {
		var due <-chan time.Time
		changed := p.changed.wake
		// A nil channel never receives: changes gather meanwhile.
		if rested != nil {
			changed = nil
		} else if !p.builder.due.next.IsZero() {
			due = time.After(time.Until(p.builder.due.next))
		}
		select {
		case <-changed:
		case <-due:
		case <-rested:
			rested = nil
			continue
		case call := <-p.calls: // during a rest, too: a reload waits
			call(ctx)
			continue
		case <-ctx.Done():
			return nil
		}
		began := time.Now()
		p.builder.publish(ctx, p.Current().Generation)
		rested = time.After(restFactor * time.Since(began))
	}
}

// Replace publishes a snapshot of another generation and moves all subscriptions to it. An error
// means that nothing has changed. It waits for admissionBound at most until the lists that the next
// generation admits by other rules are admitted, so that their prompts need not be away meanwhile.
// To be called once at a time.
func (p *Publisher) Replace(ctx context.Context, next *Generation) error {
	r := p.prepare(ctx, next)
	return p.do(ctx, func(ctx context.Context) { p.builder.replace(ctx, r) })
}

// do has Run's goroutine call a function, and waits for its end. An error means that it is not
// called.
func (p *Publisher) do(ctx context.Context, change func(context.Context)) error {
	done := make(chan struct{})
	select {
	case p.calls <- func(ctx context.Context) { defer close(done); change(ctx) }:
		// Not ctx: the change is under way, and the caller must know how it ended.
		<-done
		return nil
	case <-p.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare admits, beside Run, the lists in the catalog that the next generation admits by other
// rules.
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
