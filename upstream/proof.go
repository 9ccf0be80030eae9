package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

const (
	// proofInterval is the least time between a proof of an upstream's sessions and one that a client
	// causes: any error that a server returns for a get may be that of a lost session. After a proof that
	// was of no use, it is also the least time to one that a list causes.
	proofInterval = 10 * time.Second
	// childInterval takes its place after a child process that was started for a proof was of no use.
	childInterval = time.Minute
	// lingerStep is how often a replaced session is looked at, until its last call has ended.
	lingerStep = 100 * time.Millisecond
)

// proof decides for all callers whether a session is lost. Only a list proves a session:
//
//	list on the same session ──▶ works: the errors are the callers' own
//	        │ fails
//	list on the primary one, if it is another ──▶ works: the pool replaces its session
//	        │ fails
//	list on a new session ──▶ works: the old one is lost
//	        │ fails
//	nothing changes
type proof struct {
	conn    *connection
	session *client.Session
	begun   time.Time
	// done is closed at the end of the proof, after which the fields below do not change. It stays open
	// if the session ends first.
	done chan struct{}
	// lost is [client.ErrSessionLost] or [errPooledLost]; nil if the errors are the callers' own.
	lost error
	// refusal is why no new session could be opened; it may be nil.
	refusal error
	// isFutile is true if a new session was of no use.
	isFutile bool
}

// opened is a session that has been opened and not yet served, with the lister for its changes.
type opened struct {
	lister  *lister
	session *client.Session
}

// prove returns the error of a request that failed on a session of a connection. It is
// [client.ErrSessionLost] or [errPooledLost] if the session is lost and another one takes its place.
// ByClient is true for the request of a client.
func (s *server) prove(ctx context.Context, conn *connection, session *client.Session, byClient bool, failed error) error {
	p := s.proofFor(conn, session, byClient)
	if p == nil {
		return failed
	}
	select {
	case <-p.done:
		switch {
		case p.lost == nil && isUnauthorized(p.refusal) && isUnauthorized(failed):
			return p.refusal
		case p.lost == nil, errors.Is(p.lost, errPooledLost) && p.session != session:
			return failed
		case errors.Is(p.lost, errPooledLost):
			return p.lost
		}
		select {
		case <-conn.replaced:
		case <-ctx.Done():
			return failed
		}
	case <-conn.replaced:
	case <-ctx.Done():
		return failed
	}
	if next := s.connection.Load(); next.session == nil && !next.renewing {
		return failed
	}
	return client.ErrSessionLost
}

// proofFor returns the proof that decides about a session: a recent one or, if there is none, a new one
// for checkHealth. It returns nil if none may be made at this time.
func (s *server) proofFor(conn *connection, session *client.Session, byClient bool) *proof {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.proof; p != nil {
		interval, running, isFutile := proofInterval, false, false
		if p.conn == conn {
			select {
			case <-p.done:
				isFutile = p.isFutile
			default:
				running = true
			}
		}
		switch {
		case isFutile && s.upstream.Transport == config.Stdio:
			interval = childInterval
		case !isFutile && !byClient:
			interval = 0
		}
		switch isRecent := running || time.Since(p.begun) < interval; {
		case isRecent && p.conn == conn:
			return p
		case isRecent && s.connection.Load() == conn:
			return nil
		}
	}
	p := &proof{conn: conn, session: session, begun: time.Now(), done: make(chan struct{})}
	if s.connection.Load() != conn { // it has been replaced since the request began
		return p
	}
	if s.health.Paused() != nil {
		return nil
	}
	s.proof = p
	conn.proofs <- p // there is room: the proof before it has been taken
	return p
}

// decide makes a proof. It returns an error if the primary session is lost. Only checkHealth calls it.
func (s *server) decide(ctx context.Context, p *proof) error {
	defer func() {
		// If the session ends first, this proof has no verdict. Its callers wait for the next connection instead.
		if ctx.Err() == nil {
			close(p.done)
		}
	}()
	err := p.session.Prove(ctx)
	if err != nil && p.session != p.conn.session {
		p.lost = errPooledLost
		err = p.conn.session.Prove(ctx)
	}
	switch {
	case err == nil, ctx.Err() != nil:
		return nil
	case errors.Is(err, client.ErrSessionLost): // the transport cannot be used any more
		p.lost = err
		return err
	}
	p.lost = nil
	next := &opened{lister: newLister(s)}
	next.session, p.refusal = s.open(ctx, client.SessionOptions{OnListChanged: next.lister.change})
	if p.refusal == nil {
		failure := next.session.Prove(ctx)
		if failure == nil {
			p.lost, s.next = client.ErrSessionLost, next
			return fmt.Errorf("%w: %w", client.ErrSessionLost, err)
		}
		next.session.Close()
	}
	p.isFutile = true
	return nil
}

// endAfterCalls ends a replaced session once its calls have ended, or ctx has.
func (s *server) endAfterCalls(ctx context.Context, conn *connection) {
	for sleep(ctx, lingerStep) == nil && conn.calls.Load() > 0 {
	}
	conn.close()
}

// isUnauthorized reports whether a server refused a request with HTTP 401.
func isUnauthorized(err error) bool {
	status, ok := errors.AsType[*client.StatusError](err)
	return ok && status.Status == http.StatusUnauthorized
}
