package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// firstRetry and lastRetry bound the backoff before an endpoint gets the same call again, without the jitter, which takes
	// off up to half.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
)

// Connector keeps one upstream connected, at each of its endpoints, and its list of prompts up to date. All methods are
// safe for concurrent use.
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
	balance balance

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

// Share makes the connector reconnect at a pace that others share. To be called before [Connector.Run]; without it, the pace is the
// connector's own.
func (c *Connector) Share(pace *Reconnects) {
	for _, e := range c.endpoints {
		e.reconnects = pace
	}
}

// ShareFolders makes the connector of an upstream with files read them together with those of the same team's other upstreams.
// To be called before [Connector.Run].
func (c *Connector) ShareFolders(folders *Folders) {
	if c.folder != nil {
		c.folder.folders = folders
	}
}

// Upstream returns the configuration that the connector was made with.
func (c *Connector) Upstream() config.Upstream { return c.upstream }

// State returns what is known now. It never blocks.
func (c *Connector) State() *State { return c.state.Load() }

// Run keeps the upstream connected until ctx ends. It always returns nil: that a server is down shows in [State].
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

// Retire makes calls fail with [ErrRetired] from now on. It returns when those in flight have ended, or ctx has. Sessions
// stay open until Run's context ends.
func (c *Connector) Retire(ctx context.Context) {
	c.retired.Store(true)
	select {
	case <-c.queue.Close():
	case <-ctx.Done():
	}
}

// Request is a request for an upstream.
type Request struct {
	Method string
	// Name is the prompt's name for prompts/get and empty otherwise.
	Name string
	// Params may be nil.
	Params wire.Object
	// Files is [State.Files] of the state in which the prompt was found, for an upstream without a server.
	Files *files.List
	// Caller is who asks, so that callers take turns; nil for a caller like any other.
	Caller Caller
	// Endpoints are those that may have the request.
	Endpoints EndpointSet
	// Check returns what makes a result one that cannot be used, which the call then fails with as [BadResponse]; nil if it can be.
	// It does not count in the circuit breaker, since the server did answer. Check may be nil.
	Check func(Result) error
}

// Caller identifies a caller by a key.
type Caller = queue.Caller

// EndpointSet is some of an upstream's endpoints: bit i stands for the one at index i of [State.Endpoints], of which a
// configuration allows 64. The zero value is all of them, however many there are.
type EndpointSet uint64

// Has reports whether the endpoint at an index is in the set.
func (s EndpointSet) Has(i int) bool { return s == 0 || s&(1<<i) != 0 }

// Call sends a request to the upstream and returns its result, within the upstream's timeout, which is paused while a
// client is asked by the relay. The relay may be nil. Errors are a [*wire.Error] if the upstream answered with one,
// [*Unavailable] if it did not answer, the context's own if the caller gave up, and [ErrRetired], with nothing sent, if
// another connector has taken over. While the server wants no requests, calls fail at once.
//
// It waits for the rate limit and for a slot, and picks those of the request's endpoints that list the prompt. They are tried
// in turn until one answers, then again with a pause before each attempt, up to the attempts that the retry block allows in all. What may
// have been processed in part, or has asked the client, is not tried again. The first attempts leave time for others: as many
// as there are healthy endpoints, or attempts configured. If all fail, the error is that of the first, which was the most
// likely to succeed.
func (c *Connector) Call(ctx context.Context, request *Request, relay *Relay) (result Result, err error) {
	if c.retired.Load() {
		return Result{}, ErrRetired
	}
	if c.folder != nil { // from memory: no request of a client, whose duration would be measured, is made
		return c.folder.call(request)
	}
	caller, measured := c.metrics().start(ctx, request.Method, request.Name)
	// The caller's context, not the one with the deadline, tells a caller that gave up from an upstream that took too long.
	defer func() { err = c.finish(caller, measured, result, err) }()
	if err := c.refusePaused(request); err != nil { // before it takes a slot, or a turn of the rate
		return Result{}, err
	}
	ctx, deadline := queue.WithDeadline(caller, measured.begun, c.upstream.Timeout, nil)
	defer deadline.Stop()
	if relay == nil {
		relay = &Relay{}
	}
	k := &call{connector: c, caller: caller, request: request, relay: relay, deadline: deadline}
	if err := k.acquireSlot(ctx); err != nil {
		return Result{}, err
	}
	defer func() { k.slot.Release(isMeasured(err)) }()
	k.late = k.slot.Begun().Sub(measured.begun) > c.upstream.Timeout/2

	// Failing over to another endpoint needs no pause: only from the second round on are the same servers called again.
	endpoints, healthy := c.pick(request)
	tried, first := false, error(nil)
	for i := range max(len(endpoints), c.upstream.Attempts) {
		// If all breakers are open, a pause of a second does not close any.
		if retry := i - len(endpoints); retry >= 0 && (!tried || allPaused(endpoints) || !c.backOff(ctx, deadline, retry)) {
			break
		}
		more := i+1 < max(healthy, c.upstream.Attempts)
		result, err = k.attempt(ctx, endpoints[i%len(endpoints)], more)
		if !isRetryable(err) {
			return result, err
		}
		first = cmp.Or(first, err)
		tried = tried || reasonOf(err) != BreakerOpen
		if ctx.Err() != nil {
			break
		}
	}
	return Result{}, first
}

