package upstream

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
)

// Connector keeps one upstream connected, at each of its endpoints, and its prompts known. All methods are safe for
// concurrent use.
type Connector struct {
	upstream  config.Upstream
	endpoints []*endpoint // in configuration order
	onChange  func()
	logger    *slog.Logger
	metrics   *instruments
	// slots are the calls that may be in flight.
	slots *semaphore.Weighted
	// limiter says when the next request may go out; nil where any time is right.
	limiter *rate.Limiter
	// retired is set once no more calls are taken.
	retired atomic.Bool

	turns sync.Mutex // guards turn and the endpoints' own
	// turn counts the calls, so that the endpoint can be told whose turn was longest ago.
	turn uint64

	mu sync.Mutex // guards merged and serialises gather
	// merged is how many of the endpoints' lists are in the state.
	merged uint64
	state  atomic.Pointer[State]
}

// New returns a connector that has not started. The onChange function is called after each change of [State]; it
// must not block.
func New(u config.Upstream, opts Options, onChange func()) *Connector {
	c := &Connector{
		upstream: u, onChange: onChange,
		logger:  opts.logger().With(slog.String("upstream", u.Name), slog.String("team", u.Team)),
		metrics: newInstruments(u),
		slots:   semaphore.NewWeighted(int64(u.Concurrency)),
	}
	if u.Rate > 0 {
		c.limiter = rate.NewLimiter(rate.Limit(u.Rate), int(math.Ceil(u.Rate)))
	}
	c.endpoints = newEndpoints(u, opts, c.metrics, c.gather)
	c.state.Store(summarize(&State{}, c.standings()))
	return c
}

// Upstream returns the configuration that the connector was made with.
func (c *Connector) Upstream() config.Upstream { return c.upstream }

// Retire refuses the calls that come from now on with [ErrRetired], and returns when those before have ended, or when ctx
// does. The sessions stay until Run's context ends.
func (c *Connector) Retire(ctx context.Context) {
	c.retired.Store(true)
	if c.slots.Acquire(ctx, int64(c.upstream.Concurrency)) == nil { // all of them, behind whoever waits already
		c.slots.Release(int64(c.upstream.Concurrency))
	}
}

// Run keeps the upstream connected until ctx ends, and always returns nil: that a server is down is for [State].
func (c *Connector) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, e := range c.endpoints {
		running.Go(func() { e.run(ctx) })
	}
	running.Wait()
	return nil
}

// State returns what is known now. It never blocks.
func (c *Connector) State() *State { return c.state.Load() }

// gather makes what the endpoints know the upstream's state and tells the owner.
func (c *Connector) gather() {
	c.mu.Lock()
	before, standings := c.state.Load(), c.standings()
	next := summarize(before, standings)
	if lists := countLists(standings); lists != c.merged {
		c.merged = lists
		next.take(merge(standings))
	}
	c.state.Store(next)
	c.mu.Unlock()
	c.reportDifferences(before, next)
	c.onChange()
}

// reportDifferences logs when other definitions differ between endpoints than before.
func (c *Connector) reportDifferences(before, next *State) {
	switch {
	case slices.Equal(before.Differences, next.Differences):
	case len(next.Differences) == 0:
		c.logger.Info("endpoints define their prompts alike again")
	default:
		c.logger.Warn("endpoints define prompts differently, the first one's definition is listed",
			slog.Any("prompts", next.Differences))
	}
}

func (c *Connector) standings() []*standing {
	standings := make([]*standing, len(c.endpoints))
	for i, e := range c.endpoints {
		standings[i] = e.standing.Load()
	}
	return standings
}

// Completes reports whether one of the upstream's present sessions knows completions, or there is none to ask.
func (c *Connector) Completes() bool {
	asked := false
	for _, e := range c.endpoints {
		if s := e.live.Load().session; s != nil {
			if s.Completes() {
				return true
			}
			asked = true
		}
	}
	return !asked
}
