package upstream

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// firstRetry and lastRetry bound the backoff before an endpoint gets the same call again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
	// minShare is the part of the timeout, one in so many, that an attempt must have had for its timeout to count in the
	// circuit breaker.
	minShare = 5
)

// Call sends a request to the upstream and returns its result, within the upstream's timeout, which stands still while a
// client is asked by the relay. The relay may be nil. Errors are a [*wire.Error] if the upstream answered with one,
// [*Unavailable] if it did not answer, the context's own if the caller gave up, and [ErrRetired], with nothing sent, if
// another connector has taken over.
//
// It waits for the rate limit and for a slot, and picks the endpoints that list the prompt. They are tried in turn until
// one answers, then as often as the retry attribute allows again, with a pause before each. What may have been processed in part,
// or has asked the client, is not tried again. The first attempts leave time for others: as many as there are healthy
// endpoints, or attempts configured. If all fail, the error is that of the first, which was the most likely to succeed.
func (c *Connector) Call(ctx context.Context, request *Request, relay *Relay) (result Result, err error) {
	if c.retired.Load() {
		return Result{}, ErrRetired
	}
	caller, finish := c.metrics.start(ctx, request.Method, request.Name)
	defer func() { err = c.finish(caller, finish, result, err) }()
	ctx, deadline := withDeadline(caller, c.upstream.Timeout, nil)
	defer deadline.stop()
	slot, err := c.acquireSlot(ctx, deadline)
	if err != nil {
		return Result{}, err
	}
	defer slot.release()
	if relay == nil {
		relay = &Relay{}
	}

	k := &call{connector: c, caller: caller, request: request, relay: relay, deadline: deadline, slot: slot}
	k.late = deadline.left() < c.upstream.Timeout/2
	endpoints, healthy := c.pick(request)
	tried, first := false, error(nil)
	for i := range max(len(endpoints), c.upstream.Attempts) {
		// A pause does not help against an open breaker.
		if retry := i - len(endpoints); retry >= 0 && (!tried || !c.backOff(ctx, deadline, retry)) {
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
func (c *Connector) finish(caller context.Context, record func(string, error), result Result, err error) error {
	if gone := caller.Err(); gone != nil && !client.Answered(err) {
		err = &callerGoneError{gone}
	}
	record(result.Revision, err)
	if err == nil || errors.Is(err, ErrRetired) {
		return err
	}
	if gone, ok := errors.AsType[*callerGoneError](err); ok {
		return gone.cause
	}
	if answer, ok := errors.AsType[*wire.Error](err); ok {
		return answer
	}
	if _, ok := errors.AsType[*Unavailable](err); ok {
		return err
	}
	var retryAfter time.Duration
	if status, ok := errors.AsType[*client.StatusError](err); ok {
		retryAfter = status.RetryAfter
	}
	return unavailable(c.upstream.Name, reasonOf(err), retryAfter, err)
}

// acquireSlot waits, until ctx ends, for the rate limit and then for a slot.
func (c *Connector) acquireSlot(ctx context.Context, d *deadline) (*slot, error) {
	if err := c.waitForRate(ctx, d); err != nil {
		return nil, err
	}
	if c.slots.Acquire(ctx, 1) != nil {
		return nil, unavailable(c.upstream.Name, Overloaded, 0, errConcurrency)
	}
	if c.retired.Load() { // while it waited
		c.slots.Release(1)
		return nil, ErrRetired
	}
	return &slot{slots: c.slots, held: true}, nil
}

// waitForRate waits until the rate limit allows one more request. It fails at once if that is after the deadline.
func (c *Connector) waitForRate(ctx context.Context, d *deadline) error {
	if c.limiter == nil {
		return nil
	}
	turn := c.limiter.Reserve()
	wait := turn.Delay()
	if wait == 0 || (wait < d.left() && sleep(ctx, wait) == nil) {
		return nil
	}
	turn.Cancel() // so that the next call may have it
	return unavailable(c.upstream.Name, Overloaded, wait, errRate)
}

// pick returns the endpoints to try for a request, best first, and how many of them are healthy. Among those, the one goes
// first whose last turn was longest ago.
func (c *Connector) pick(request *Request) (ordered []*endpoint, healthy int) {
	if len(c.endpoints) == 1 {
		return c.endpoints, 1
	}
	name := request.Name
	if request.Method == wire.Complete {
		name, _ = request.Params.Object("ref").Text("name")
	}
	listing := slices.DeleteFunc(slices.Clone(c.endpoints), func(e *endpoint) bool { return !e.status.Load().prompts.has(name) })
	if len(listing) == 0 { // let the servers say so themselves
		listing = c.endpoints
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
	c.turns.Lock()
	defer c.turns.Unlock()
	slices.SortStableFunc(ordered, func(a, b *endpoint) int { return cmp.Compare(a.lastTurn, b.lastTurn) })
	ordered = append(ordered, unhealthy...)
	c.turn++
	ordered[0].lastTurn = c.turn
	return ordered, healthy
}

// backOff waits before a retry, with jitter and then for the rate limit. It reports false if the deadline is sooner.
func (c *Connector) backOff(ctx context.Context, d *deadline, retry int) bool {
	wait := min(firstRetry<<min(retry, 10), lastRetry)
	wait = time.Duration(float64(wait) * (1 - backoffJitter*rand.Float64())) //nolint:gosec // jitter
	return wait < d.left() && sleep(ctx, wait) == nil && c.waitForRate(ctx, d) == nil
}

// call is a call in flight. Its attempts follow each other.
type call struct {
	connector *Connector
	caller    context.Context //nolint:containedctx // ends when the caller gives up
	request   *Request
	relay     *Relay
	deadline  *deadline
	slot      *slot
	// late is set if the call waited for its slot for most of its time.
	late bool
}

// attempt makes the call at one endpoint, in half of the time that is left if there is more to try. A session that turns
// out to be lost is replaced once: its server has processed nothing, so that callers need not notice.
func (k *call) attempt(ctx context.Context, e *endpoint, more bool) (result Result, err error) {
	d := k.deadline
	if more {
		ctx, d = withDeadline(ctx, d.left()/2, d)
		defer d.stop()
	}
	var lost *connection
	for try := range 2 {
		conn := e.await(ctx, lost)
		if conn.session == nil || conn == lost {
			return Result{}, unavailable(e.name, Unreachable, time.Until(conn.retryAt), errNoSession)
		}
		result, err = k.try(ctx, d, conn, try > 0)
		if !errors.Is(err, client.ErrSessionLost) || client.Started(err) {
			break
		}
		if !errors.Is(err, errPooledLost) { // the pool replaces its own
			lost = conn
		}
	}
	return result, err
}

// try makes the call on a session of a connection, if the circuit breaker allows it. Again says that it was tried before
// on a session that was lost.
func (k *call) try(ctx context.Context, d *deadline, conn *connection, again bool) (result Result, err error) {
	done, err := conn.breaker.Allow()
	if err != nil {
		return Result{}, unavailable(conn.name, BreakerOpen, time.Until(conn.reopensAt()), err)
	}
	err = errPanicked // until the call has returned
	defer func() {
		done(err)
		if isSuspicious(err) {
			signal(conn.suspect)
		}
	}()
	share := d.left()
	session, pooled, err := conn.pool.acquire(ctx, d, k.relay)
	if err != nil {
		return Result{}, err
	}
	result, err = session.Call(ctx, k.request, k.relayDuring(d))
	if pooled != nil {
		isLost := errors.Is(err, client.ErrSessionLost)
		conn.pool.release(pooled, isLost)
		switch {
		case !isLost || client.Started(err):
		case again:
			return Result{}, errLostAgain
		default:
			return Result{}, errPooledLost
		}
	}
	return result, k.attribute(err, share)
}

// relayDuring returns the call's relay such that, while a client is asked, other calls may have the slot and the deadlines
// stand still: a person may take long to reply.
func (k *call) relayDuring(d *deadline) *Relay {
	if k.relay.Reply == nil {
		return k.relay
	}
	relay := *k.relay
	relay.Reply = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		defer k.slot.lend()()
		defer d.pause()()
		return k.relay.Reply(ctx, method, params)
	}
	return &relay
}

// attribute says who is to blame for the failure of an attempt that had a share of the time: the circuit breaker counts
// only what is the server's fault.
func (k *call) attribute(err error, share time.Duration) error {
	timeout := k.connector.upstream.Timeout
	switch gone := k.caller.Err(); {
	case client.Answered(err):
	case gone != nil:
		return &callerGoneError{gone}
	case !errors.Is(err, context.DeadlineExceeded):
	case k.late: // most of the time was gone before the server was asked
		return unavailable(k.connector.upstream.Name, Overloaded, 0, errConcurrency)
	case share < timeout/minShare:
		return &hurriedError{err}
	}
	return err
}
