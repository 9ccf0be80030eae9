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
	"github.com/promptweir/promptweir/upstream/client"
)

// Names of package client that the gateway needs to make calls, so that it depends on this package alone.
type (
	// Options are what a connector needs beside its configuration.
	Options = client.Options
	// Request is a request for a server.
	Request = client.Request
	// Result is the result of a request.
	Result = client.Result
	// Relay passes on what a server says during a call.
	Relay = client.Relay
)

// Connector keeps one upstream connected, at each of its endpoints, and its list of prompts up to date. All methods are
// safe for concurrent use.
type Connector struct {
	upstream  config.Upstream
	endpoints []*endpoint // in configuration order
	onChange  func()
	logger    *slog.Logger
	metrics   *instruments
	// slots limits the calls in flight, and limiter the requests per second; it is nil without a limit.
	slots   *semaphore.Weighted
	limiter *rate.Limiter
	retired atomic.Bool

	turns sync.Mutex // guards turn, and each endpoint's lastTurn
	// turn counts the calls. Of several endpoints, the one whose last turn was longest ago is next.
	turn uint64

	mu sync.Mutex // guards mergedLists and serialises mergeStatuses
	// mergedLists is how many lists of the endpoints went into the present state.
	mergedLists uint64
	state       atomic.Pointer[State]
}

// New returns a connector that has not started. It calls onChange after each change of [State]; onChange must not block.
func New(u config.Upstream, opts Options, onChange func()) *Connector {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Connector{
		upstream: u, onChange: onChange,
		logger:  opts.Logger.With(slog.String("upstream", u.Name), slog.String("team", u.Team)),
		metrics: newInstruments(u),
		slots:   semaphore.NewWeighted(int64(u.Concurrency)),
	}
	if u.Rate > 0 {
		c.limiter = rate.NewLimiter(rate.Limit(u.Rate), int(math.Ceil(u.Rate)))
	}
	c.endpoints = newEndpoints(u, opts, c.metrics, c.mergeStatuses)
	c.state.Store(summarize(&State{}, c.statuses()))
	return c
}

// Upstream returns the configuration that the connector was made with.
func (c *Connector) Upstream() config.Upstream { return c.upstream }

// State returns what is known now. It never blocks.
func (c *Connector) State() *State { return c.state.Load() }

// Run keeps the upstream connected until ctx ends. It always returns nil: that a server is down shows in [State].
func (c *Connector) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, e := range c.endpoints {
		running.Go(func() { e.run(ctx) })
	}
	running.Wait()
	return nil
}

// Retire makes calls fail with [ErrRetired] from now on. It returns when those in flight have ended, or ctx has. Sessions
// stay open until Run's context ends.
func (c *Connector) Retire(ctx context.Context) {
	c.retired.Store(true)
	// A semaphore serves in order, so that all slots are free only after whoever waited before has had its turn.
	if c.slots.Acquire(ctx, int64(c.upstream.Concurrency)) == nil {
		c.slots.Release(int64(c.upstream.Concurrency))
	}
}

// Completes reports whether the server behind any present session declared completions. Without a session it is true:
// then a call finds out.
func (c *Connector) Completes() bool {
	known := false
	for _, e := range c.endpoints {
		if s := e.connection.Load().session; s != nil {
			if s.Completes() {
				return true
			}
			known = true
		}
	}
	return !known
}

// mergeStatuses makes a state of what the endpoints know, and tells the connector's owner.
func (c *Connector) mergeStatuses() {
	c.mu.Lock()
	before, statuses := c.state.Load(), c.statuses()
	next := summarize(before, statuses)
	if lists := countLists(statuses); lists != c.mergedLists {
		c.mergedLists = lists
		next.setPrompts(mergeLists(statuses))
	}
	c.state.Store(next)
	c.mu.Unlock()
	c.logDifferences(before, next)
	c.onChange()
}

// logDifferences logs when endpoints begin or cease to define prompts differently.
func (c *Connector) logDifferences(before, next *State) {
	switch {
	case slices.Equal(before.Differences, next.Differences):
	case len(next.Differences) == 0:
		c.logger.Info("endpoints define their prompts alike again")
	default:
		c.logger.Warn("endpoints define prompts differently, the definition of the first endpoint is listed",
			slog.Any("prompts", next.Differences))
	}
}

func (c *Connector) statuses() []*status {
	statuses := make([]*status, len(c.endpoints))
	for i, e := range c.endpoints {
		statuses[i] = e.status.Load()
	}
	return statuses
}
