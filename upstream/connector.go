package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/queue"
)

// Names of the packages beneath that the gateway needs to make calls, so that it depends on this
// one alone.
type (
	// Options are what a connector needs beside its configuration.
	Options = client.Options
	// Result is the result of a request.
	Result = client.Result
	// Relay passes on what a server says during a call.
	Relay = client.Relay
	// Cause says to an operator why an upstream is in trouble.
	Cause = client.Cause
	// Caller identifies a caller by a key.
	Caller = queue.Caller
	// BreakerState is the state of a circuit breaker.
	BreakerState = gobreaker.State
	// Reconnects is the pace at which connectors connect that share it.
	Reconnects = health.Reconnects
)

// NewReconnects returns a pace for the connectors of one process, see [Connector.Share].
func NewReconnects() *Reconnects { return health.NewReconnects() }

// Connector keeps one upstream connected, at each of its endpoints, and its list of prompts up to
// date. All methods are safe for concurrent use.
type Connector struct {
	upstream  config.Upstream
	endpoints []*endpoint // in configuration order
	folder    *folder     // nil for a server; without a server, there are no endpoints
	onChange  func()
	logger    *slog.Logger
	// metrics are made when something is measured first.
	metrics func() *instruments
	// queue limits the calls in flight and the requests per second.
	queue   *queue.Queue
	retired atomic.Bool

	// balance is between several endpoints.
	balance health.Balance

	mu sync.Mutex // guards mergedLists and serialises mergeStatuses
	// mergedLists is how many lists of the endpoints went into the present state.
	mergedLists uint64
	state       atomic.Pointer[State]
}

// New returns a connector that has not started. It calls onChange after each change of [State];
// onChange must not block.
func New(u config.Upstream, opts Options, onChange func()) *Connector {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	c := &Connector{
		upstream: u, onChange: onChange,
		logger: opts.Logger.With(slog.String("upstream", u.Name), slog.String("team", u.Team)),
	}
	c.metrics = sync.OnceValue(func() *instruments { return newInstruments(&c.upstream) })
	c.queue = queue.New(u.Concurrency, u.Timeout, u.Rate)
	if u.Files != nil {
		c.folder = newFolder(u, c.logger, c.publish)
		c.state.Store(c.folder.starting())
		return c
	}
	c.endpoints = newEndpoints(c, opts)
	c.state.Store(summarize(&State{}, c.statuses()))
	return c
}

// Share makes the connector reconnect at a pace that others share. To be called before
// [Connector.Run]; without it, the pace is the connector's own.
func (c *Connector) Share(pace *Reconnects) {
	for _, e := range c.endpoints {
		e.health.Redial.Share(pace)
	}
}

// ShareFolders makes the connector of an upstream with files read them together with those of the
// same team's other upstreams. To be called before [Connector.Run].
func (c *Connector) ShareFolders(folders *Folders) {
	if c.folder != nil {
		c.folder.folders = folders
	}
}

// Upstream returns the configuration that the connector was made with.
func (c *Connector) Upstream() config.Upstream { return c.upstream }

// State returns what is known now. It never blocks.
func (c *Connector) State() *State { return c.state.Load() }

// Run keeps the upstream connected until ctx ends. It always returns nil: that a server is down
// shows in [State].
func (c *Connector) Run(ctx context.Context) error {
	if c.folder != nil {
		c.folder.folders.run(ctx, c.folder)
		return nil
	}
	var running sync.WaitGroup
	for _, e := range c.endpoints[1:] {
		running.Go(func() { e.run(ctx) })
	}
	c.endpoints[0].run(ctx) // here: most upstreams have one, and there may be thousands
	running.Wait()
	return nil
}

// ConnectNow ends the wait of endpoints that are down for their next attempt to connect. It does
// not wait for the attempt.
func (c *Connector) ConnectNow() {
	for _, e := range c.endpoints {
		if e.connection.Load().session == nil {
			// It is also set while an attempt is being made: should that fail, the next one comes
			// at once.
			e.connectNow.Set()
		}
	}
}

// Relist has the list requested again, because something showed that it is out of date. It does not
// wait for that, and a server is asked no more often than for its own notifications.
func (c *Connector) Relist() {
	for _, e := range c.endpoints {
		e.health.Relist.Set()
	}
}

// Retire makes calls fail with [ErrRetired] from now on. It returns when those in flight have
// ended, or ctx has. Sessions stay open until Run's context ends.
func (c *Connector) Retire(ctx context.Context) {
	c.retired.Store(true)
	select {
	// It also refuses the calls that found retired unset but have no slot yet, so that none is
	// missed.
	case <-c.queue.Close():
	case <-ctx.Done():
	}
}

// Completes reports whether the server behind any present session declared completions. Without a
// session it is true, so that a call is made and finds out.
func (c *Connector) Completes() bool {
	if c.folder != nil {
		return true
	}
	known := false
	for _, e := range c.endpoints {
		if s := e.connection.Load().session; s != nil {
			if s.Declared.Completes() {
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
	// The statuses are read under the lock, so that of two calls at once the later one stores the
	// newer statuses.
	before, statuses := c.state.Load(), c.statuses()
	next := summarize(before, statuses)
	// Most changes of status bring no new list, and merging lists takes long.
	if lists := countLists(statuses); lists != c.mergedLists {
		c.mergedLists = lists
		definitions, differences := mergeLists(statuses)
		next.Differences = differences
		next.setPrompts(definitions)
	}
	c.state.Store(next)
	c.mu.Unlock() // before the owner is told, who may want to read the state at once
	c.logDifferences(before, next)
	c.onChange()
}

// publish makes a state the present one, and tells the connector's owner. For the folder's
// goroutine.
func (c *Connector) publish(next *State) {
	c.state.Store(next)
	c.onChange()
}

// logDifferences logs when endpoints begin or cease to define prompts differently.
func (c *Connector) logDifferences(before, next *State) {
	switch {
	case slices.Equal(before.Differences, next.Differences):
	case len(next.Differences) == 0:
		c.logger.Info("endpoints define their prompts identically again")
	default:
		c.logger.Warn("endpoints define prompts differently", slog.Any("prompts", next.Differences))
	}
}

func (c *Connector) statuses() []*status {
	statuses := make([]*status, len(c.endpoints))
	for i, e := range c.endpoints {
		statuses[i] = e.status.Load()
	}
	return statuses
}
