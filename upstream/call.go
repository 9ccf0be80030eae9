package upstream

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// firstRetry and lastRetry bound the backoff before a server gets the same call again,
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
	// Assertion says to the server who calls; the zero value says nothing.
	Assertion client.Assertion
	// Files is [State.Files] of the state in which the prompt was found, for an upstream without a
	// server.
	Files *files.List
	// Caller is who asks, whose calls queue in a line of their own; nil is a caller like any other.
	Caller Caller
	// Check returns what makes a result one that cannot be used, which the call then fails with as
	// [BadResponse]; nil if it can be. It does not count in the circuit breaker, since the server
	// did answer. Check may be nil.
	Check func(Result) error
}

// Call sends a request to the upstream and returns its result, within the upstream's timeout, which
// is paused while a client is asked by the relay. The relay may be nil. Errors are a [*wire.Error]
// if the upstream answered with one, [*Unavailable] if it did not answer, the context's own if the
// caller gave up, and [ErrRetired], with nothing sent, if another connector has taken over. While
// the server wants no requests, calls fail at once.
//
// It waits for the rate limit and for a slot. A call that got no answer is tried again after a
// pause, up to the attempts that the retry block allows in all, and each attempt leaves time for the
// next. What may have been processed in part, or has asked the client, is not tried again. If all
// attempts fail, the error is that of the first.
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
	if err := k.slot.Acquire(ctx, c.queue, request.Caller); err != nil {
		return Result{}, c.notBegun(err)
	}
	defer func() { k.slot.Release(outcomeOf(err).load()) }()

	var first error
	for i := range c.upstream.Attempts {
		result, err = k.attempt(ctx, i+1 < c.upstream.Attempts)
		end := outcomeOf(err)
		if !end.mayRepeat {
			return result, err
		}
		first = cmp.Or(first, err)
		// An open breaker does not close in a pause of a second.
		if i+1 == c.upstream.Attempts || ctx.Err() != nil || end.Reason == BreakerOpen || c.server.health.Paused() != nil ||
			!c.backOff(ctx, deadline, i) {
			break
		}
	}
	return Result{}, first
}

// notBegun returns the error of a call that got no slot.
func (c *Connector) notBegun(err error) error {
	if errors.Is(err, queue.ErrClosed) {
		return ErrRetired
	}
	return unavailable(c.upstream.Name, Overloaded, 0, err)
}

// refusePaused returns the error of a call that is not made because the server has asked for a
// pause; nil if it has not.
func (c *Connector) refusePaused(request *Request) error {
	p := c.server.health.Paused()
	if p == nil {
		return nil
	}
	err := pausedBy(c.upstream.Name, p)
	c.server.health.Unsent(request.Method == wire.PromptsGet, failureOf(err))
	return err
}

// backOff waits before a retry, with jitter and then for the rate limit. It reports false if the
// deadline is sooner.
func (c *Connector) backOff(ctx context.Context, d *queue.Deadline, retry int) bool {
	wait := health.Jitter(min(firstRetry<<min(retry, 10), lastRetry))
	return wait < d.Left() && sleep(ctx, wait) == nil && c.queue.AwaitRate(ctx, d.Left())
}

// finish records how a call ended, and returns its error as callers see it.
func (c *Connector) finish(caller context.Context, measured measurement, result Result, err error) error {
	end := outcomeOf(err)
	// Once the caller has gone, how attempts failed says little: they failed because it left.
	if gone := caller.Err(); gone != nil && !end.Answered {
		end = outcomeOf(&callerGoneError{gone})
	}
	measured.end(result.Revision, end)
	if gone, ok := errors.AsType[*callerGoneError](end.err); ok {
		return gone.error
	}
	_, isKnown := errors.AsType[*Unavailable](err)
	switch {
	case err == nil, errors.Is(err, ErrRetired):
		return err
	case end.Answer != nil:
		return end.Answer
	case isKnown:
		return err
	}
	// What is left are failures of package client, which knows no upstream.
	return unavailable(c.upstream.Name, end.Reason, end.RetryAfter, err)
}
