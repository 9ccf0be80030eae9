package upstream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
)

// errSilent is the problem of an endpoint that does not answer a health check.
var errSilent = errors.New("no answer to a health check")

// connection is the present session with an endpoint and everything that ends with it, or the lack
// of a session.
type connection struct {
	session *client.Session // nil while there is none
	pool    *sessionPool
	legacy  *legacyGets // nil if the session is of the legacy era, or its revision is configured
	// retryAt is when the next attempt to connect is due, without a session.
	retryAt time.Time
	// renewing says that the server is up and a new session is being opened, so that calls should
	// wait.
	renewing bool
	// replaced is closed when another connection has replaced this one.
	replaced chan struct{}
}

// newConnection returns the connection of a session that has just been opened. It ends with ctx.
func newConnection(ctx context.Context, e *endpoint, session *client.Session) *connection {
	c := &connection{session: session, replaced: make(chan struct{})}
	c.pool = newSessionPool(ctx, e.name, e.logger, session)
	if session.MayBeLegacyToo() {
		c.legacy = newLegacyGets(ctx, e.name, e.logger, session)
	}
	return c
}

// noConnection returns a connection without a session.
func noConnection() *connection { return &connection{replaced: make(chan struct{})} }

// close closes the sessions of the pools, and waits until they have ended.
func (c *connection) close() {
	if c.legacy != nil {
		c.legacy.pool.close()
	}
	c.pool.close()
}

// replace puts a connection in place of another. Only run's goroutine may call it.
func (e *endpoint) replace(next *connection) { close(e.connection.Swap(next).replaced) }

// await returns the present connection. If that is the lost one, or one that is being renewed, it
// waits until another replaces it, or ctx ends.
func (e *endpoint) await(ctx context.Context, lost *connection) *connection {
	for {
		c := e.connection.Load()
		if c != lost && !c.renewing {
			return c
		}
		select {
		case <-c.replaced:
		case <-ctx.Done():
			return c
		}
	}
}

// noSession is the error of a call that finds a connection without a session. Its reason is why
// there is none.
func (e *endpoint) noSession(conn *connection) error {
	reason, err := Unreachable, &unsentError{why: errNoSession}
	if p := e.status.Load().Problem; p != nil && conn.session == nil {
		reason, err.cause = p.Reason, p.Err
	}
	return unavailable(e.name, reason, time.Until(conn.retryAt), err)
}

// markRenewing records that the server forgot its session, and that a new one is opened.
func (e *endpoint) markRenewing(ctx context.Context, err error) {
	e.logger.InfoContext(ctx, "session lost, a new one is opened", slog.Any("error", err))
	e.health.Renew()
	renewing := noConnection()
	renewing.renewing = true
	e.replace(renewing)
}

// markDown records that there is no session, and that the next attempt comes after a wait.
func (e *endpoint) markDown(ctx context.Context, err error, wait time.Duration) {
	reason, before := reasonOf(err), e.status.Load()
	_, unchanged := errors.AsType[*unchangedError](err)
	known := !before.Connected && (unchanged || before.Problem.hasCause(reason, err))
	if !known { // once for each outage and cause, not for each attempt
		e.logger.WarnContext(ctx, "upstream down", e.explained(reason, causeOf(reason, err), err)...)
	}
	down := noConnection()
	down.retryAt = time.Now().Add(wait)
	e.replace(down)
	// An outage that goes on is no change, which costs everybody who looks at states.
	if !before.tried || !known {
		e.update(func(s *status) {
			s.Connected = false
			s.setProblem(reason, err)
		})
	}
	// Only now, so that a trouble of calls that ends here is seen to go on as the problem.
	e.health.Down(errors.Is(err, client.ErrSessionLost))
}

// markLate records that a server has not answered for a while, with a session or before the first.
// It is waited for all the same.
func (e *endpoint) markLate(ctx context.Context, connected bool, err error) {
	explained := e.explained(Timeout, causeOf(Timeout, err), err)
	switch {
	case e.status.Load().Problem != nil:
	case connected:
		e.logger.WarnContext(ctx, "upstream does not answer", explained...)
	default:
		e.logger.WarnContext(ctx, "upstream down", explained...)
	}
	e.update(func(s *status) {
		// Else it has connected, or failed, at this moment.
		if s.Problem == nil && s.Connected == connected {
			s.setProblem(Timeout, err)
		}
	})
}

// explained returns what the log says of a problem.
func (e *endpoint) explained(reason Reason, cause Cause, err error) []any {
	return []any{
		slog.String("place", e.upstream.Place.String()), slog.String("reason", string(reason)), slog.String("cause", cause.Problem),
		slog.String("remedy", cause.Remedy), slog.Any("error", err),
	}
}

// failureOf returns what the health of an endpoint is told of an error.
func failureOf(err error) health.Failure {
	reason := reasonOf(err)
	if unavailable, ok := errors.AsType[*Unavailable](err); ok {
		err = unavailable.Err
	}
	return health.Failure{Reason: string(reason), Cause: causeKey(reason, err), Err: err}
}

// problemOfCalls returns the problem that the trouble of calls is; nil if there is none.
func problemOfCalls(t *health.Trouble) *Problem {
	if t == nil {
		return nil
	}
	p := &Problem{Reason: Reason(t.Reason), Since: t.Since, Err: t.Err, Failing: true}
	if t.Suspended {
		p.Reason = BreakerOpen
	}
	return p
}
