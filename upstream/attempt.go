package upstream

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/wire"
)

// leastShare is the part of the timeout, one in so many, that an attempt must have had for its
// timeout to count in the circuit breaker.
const leastShare = 5

// call is a call in flight. Its attempts are made one after another.
type call struct {
	connector *Connector
	caller    context.Context //nolint:containedctx // ends when the caller gives up
	request   *Request
	relay     *Relay
	deadline  queue.Deadline // part of the call, so that both are one allocation
	// endpoint is that of the present attempt.
	endpoint *endpoint
	slot     queue.Slot
	// late is set if the call waited for its slot for most of its time.
	late bool
}

// attempt makes the call at one endpoint, in half of the time that is left if there is more to try.
// A session that turns out to be lost is replaced once: its server has processed nothing, so that
// callers need not notice.
func (k *call) attempt(ctx context.Context, e *endpoint, more bool) (result Result, err error) {
	d := &k.deadline
	if more {
		half := new(queue.Deadline)
		half.Start(ctx, time.Now(), d.Left()/2, d)
		defer half.Stop()
		ctx, d = half, half
	}
	k.endpoint = e
	if p := e.health.Paused(); p != nil {
		return Result{}, k.unsent(pausedBy(e.name, p))
	}
	var lost *connection
	for try := range 2 {
		conn := e.await(ctx, lost)
		if conn.session == nil || conn == lost {
			if err = e.noSession(conn); k.caller.Err() == nil {
				err = k.unsent(err)
			}
			return Result{}, err
		}
		pool := conn.poolFor(k)
		result, err = k.try(ctx, d, conn, pool, try > 0)
		if conn.legacy.changesEra(k, pool, err) {
			result, err = k.tryOtherEra(ctx, d, conn, err)
		}
		if !errors.Is(err, client.ErrSessionLost) || client.Started(err) {
			break
		}
		if !errors.Is(err, errPooledLost) { // the pool replaces its own
			lost = conn
		}
	}
	if errors.Is(err, client.ErrSessionLost) && !client.Started(err) { // each new one is, by this call
		err = k.unsent(err)
	}
	e.applyRetryAfter(err)
	return result, err
}

// unsent notes that the call was not sent to its endpoint, and why, which it returns.
func (k *call) unsent(err error) error {
	k.endpoint.health.Unsent(k.request.Method == wire.PromptsGet, failureOf(err))
	return err
}

// try makes the call on a session of a connection's pool, if the circuit breaker allows it. Again
// says that it was tried before on a session that was lost.
func (k *call) try(
	ctx context.Context, d *queue.Deadline, conn *connection, pool *sessionPool, again bool,
) (result Result, err error) {
	attempt, err := k.endpoint.health.Begin(k.request.Caller)
	if suspended, ok := errors.AsType[*health.SuspendedError](err); ok {
		return Result{}, unavailable(k.endpoint.name, BreakerOpen, suspended.RetryAfter, suspended)
	}
	var unusable error
	defer func() {
		attempt.End(outcomeOf(k.request.Method, err, unusable))
		err = cmp.Or(err, unusable)
	}()
	session, pooled, err := pool.acquire(ctx, d, k.relay)
	if err != nil {
		return Result{}, err
	}
	isLost := true // also where a panic ends the call: the server may have more to send for it
	if pooled != nil {
		defer func() { pool.release(pooled, isLost) }()
	}
	// Measured only now: waiting for a session is not the server's time.
	share := d.Left()
	err = errPanicked // for the attempt, whose end must be noted even where a panic ends it
	sent := client.Request{Method: k.request.Method, Name: k.request.Name, Params: k.request.Params}
	attempt.Send()
	result, err = session.Call(ctx, &sent, k.relayDuring(d, attempt))
	// A server of both eras may refuse a ping of the legacy one and be there all the same.
	if pool == conn.pool && client.MayRefuseEra(err) && !client.Started(err) {
		if lost := session.Ping(ctx); errors.Is(lost, client.ErrSessionLost) {
			k.endpoint.health.Check() // the session of this connection, too, has to be replaced
			return Result{}, lost
		}
	}
	if isLost = errors.Is(err, client.ErrSessionLost); pooled != nil {
		switch {
		case !isLost || client.Started(err):
		case again:
			return Result{}, errLostAgain
		default:
			return Result{}, errPooledLost
		}
	}
	if err == nil && k.request.Check != nil {
		if problem := k.request.Check(result); problem != nil {
			unusable = unavailable(k.endpoint.name, BadResponse, 0, problem)
		}
	}
	return result, k.attribute(err, share)
}

// outcomeOf returns what the end of an attempt says about the server. Unusable is set if its result
// cannot be used.
func outcomeOf(method string, err, unusable error) health.Outcome {
	o := health.Outcome{Get: method == wire.PromptsGet}
	if err == nil && unusable == nil {
		return o
	}
	_, answered := answerIn(err)
	switch {
	case answered:
		return o
	case isExcused(err):
		o.Verdict = health.Excused
		return o
	case errors.Is(err, client.ErrSessionLost):
		o.Verdict = health.Lost
		return o
	case client.Answered(err):
		o.Verdict = health.Refused
	default:
		o.Verdict = health.Unanswered
	}
	o.Suspicious, o.Failure = err != nil && isSuspicious(err), failureOf(cmp.Or(err, unusable))
	return o
}

// tryOtherEra makes a call in the legacy era that the server refused in the modern one because it
// cannot ask the client there, or in the modern era if there is no legacy session. If it does not
// ask in the legacy era either, its refusal stands.
func (k *call) tryOtherEra(ctx context.Context, d *queue.Deadline, conn *connection, err error) (Result, error) {
	if errors.Is(err, errNoLegacySession) {
		return k.try(ctx, d, conn, conn.pool, false)
	}
	refusal, name := err, k.request.Name
	result, err := k.try(ctx, d, conn, conn.legacy.pool, false)
	_, answered := errors.AsType[*wire.Error](err)
	switch {
	case errors.Is(err, errNoLegacySession):
		return Result{}, refusal
	case answered && !client.Started(err): // without having asked
		conn.legacy.giveUp(ctx, name, client.RefusedServerRequest(refusal))
		return Result{}, refusal
	case answered, err == nil:
		conn.legacy.learn(ctx, name, client.RefusedServerRequest(refusal))
	}
	return result, err
}

// relayDuring returns the call's relay such that, while a client is asked, other calls may have the
// slot and the deadlines are paused: a reply may take minutes.
func (k *call) relayDuring(d *queue.Deadline, attempt health.Attempt) *Relay {
	if k.relay.Reply == nil {
		return k.relay
	}
	// A copy, because other attempts have deadlines of their own.
	relay := *k.relay
	relay.Reply = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		attempt.Asks()
		defer k.slot.Lend()()
		defer d.Pause()()
		return k.relay.Reply(ctx, method, params)
	}
	return &relay
}

// attribute says whose fault the failure of an attempt is that had a share of the time: the circuit
// breaker counts only what is the server's.
func (k *call) attribute(err error, share time.Duration) error {
	timeout := k.connector.upstream.Timeout
	switch gone := k.caller.Err(); {
	case client.Answered(err):
	case gone != nil:
		return &callerGoneError{gone}
	case !errors.Is(err, context.DeadlineExceeded):
	case k.late: // most of the time was gone before the server was asked
		return unavailable(k.connector.upstream.Name, Overloaded, 0, queue.ErrConcurrency)
	case share < timeout/leastShare:
		return &hurriedError{err}
	}
	return err
}
