package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
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
	slot      queue.Slot
}

// attempt makes the call, in half of the time that is left if there is another attempt to come.
// A session that turns out to be lost is replaced once: its server has processed nothing, so that
// callers need not notice.
func (k *call) attempt(ctx context.Context, more bool) (result Result, err error) {
	d, up := &k.deadline, k.connector.server
	if more {
		half := new(queue.Deadline)
		half.Start(ctx, time.Now(), d.Left()/2, d)
		defer half.Stop()
		ctx, d = half, half
	}
	if p := up.health.Paused(); p != nil {
		return Result{}, k.unsent(pausedBy(up.upstream.Name, p))
	}
	var lost *connection
	for try := range 2 {
		conn := up.await(ctx, lost)
		if conn.session == nil || conn == lost {
			// A caller that left while it waited says nothing about the server.
			if err = up.noSession(conn); k.caller.Err() == nil {
				err = k.unsent(err)
			}
			return Result{}, err
		}
		pool := conn.pool
		if conn.legacy.begins(k) {
			pool = conn.legacy.pool
		}
		result, err = k.try(ctx, d, conn, pool, try > 0)
		if conn.legacy.changesEra(k, pool, err) {
			result, err = k.tryOtherEra(ctx, d, conn, err)
		}
		if end := outcomeOf(err); !end.Lost || end.Started {
			break
		}
		if !errors.Is(err, errPooledLost) { // the pool replaces its own
			lost = conn
		}
	}
	if end := outcomeOf(err); end.Lost && !end.Started { // each new one is, by this call
		err = k.unsent(err)
	}
	up.applyRetryAfter(err)
	return result, err
}

// unsent notes that the call was not sent, and why, which it returns.
func (k *call) unsent(err error) error {
	k.connector.server.health.Unsent(k.request.Method == wire.PromptsGet, failureOf(err))
	return err
}

// try makes the call on a session of a connection's pool, if the circuit breaker allows it. Again
// says that it was tried before on a session that was lost.
func (k *call) try(
	ctx context.Context, d *queue.Deadline, conn *connection, pool *sessionPool, again bool,
) (result Result, err error) {
	conn.calls.Add(1)
	defer conn.calls.Add(-1)
	attempt, err := k.connector.server.health.Begin(k.request.Caller)
	if suspended, ok := errors.AsType[*health.SuspendedError](err); ok {
		return Result{}, unavailable(k.connector.upstream.Name, BreakerOpen, suspended.RetryAfter, suspended)
	}
	var unusable error
	defer func() {
		attempt.End(outcomeOf(err).verdict(k.request.Method, unusable))
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
	sent := client.Request{Method: k.request.Method, Name: k.request.Name, Params: k.request.Params, Assertion: k.request.Assertion}
	result, err = session.Call(ctx, &sent, k.relayDuring(d, attempt))
	result.JSON = wire.WithoutOwnMeta(result.JSON)
	end := client.OutcomeOf(err)
	if end.MayBeLost && !end.Started {
		err = k.connector.server.prove(ctx, conn, session, true, err)
	}
	if isLost = errors.Is(err, client.ErrSessionLost); pooled != nil {
		switch {
		case !isLost || end.Started:
		case again:
			return Result{}, errLostAgain
		default:
			return Result{}, errPooledLost
		}
	}
	if err == nil && k.request.Check != nil {
		if problem := k.request.Check(result); problem != nil {
			unusable = unavailable(k.connector.upstream.Name, BadResponse, 0, problem)
		}
	}
	return result, k.attribute(err, share)
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
	case answered && !client.OutcomeOf(err).Started: // without having asked
		conn.legacy.giveUp(ctx, name, client.RefusedServerRequest(refusal))
		return Result{}, refusal
	case answered, err == nil:
		conn.legacy.learn(ctx, name, client.RefusedServerRequest(refusal))
	}
	return result, err
}

// relayDuring returns the call's relay such that no message has what only the gateway may write, and
// that, while a client is asked, other calls may have the slot and the deadlines are paused: a reply may
// take minutes.
func (k *call) relayDuring(d *queue.Deadline, attempt health.Attempt) *Relay {
	if k.relay.Reply == nil && k.relay.Notify == nil {
		return k.relay
	}
	// A copy, because other attempts have deadlines of their own.
	relay := *k.relay
	if relay.Notify != nil {
		relay.Notify = func(method string, params jsontext.Value) {
			k.relay.Notify(method, wire.WithoutOwnMeta(params))
		}
	}
	if relay.Reply == nil {
		return &relay
	}
	relay.Reply = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		attempt.Asks()
		defer k.slot.Lend()()
		defer d.Pause()()
		return k.relay.Reply(ctx, method, wire.WithoutOwnMeta(params))
	}
	return &relay
}