// finish records how a call ended, and returns its error as callers see it.
func (c *Connector) finish(caller context.Context, measured measurement, result Result, err error) error {
	// Once the caller has gone, how attempts failed says little: they failed because it left.
	if gone := caller.Err(); gone != nil && !client.Answered(err) {
		err = &callerGoneError{gone}
	}
	measured.end(result.Revision, err)
	if err == nil || errors.Is(err, ErrRetired) {
		return err
	}
	if gone, ok := errors.AsType[*callerGoneError](err); ok {
		return gone.cause
	}
	if answer, ok := answerIn(err); ok {
		return answer
	}
	if _, ok := errors.AsType[*Unavailable](err); ok {
		return err
	}
	// What is left are failures of package client, which knows no upstream and no reason.
	var retryAfter time.Duration
	if status, ok := errors.AsType[*client.StatusError](err); ok {
		retryAfter = status.RetryAfter
	}
	return unavailable(c.upstream.Name, reasonOf(err), retryAfter, err)
}

// pick returns the endpoints to try for a request, best first, and how many of them are healthy.
func (c *Connector) pick(request *Request) (ordered []*endpoint, healthy int) {
	if len(c.endpoints) == 1 {
		return c.endpoints, 1
	}
	// A completion carries the prompt's name in its params only.
	name := request.Name
	if request.Method == wire.Complete {
		name, _ = request.Params.Object("ref").Text("name")
	}
	var allowed, listing []*endpoint
	for i, e := range c.endpoints {
		if !request.Endpoints.Has(i) {
			continue
		}
		allowed = append(allowed, e)
		if e.status.Load().prompts.has(name) {
			listing = append(listing, e)
		}
	}
	if len(listing) == 0 { // let the servers say so themselves
		listing = allowed
	}
	var unhealthy []*endpoint
	for _, e := range listing {
		if e.isHealthy(request.Method) {
			ordered = append(ordered, e)
		} else {
			unhealthy = append(unhealthy, e)
		}
	}
	healthy = len(ordered)
	return c.balance.order(ordered, unhealthy), healthy
}

// backOff waits before a retry, with jitter and then for the rate limit. It reports false if the deadline is sooner.
func (c *Connector) backOff(ctx context.Context, d *queue.Deadline, retry int) bool {
	wait := min(firstRetry<<min(retry, 10), lastRetry)
	wait = time.Duration(float64(wait) * (1 - backoffJitter*rand.Float64())) //nolint:gosec // jitter
	return wait < d.Left() && sleep(ctx, wait) == nil && c.queue.AwaitRate(ctx, d.Left())
}

// Completes reports whether the server behind any present session declared completions. Without a session it is true, so
// that a call is made and finds out.
func (c *Connector) Completes() bool {
	if c.folder != nil {
		return true
	}
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
	// Most changes of status bring no new list, and merging lists takes long.
	if lists := countLists(statuses); lists != c.mergedLists {
		c.mergedLists = lists
		next.setPrompts(mergeLists(statuses))
	}
	c.state.Store(next)
	c.mu.Unlock() // before the owner is told, who may want to read the state at once
	c.logDifferences(before, next)
	c.onChange()
}

// publish makes a state the present one, and tells the connector's owner. For the folder's goroutine.
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
