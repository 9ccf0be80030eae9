package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/loglimit"
)

// maxReported bounds the reports of one kind about one upstream that are logged within ten seconds.
const maxReported = 50

// ErrStopped means that the publisher's Run has ended.
var ErrStopped = errors.New("the gateway is not running")

// Options are the settings of a [Publisher] that are not in the configuration.
type Options struct {
	// Logger receives changes of state. If it is nil, they are discarded.
	Logger *slog.Logger
	// StateDir is the folder for the last good lists. If it is empty, lists are not saved.
	StateDir string
	// Replicated is true if clients may list at other replicas. They are then notified of each
	// change a second and third time, when the other replicas should have the change.
	Replicated bool
	// NewConnector returns a connector for an upstream that is new or whose connection settings
	// changed. The connector calls changed when its state changes; changed never blocks.
	NewConnector func(u config.Upstream, changed func()) Connector
	// ReplyBound is the time that a client has to reply to one server request. A retired connector
	// may finish its calls for the upstream's timeout plus ReplyBound.
	ReplyBound time.Duration
}

// Connector consists of the methods of [*upstream.Connector] that its owner, the publisher, uses.
type Connector interface {
	snapshot.Connector

	Run(ctx context.Context) error
	Retire(ctx context.Context)
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
	snapshot.Source

	logger *slog.Logger
	// admissionLogger logs at most one panic of each upstream in ten seconds.
	admissionLogger *slog.Logger
	// reportLogger is limited in rate, because servers decide how often their lists change, and how
	// many errors they have.
	reportLogger *slog.Logger
	newConnector func(config.Upstream, func()) Connector
	replyBound   time.Duration
	stateDir     *stateDir
	started      time.Time

	subscriptions subscriptions
	// changed receives a value if a state or an admitted list is not in the current snapshot yet.
	changed       chan struct{}
	announcements announcements
	repeats       repeats
	// calls passes functions to the goroutine of publishChanges, see [Publisher.do].
	calls chan func(context.Context)
	// stopped is closed when the publisher makes no more snapshots.
	stopped chan struct{}
	// After the start, only the goroutine of publishChanges uses builder and stops. The functions in stops end the connectors' runs.
	builder builder
	stops   map[snapshot.Connector]context.CancelFunc
	// connectors are the goroutines that run and retire connectors.
	connectors errgroup.Group
}

// admissionBound bounds the time for which a start or a reload waits for the admission of all
// lists. A list that takes longer is published later.
const admissionBound = time.Second

// New returns a publisher whose first snapshot contains the lists in the state_dir. It contacts no
// server and starts no connector.
func New(cfg *config.Config, opts Options) (*Publisher, error) {
	p := &Publisher{
		logger: opts.logger(), admissionLogger: newAdmissionLogger(opts.logger()),
		reportLogger: loglimit.New(opts.logger(), maxReported, "kind", "upstream"),
		newConnector: opts.NewConnector, replyBound: opts.ReplyBound,
		started: time.Now(), changed: make(chan struct{}, 1), calls: make(chan func(context.Context)),
		announcements: announcements{wake: make(chan struct{}, 1)},
		repeats:       repeats{isOn: opts.Replicated, lastChange: time.Now()},
		stopped:       make(chan struct{}), stops: map[snapshot.Connector]context.CancelFunc{},
	}
	p.builder = builder{publisher: p, reported: map[string]bool{}}
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
	first, slots := p.admission(g).evaluate(ctx, p.started)
	p.builder.slots = slots
	p.Source.Swap(first)
	signal(p.changed) // Run admits the lists that took longer
	return p, nil
}

// Started returns the time at which the publisher was made.
func (p *Publisher) Started() time.Time { return p.started }

// Unsaved returns a sentence for each list that could not be saved in the state_dir. The sentences
// contain no secrets.
func (p *Publisher) Unsaved() []string { return p.stateDir.unsaved() }

// Stopped returns a channel that is closed when the publisher makes no more snapshots.
func (p *Publisher) Stopped() <-chan struct{} { return p.stopped }

