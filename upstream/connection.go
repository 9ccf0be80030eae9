package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
)

// connection is the current session with a server and everything that ends with it, or the lack
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
	// proofs has the proof that is to be made next, and calls counts the attempts on the sessions.
	proofs chan *proof
	calls  atomic.Int64
}

// newConnection returns the connection of a session that has just been opened. It ends with ctx.
func newConnection(ctx context.Context, s *server, session *client.Session) *connection {
	c := &connection{session: session, replaced: make(chan struct{}), proofs: make(chan *proof, 1)}
	c.pool = newSessionPool(ctx, s.upstream.Name, s.logger, session)
	if session.MayBeLegacyToo() {
		c.legacy = newLegacyGets(ctx, s.upstream.Name, s.logger, session)
	}
	return c
}

// noConnection returns a connection without a session.
func noConnection() *connection { return &connection{replaced: make(chan struct{})} }

// close closes all sessions, and waits until they have ended.
func (c *connection) close() {
	if c.legacy != nil {
		c.legacy.pool.close()
	}
	c.pool.close()
	c.session.Close()
}

// replace puts a connection in place of another. Only run's goroutine may call it.
func (s *server) replace(next *connection) { close(s.connection.Swap(next).replaced) }

// await returns the present connection. If that is the lost one, or one that is being renewed, it
// waits until another replaces it, or ctx ends.
func (s *server) await(ctx context.Context, lost *connection) *connection {
	for {
		c := s.connection.Load()
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
func (s *server) noSession(conn *connection) error {
	reason, err := Unreachable, &unsentError{why: errNoSession}
	if p := s.state().ofList; p != nil && conn.session == nil {
		reason, err.cause = p.Reason, p.Err
	}
	return unavailable(s.upstream.Name, reason, time.Until(conn.retryAt), err)
}

// markRenewing records that the server forgot its session, and that a new one is opened.
func (s *server) markRenewing(ctx context.Context, err error) {
	s.logger.InfoContext(ctx, "session lost, a new one is opened", slog.Any("error", err))
	s.health.Renew()
	renewing := noConnection()
	renewing.renewing = true
	s.replace(renewing)
}

// markDown records that there is no session, and that the next attempt comes after a wait.
func (s *server) markDown(ctx context.Context, err error, wait time.Duration) {
	reason, before := outcomeOf(err).Reason, s.state()
	known := !before.Connected && before.ofList.hasCause(reason, err)
	if !known { // once for each outage and cause, not for each attempt
		s.logger.WarnContext(ctx, "upstream down", s.explained(reason, causeOf(reason, err), err)...)
	}
	down := noConnection()
	down.retryAt = time.Now().Add(wait)
	s.replace(down)
	// An outage that goes on is no change, which costs everybody who looks at states.
	if !before.Tried || !known {
		s.update(func(next *State) {
			next.Connected, next.Promptless = false, nil
			next.setProblem(reason, err)
		})
	}
	// Only now, so that a trouble of calls that ends here is seen to go on as the problem.
	s.health.Down(errors.Is(err, client.ErrSessionLost))
}

// markLate records that a server has not answered for a while, with a session or before the first.
// It is waited for all the same.
func (s *server) markLate(ctx context.Context, connected bool, err error) {
	explained := s.explained(Timeout, causeOf(Timeout, err), err)
	switch {
	case s.state().ofList != nil:
	case connected:
		s.logger.WarnContext(ctx, "upstream does not answer", explained...)
	default:
		s.logger.WarnContext(ctx, "upstream down", explained...)
	}
	s.update(func(next *State) {
		// Else it has connected, or failed, at this moment.
		if next.ofList == nil && next.Connected == connected {
			next.setProblem(Timeout, err)
		}
	})
}

// explained returns what the log says of a problem.
func (s *server) explained(reason Reason, cause Cause, err error) []any {
	return []any{
		slog.String("place", s.upstream.Place.String()), slog.String("reason", string(reason)), slog.String("cause", cause.Problem),
		slog.String("remedy", cause.Remedy), slog.Any("error", err),
	}
}

// failureOf returns what the health of a server is told of an error.
func failureOf(err error) health.Failure {
	reason := outcomeOf(err).Reason
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
