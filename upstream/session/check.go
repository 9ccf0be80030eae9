package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

const (
	// A server is checked after maxIdle without a byte from it. Jitter reduces this time by up to a tenth, so that
	// servers that were connected at the same time are not always checked at the same time.
	maxIdle    = 30 * time.Second
	idleJitter = 0.1
)

// checkHealth pings the server when it is idle, and at once after a call without an answer. It also makes the proofs for
// the sessions of the connection. It returns an error when the connection breaks, when the server does not answer a ping
// within the upstream's timeout, or when the session is lost.
func (s *Server) checkHealth(ctx context.Context, conn *Connection) error {
	session := conn.Session
	next := time.NewTimer(s.nextCheck(0))
	defer next.Stop()
	for {
		var err error
		select {
		case p := <-conn.proofs:
			err = s.decide(ctx, p)
		case <-s.Suspect:
			err = session.Ping(ctx)
		case <-next.C:
			// The timer runs on when messages arrive, so check the idle time now.
			if left := s.nextCheck(session.Idle()); left > 0 {
				next.Reset(left)
				continue
			}
			if err = session.CheckHealth(ctx); client.OutcomeOf(err).MayBeLost {
				s.proofFor(conn, session, false) // the loop receives the proof next
				err = nil
			}
		case <-session.Done():
			return session.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			// Publish at once: the end of the session may take a while if the server hangs.
			if ctx.Err() == nil && !errors.Is(err, client.ErrSessionLost) {
				s.markLate(ctx, true, err)
			}
			return err
		}
		// Do not use session.Idle here: an answer without a body does not reset it.
		next.Reset(s.nextCheck(0))
	}
}

// nextCheck returns the time until the next check of a server that has been idle for the given time, or 0 if the check
// is due. During a pause a server is not checked.
func (s *Server) nextCheck(idle time.Duration) time.Duration {
	left := time.Duration(float64(maxIdle)*(1-idleJitter*rand.Float64())) - idle //nolint:gosec // jitter
	return max(left, s.Paused().Rest())
}

// decide makes a proof. It returns an error if the primary session is lost. If a new session works,
// Run then serves it at once, without a backoff. Only checkHealth calls it.
func (s *Server) decide(ctx context.Context, p *proof) error {
	defer func() {
		// If the session ends first, the proof has no result. Its callers wait for the next
		// connection instead.
		if ctx.Err() == nil {
			close(p.done)
		}
	}()
	err := p.session.Prove(ctx)
	if err != nil && p.session != p.conn.Session {
		p.lost = ErrPooledLost
		err = p.conn.Session.Prove(ctx)
	}
	switch {
	case err == nil, ctx.Err() != nil:
		return nil
	case errors.Is(err, client.ErrSessionLost): // the transport has ended
		p.lost = err
		return err
	}
	p.lost = nil
	next, refusal := s.open(ctx)
	if p.refusal = refusal; refusal == nil {
		if next.session.Prove(ctx) == nil {
			p.lost, s.next = client.ErrSessionLost, next
			return fmt.Errorf("%w: %w", client.ErrSessionLost, err)
		}
		next.session.Close()
	}
	p.isFutile = true
	return nil
}