// attribute says whose fault the failure of an attempt is that had a share of the time: the circuit
// breaker counts only what is the server's.
func (k *call) attribute(err error, share time.Duration) error {
	timeout := k.connector.upstream.Timeout
	switch gone := k.caller.Err(); {
	// First: even if the caller has gone by now, the server has shown that it works.
	case client.OutcomeOf(err).Answered:
	case gone != nil:
		return &callerGoneError{gone}
	case !errors.Is(err, context.DeadlineExceeded):
	case share < timeout/leastShare:
		return &hurriedError{err}
	}
	return err
}

const (
	// legacyRetryPause is how long a prompt is not tried on a legacy session again after that was
	// of no use.
	legacyRetryPause = time.Minute
	// maxLegacyPrompts bounds the prompts that are remembered.
	maxLegacyPrompts = 10_000
)

// legacyGets are the gets that a server of both eras, which is spoken to in the modern one, can
// answer in the legacy one only: their prompts' handlers send server requests, and SDKs refuse that
// in the modern era, where a result has to require the input. This is the one exception to the rule
// that a request is not made again that the server has answered:
//
//	get ──▶ modern session ──▶ result, or any other error
//	                │
//	                └─ the server cannot ask in this era, the client can be asked, and was told nothing yet
//	                        │
//	                        ▼
//	                legacy session ──▶ result; from now on such gets of the prompt begin here
//	                        │
//	                        └─ an error without having asked ──▶ the modern error
//
// What it learns lasts as long as the connection.
type legacyGets struct {
	logger *slog.Logger
	// pool has the legacy sessions. What is not made on them is made on the modern one.
	pool *sessionPool

	mu sync.Mutex // guards prompts
	// prompts are those that ask so, by name: with the time until which a legacy session is of no
	// use, zero if it is.
	prompts map[string]time.Time
}

func newLegacyGets(ctx context.Context, name string, logger *slog.Logger, modern *client.Session) *legacyGets {
	pool := newSessionPool(ctx, name, logger, modern)
	pool.revision, pool.open, pool.noSession = wire.LatestLegacy, modern.LegacySibling, errNoLegacySession
	return &legacyGets{logger: logger, pool: pool, prompts: map[string]time.Time{}}
}

// begins reports whether a call begins on a legacy session, because its prompt is known to ask so.
func (l *legacyGets) begins(k *call) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	useless, known := l.prompts[k.request.Name]
	l.mu.Unlock()
	return known && useless.IsZero() && l.canAsk(k)
}

// changesEra reports whether a call that ended in err on a session of a pool is to be made in the
// other era: because the server cannot ask its client in the modern one, or because there is no
// session of the legacy one.
func (l *legacyGets) changesEra(k *call, pool *sessionPool, err error) bool {
	switch {
	case err == nil || l == nil:
		return false
	case pool == l.pool:
		return errors.Is(err, errNoLegacySession)
	}
	return client.RefusedServerRequest(err) != "" && l.canAsk(k) && !l.isUseless(k.request.Name)
}

// canAsk reports whether the client of a call can be asked for input during it.
func (l *legacyGets) canAsk(k *call) bool {
	if k.relay.Reply == nil || k.request.Method == wire.Complete {
		return false
	}
	set, _ := l.pool.needed(k.relay)
	return set != 0
}

// isUseless reports whether a legacy session was of no use to a prompt a short time ago.
func (l *legacyGets) isUseless(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.prompts[name])
}

// learn remembers that a prompt is to be had on a legacy session, as an SDK's answer has shown.
func (l *legacyGets) learn(ctx context.Context, name, sdk string) {
	if l.remember(name, time.Time{}) {
		l.logger.WarnContext(ctx, "server requests of the prompt need a legacy session: its gets "+
			"use one if the client can answer",
			slog.String("prompt", name), slog.String("sdk", sdk))
	}
}

// giveUp remembers for a time that a legacy session is of no use to a prompt.
func (l *legacyGets) giveUp(ctx context.Context, name, sdk string) {
	if l.remember(name, time.Now().Add(legacyRetryPause)) {
		l.logger.WarnContext(ctx, "server requests of the prompt need a legacy session, but fail "+
			"there too: its gets fail",
			slog.String("prompt", name), slog.String("sdk", sdk))
	}
}

// remember sets until when a legacy session is of no use to a prompt, unless it has been of use,
// and reports whether that is news.
func (l *legacyGets) remember(name string, useless time.Time) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.prompts[name]
	if known && before.IsZero() || !known && len(l.prompts) >= maxLegacyPrompts {
		return false
	}
	l.prompts[name] = useless
	return !known || useless.IsZero()
}
