package session

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

const (
	// proofInterval is the minimum time between two proofs for clients' requests, whose errors would otherwise each
	// cause a proof. After a futile proof, it is also the minimum time before a proof for the gateway's own requests.
	proofInterval = 10 * time.Second
	// childInterval replaces proofInterval after a futile proof that started a child process.
	childInterval = time.Minute
)

// proof decides for all callers whether a session is lost. Only a list proves that a session
// works:
//
//	list on the same session ──▶ works: the errors are the callers' own
//	        │ fails
//	list on the primary session, if it is another ──▶ works: the pool replaces its session
//	        │ fails
//	list on a new session ──▶ works: the old one is lost
//	        │ fails
//	nothing changes
type proof struct {
	conn    *Connection
	session *client.Session
	begun   time.Time
	// done is closed at the end of the proof. The fields below do not change after that. done stays
	// open if the session ends first.
	done chan struct{}
	// lost is [client.ErrSessionLost] or [ErrPooledLost], or nil if the session is not proven to be
	// lost.
	lost error
	// refusal is the error of opening a new session; it may be nil.
	refusal error
	// isFutile is true if a new session did not help.
	isFutile bool
}

// Prove waits for a proof of a session on which a request failed, and returns the final error of the request. That is
// [client.ErrSessionLost] or [ErrPooledLost] if the session is lost and another session replaces it. byClient is true
// for a client's request.
func (s *Server) Prove(ctx context.Context, conn *Connection, session *client.Session, byClient bool, failed error) error {
	p := s.proofFor(conn, session, byClient)
	if p == nil {
		return failed
	}
	select {
	case <-p.done:
		switch {
		case p.lost == nil && isUnauthorized(p.refusal) && isUnauthorized(failed):
			return p.refusal
		case p.lost == nil, errors.Is(p.lost, ErrPooledLost) && p.session != session:
			return failed
		case errors.Is(p.lost, ErrPooledLost):
			return p.lost
		}
	case <-conn.replaced:
	case <-ctx.Done():
	}
	select {
	case <-conn.replaced:
	case <-ctx.Done():
		return failed
	}
	if next := s.connection.Load(); next.Session == nil && !next.renewing {
		return failed
	}
	return client.ErrSessionLost
}

// proofFor returns a recent proof or a new proof, which checkHealth makes. It returns nil if no proof may be made now. For a
// connection that was replaced, it returns a proof that is never made: Prove then finds the next connection.
func (s *Server) proofFor(conn *Connection, session *client.Session, byClient bool) *proof {
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
	if s.connection.Load() != conn { // replaced since the request began
		return p
	}
	if s.Paused() != nil {
		return nil
	}
	s.proof = p
	conn.proofs <- p // has room: the previous proof was received
	return p
}

// isUnauthorized reports whether a server refused a request with HTTP 401.
func isUnauthorized(err error) bool {
	status, ok := errors.AsType[*client.StatusError](err)
	return ok && status.Status == http.StatusUnauthorized
}
