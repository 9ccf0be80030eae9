package upstream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// firstRetry and lastRetry bound the backoff before an endpoint gets the same call again,
	// without the jitter, which takes off up to half.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
)

// Request is a request for an upstream.
type Request struct {
	Method string
	// Name is the prompt's name for prompts/get and empty otherwise.
	Name string
	// Params may be nil.
	Params wire.Object
	// Files is [State.Files] of the state in which the prompt was found, for an upstream without a
	// server.
	Files *files.List
	// Caller is who asks, whose calls queue in a line of their own; nil is a caller like any other.
	Caller Caller
	// Endpoints are those that may have the request.
	Endpoints EndpointSet
	// Check returns what makes a result one that cannot be used, which the call then fails with as
	// [BadResponse]; nil if it can be. It does not count in the circuit breaker, since the server
	// did answer. Check may be nil.
	Check func(Result) error
}

// EndpointSet is some of an upstream's endpoints: bit i stands for the one at index i of
// [State.Endpoints], of which a configuration allows 64. The zero value is all of them, however
// many there are.
type EndpointSet uint64

// Has reports whether the endpoint at an index is in the set.
func (s EndpointSet) Has(i int) bool { return s == 0 || s&(1<<i) != 0 }

// Call sends a request to the upstream and returns its result, within the upstream's timeout, which
// is paused while a client is asked by the relay. The relay may be nil. Errors are a [*wire.Error]
// if the upstream answered with one, [*Unavailable] if it did not answer, the context's own if the
// caller gave up, and [ErrRetired], with nothing sent, if another connector has taken over. While
// the server wants no requests, calls fail at once.
//
// It waits for the rate limit and for a slot, and picks those of the request's endpoints that list
// the prompt. They are tried in turn until one answers, then again with a pause before each
// attempt, up to the attempts that the retry block allows in all. What may have been processed in
// part, or has asked the client, is not tried again. The first attempts leave time for others: as
// many as there are healthy endpoints, or attempts configured. If all fail, the error is that of
// the first, which was the most likely to succeed.
func (c *Connector) Call(ctx context.Context, request *Request, relay *Relay) (result Result, err error) {
	// A call that passes here just before Retire is refused by the queue, with ErrClosed.
	if c.retired.Load() {
		return Result{}, ErrRetired
	}
	if c.folder != nil { // from memory: no request of a client, whose duration would be measured, is made
		return c.folder.call(request)
	}
	caller, measured := c.metrics().start(ctx, request.Method, request.Name)
	// The caller's context, not the one with the deadline, tells a caller that gave up from an
	// upstream that took too long.
	defer func() { err = c.finish(caller, measured, result, err) }()
	if err := c.refusePaused(request); err != nil { // before it uses a slot, or a part of the rate
		return Result{}, err
	}
	if relay == nil {
		relay = &Relay{}
	}
	k := &call{connector: c, caller: caller, request: request, relay: relay}
	deadline := &k.deadline
	deadline.Start(caller, measured.begun, c.upstream.Timeout, nil)
	defer deadline.Stop()
	ctx = deadline
	if err := k.slot.Acquire(ctx, c.queue, request.Caller, deadline.Left); err != nil {
		return Result{}, c.notBegun(err)
	}
	defer func() { k.slot.Release(slotOutcome(err)) }()
	k.late = k.slot.Begun().Sub(measured.begun) > c.upstream.Timeout/2

	// Failing over to another endpoint needs no pause: only from the second round on are the same
	// servers called again.
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

// notBegun returns the error of a call that got no slot.
func (c *Connector) notBegun(err error) error {
	if refused, ok := errors.AsType[*queue.Refusal](err); ok {
		return unavailable(c.upstream.Name, Overloaded, refused.RetryAfter, refused.Unwrap())
	}
	if errors.Is(err, queue.ErrClosed) {
		return ErrRetired
	}
	return err
}

// allPaused reports whether all of some endpoints have asked for a pause.
func allPaused(endpoints []*endpoint) bool {
	return !slices.ContainsFunc(endpoints, func(e *endpoint) bool { return e.health.Paused() == nil })
}

// refusePaused returns the error of a call that no endpoint may have, because all have asked for a
// pause: the one that ends first counts. It is nil if any may have it.
func (c *Connector) refusePaused(request *Request) error {
	var first *health.Pause
	for i, e := range c.endpoints {
		if !request.Endpoints.Has(i) {
			continue
		}
		p := e.health.Paused()
		if p == nil {
			return nil
		}
		if first == nil || p.Until.Before(first.Until) {
			first = p
		}
	}
	if first == nil {
		return nil
	}
	err := pausedBy(c.upstream.Name, first)
	for i, e := range c.endpoints {
		if request.Endpoints.Has(i) {
			e.health.Unsent(request.Method == wire.PromptsGet, failureOf(err))
		}
	}
	return err
}

// pick returns the endpoints to try for a request, best first, and how many of them are healthy.
func (c *Connector) pick(request *Request) (ordered []*endpoint, healthy int) {
	// Whether it is healthy does not matter: there is no other, and its error says what is wrong.
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
	of := func(e *endpoint) *health.Endpoint { return e.health }
	return health.Order(&c.balance, ordered, unhealthy, of), healthy
}

// backOff waits before a retry, with jitter and then for the rate limit. It reports false if the
// deadline is sooner.
func (c *Connector) backOff(ctx context.Context, d *queue.Deadline, retry int) bool {
	wait := health.Jitter(min(firstRetry<<min(retry, 10), lastRetry))
	return wait < d.Left() && sleep(ctx, wait) == nil && c.queue.AwaitRate(ctx, d.Left())
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
		return gone.error
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
