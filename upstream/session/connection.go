package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

// Connection is a session with a server and everything that ends with the session. It also represents a time without a
// session.
type Connection struct {
	// Session is nil while there is no session. Legacy is nil if the session is of the legacy era, or if its revision
	// is configured.
	Session *client.Session
	Legacy  *LegacyGets

	pool *pool
	// retryAt is the time of the next attempt to connect to a server that is down.
	retryAt time.Time
	// renewing is true while a new session is being opened to a server that is up. Calls wait then.
	renewing bool
	// replaced is closed when another connection has replaced this one.
	replaced chan struct{}
	// proofs holds the next proof to make. calls is the number of calls that use the sessions.
	proofs chan *proof
	calls  atomic.Int64
}

// newConnection returns the connection of a new session. Its pools end with ctx.
func newConnection(ctx context.Context, s *Server, session *client.Session) *Connection {
	c := &Connection{Session: session, replaced: make(chan struct{}), proofs: make(chan *proof, 1)}
	c.pool = newPool(ctx, s.logger, session)
	if session.MayBeLegacyToo() {
		c.Legacy = newLegacyGets(ctx, s.logger, session)
	}
	return c
}

// noConnection returns a connection without a session.
func noConnection() *Connection { return &Connection{replaced: make(chan struct{})} }

// Lease is a session in use by a call, until it is released.
type Lease struct {
	Session *client.Session

	conn   *Connection
	pool   *pool
	pooled *pooledSession // nil for the primary session
}

// Acquire returns the session for a call with a relay. If inLegacy is true, it is a session of the legacy era. If the
// call needs a session of a pool, Acquire waits for one and returns [ErrPoolExhausted] if ctx ends first.
// [ErrNoLegacySession] means that the call must use the modern era.
func (c *Connection) Acquire(ctx context.Context, relay *client.Relay, inLegacy bool) (lease Lease, err error) {
	lease = Lease{conn: c, pool: c.pool}
	if inLegacy {
		lease.pool = c.Legacy.pool
	}
	c.calls.Add(1)
	if lease.Session, lease.pooled, err = lease.pool.acquire(ctx, relay); err != nil {
		c.calls.Add(-1)
	}
	return lease, err
}

// IsPooled reports whether the session is from the pool, which replaces it if it is lost.
func (l *Lease) IsPooled() bool { return l.pooled != nil }

// Release returns the session after the call. Set lost if the session was lost, or if the server may still send messages
// about the call.
func (l *Lease) Release(lost bool) {
	if l.pooled != nil {
		l.pool.release(l.pooled, lost)
	}
	l.conn.calls.Add(-1)
}

// close closes all sessions, and waits until they have ended.
func (c *Connection) close() {
	if c.Legacy != nil {
		c.Legacy.pool.close()
	}
	c.pool.close()
	c.Session.Close()
}

// replace makes next the current connection. Only Run's goroutine may call it.
func (s *Server) replace(next *Connection) { close(s.connection.Swap(next).replaced) }

// Await returns the current connection. If that is the lost connection or is being renewed, Await waits until another
// connection replaces it or ctx ends. lost may be nil.
func (s *Server) Await(ctx context.Context, lost *Connection) *Connection {
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

// NoSession returns the reason why a connection has no session, and the time until the next attempt
// to connect.
func (s *Server) NoSession(conn *Connection) (reason Reason, retryAfter time.Duration, err error) {
	unsent := &Unsent{Why: ErrNoSession}
	reason = client.Unreachable
	if p := s.State().ofList; p != nil && conn.Session == nil {
		reason, unsent.Cause = p.Reason, p.Err
	}
	return reason, time.Until(conn.retryAt), unsent
}

// markRenewing records that the session is lost and a new one is being opened.
func (s *Server) markRenewing(ctx context.Context, err error) {
	s.logger.InfoContext(ctx, "session lost, a new one is opened", slog.Any("error", err))
	s.OnLink(Renewing)
	s.replace(&Connection{renewing: true, replaced: make(chan struct{})})
}

// markDown records that there is no session, and the wait before the next attempt.
func (s *Server) markDown(ctx context.Context, err error, wait time.Duration) {
	reason, before := client.OutcomeOf(err).Reason, s.State()
	isLogged := !before.Connected && before.ofList.HasCause(reason, err)
	if !isLogged { // once per outage and cause, not per attempt
		s.logger.WarnContext(ctx, "upstream down", s.explained(reason, err)...)
	}
	s.replace(&Connection{retryAt: time.Now().Add(wait), replaced: make(chan struct{})})
	// Do not publish an outage that goes on: each new state makes its readers work.
	if !before.Tried || !isLogged {
		s.update(func(next *State) {
			next.Connected, next.Promptless = false, nil
			next.setProblem(reason, err)
		})
	}
	// Call OnLink last: it may remove the problem of calls, whose start setProblem must take over.
	link := Down
	if errors.Is(err, client.ErrSessionLost) { // the server is up, but loses each session at once
		link = Renewing
	}
	s.OnLink(link)
}

// markLate records that a server has not answered for a while: in a session if connected is true, otherwise in an attempt
// to connect that goes on.
func (s *Server) markLate(ctx context.Context, connected bool, err error) {
	explained := s.explained(client.Timeout, err)
	switch {
	case s.State().ofList != nil:
	case connected:
		s.logger.WarnContext(ctx, "upstream does not answer", explained...)
	default:
		s.logger.WarnContext(ctx, "upstream down", explained...)
	}
	s.update(func(next *State) {
		// Skip it if the server has just connected, or if another problem is published.
		if next.ofList == nil && next.Connected == connected {
			next.setProblem(client.Timeout, err)
		}
	})
}

// open opens a session and returns its lister. It uses another goroutine, because connecting grows the stack to 16 KiB.
// So the goroutine of Run, which mostly waits for the next attempt, keeps a small stack.
func (s *Server) open(ctx context.Context) (l *lister, err error) {
	l = newLister(s)
	var opening sync.WaitGroup
	opening.Go(func() {
		err = client.RecoverToError(s.logger, func() (err error) {
			l.session, err = s.dialer.Connect(ctx, client.SessionOptions{OnListChanged: l.changed.Set})
			return err
		})
	})
	opening.Wait()
	return l, err
}