// NewGeneration returns the generation of a configuration that is to replace the current one. It
// shares the connectors whose connection settings are unchanged. New connectors do not run until
// [Publisher.Replace].
func (p *Publisher) NewGeneration(cfg *config.Config) (*snapshot.Generation, error) {
	return p.generation(cfg, p.Current().Generation)
}

func (p *Publisher) generation(cfg *config.Config, before *snapshot.Generation) (*snapshot.Generation, error) {
	g, err := snapshot.NewGeneration(cfg, before, p.logger)
	if err != nil {
		return nil, err
	}
	for _, u := range g.Upstreams {
		connector, list := p.connector(u, before)
		g.Connectors = append(g.Connectors, connector)
		if list.Definitions != nil {
			g.Saved[u.Name] = list
		}
	}
	return g, nil
}

// connector returns the connector of an upstream, and the list to use until the connector has listed.
// If the connection settings are unchanged, it returns the connector of the previous generation;
// otherwise a new connector with the last list of the same server.
func (p *Publisher) connector(u config.Upstream, before *snapshot.Generation) (snapshot.Connector, snapshot.List) {
	var old snapshot.Connector
	if before != nil {
		old = before.Connector(u.Name)
	}
	changed := func() { signal(p.changed) }
	switch {
	case old != nil && old.Upstream().SameConnection(u):
		return old, before.Saved[u.Name]
	case old == nil || snapshot.ServerOf(old.Upstream()) != snapshot.ServerOf(u):
		return p.newConnector(u, changed), p.stateDir.load(u)
	}
	list := before.Saved[u.Name]
	if state := old.State(); state.Listed {
		// The old connector's list is newer than the list that was saved when that connector was
		// made.
		list = snapshot.List{Definitions: state.Definitions}.OrEmpty()
	}
	return p.newConnector(u, changed), list
}

// Run runs the connectors, and publishes a snapshot whenever an upstream's state changes, a list is
// admitted or [Publisher.Replace] is called. It returns after ctx and all of its goroutines have
// ended. Call it once.
func (p *Publisher) Run(ctx context.Context) error {
	p.start(ctx, p.Current().Generation)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.publishChanges(ctx) })
	group.Go(func() error { return p.announceChanges(ctx) })
	group.Go(func() error {
		return p.stateDir.run(ctx, func() *snapshot.Generation { return p.Current().Generation })
	})
	err := group.Wait()
	// The ctx of the admissions and connectors has ended. Wait until they have returned.
	p.builder.admissions.Wait()
	close(p.stopped) // before the connectors, because stopping a child process takes time
	return errors.Join(err, p.connectors.Wait())
}

// restFactor is the rest after a publication, in multiples of its duration. Thus publishing takes
// at most a fifth of one processor, even with very many upstreams or a large catalog, and states
// that change all the time. Changes during the rest share the next snapshot.
const restFactor = 4

func (p *Publisher) publishChanges(ctx context.Context) error {
	var rested <-chan time.Time // nil while the publisher does not rest
	for {
		var due <-chan time.Time
		changed := p.changed
		// During the rest, changed is nil. A nil channel never receives, so changes gather.
		if rested != nil {
			changed = nil
		} else if !p.builder.due.IsZero() {
			due = time.After(time.Until(p.builder.due))
		}
		select {
		case <-changed:
		case <-due:
		case <-rested:
			rested = nil
			continue
		case call := <-p.calls: // also during a rest, because a reload waits
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

// do makes the goroutine of publishChanges call a function, and waits until it has returned. If do returns an error,
// the function was not called.
func (p *Publisher) do(ctx context.Context, change func(context.Context)) error {
	done := make(chan struct{})
	select {
	case p.calls <- func(ctx context.Context) { defer close(done); change(ctx) }:
		// Do not return when ctx ends: the change is under way, and the caller must know how it
		// ended.
		<-done
		return nil
	case <-p.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admission returns the rules by which a generation admits definitions.
func (p *Publisher) admission(g *snapshot.Generation) admission {
	return admission{g, p.admissionLogger}
}
