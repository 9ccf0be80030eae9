package upstream

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

const (
	// maxSilence is how long nothing may come from an endpoint before it is asked for a sign of life. Jitter takes off up to a
	// tenth, so that endpoints that became connected together are not asked together for ever.
	maxSilence    = 30 * time.Second
	silenceJitter = 0.1
	// signTimeout is how long a sign of life may take before the endpoint counts as one that does not answer.
	signTimeout = 2500 * time.Millisecond
)

var errSilent = errors.New("no sign of life")

// checkHealth returns an error when the session's connection breaks, or when the server gives no sign of life. It is asked for
// one after maxSilence and, at once, after a call that got no answer.
func (e *endpoint) checkHealth(ctx context.Context, conn *connection, w *watch) error {
	idle := time.NewTimer(untilSign(conn.session, 0))
	defer idle.Stop()
	for {
		suspect := false
		select {
		case <-conn.suspect:
			suspect = true
		case <-idle.C:
			// A server that has asked for a pause is not asked for anything meanwhile.
			if left := max(untilSign(conn.session, conn.session.Silence()), e.paused().rest()); left > 0 {
				idle.Reset(left)
				continue
			}
			if e.pace != nil && e.pace.Wait(ctx) != nil {
				return ctx.Err()
			}
		case <-conn.session.Done():
			return conn.session.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := e.awaitSign(ctx, conn, w, suspect); err != nil {
			return err
		}
		idle.Reset(untilSign(conn.session, 0)) // it was a sign of life even if it had no body
	}
}

// untilSign returns when a session that has been silent for a time is to be checked again; it is then asked for a sign of life, or
// before that its stream has to be looked at.
func untilSign(s *client.Session, silence time.Duration) time.Duration {
	left := time.Duration(float64(maxSilence)*(1-silenceJitter*rand.Float64())) - silence //nolint:gosec // jitter
	if stream := s.CheckStream(); stream > 0 {
		left = min(left, stream)
	}
	return left
}

// awaitSign asks the server for a sign of life, and returns an error if there is none within the upstream's timeout. An endpoint
// of which nothing at all has come within signTimeout is marked before that, and its session kept: the server may only be slow.
func (e *endpoint) awaitSign(ctx context.Context, conn *connection, w *watch, suspect bool) error {
	patience := e.patience()
	ctx, cancel := context.WithTimeout(ctx, max(e.upstream.Timeout, patience))
	defer cancel()
	begun, sign := time.Now(), make(chan error, 1)
	go func() { sign <- conn.session.SignOfLife(ctx, patience, suspect) }()
	late := time.NewTimer(patience)
	defer late.Stop()
	var err error
	select {
	case err = <-sign:
	case <-late.C:
		// A server that is busy answers others first.
		if conn.session.Silence() >= time.Since(begun) {
			e.markSilent(ctx, conn)
		}
		err = <-sign
	}
	e.signs[0], e.signs[1] = e.signs[1], time.Since(begun)
	if err != nil {
		return err
	}
	e.balance.answer(e)
	if conn.silent.Swap(false) {
		signal(w.changed) // nobody knows what it said meanwhile; the list also ends the problem
	}
	return nil
}

// patience is signTimeout or, for a server that was slow twice in a row, twice as long as its signs of life took.
func (e *endpoint) patience() time.Duration {
	return max(signTimeout, min(2*e.signs[0], 2*e.signs[1], e.upstream.Timeout))
}

// markSilent records that the endpoint does not answer. Calls are made elsewhere if possible.
func (e *endpoint) markSilent(ctx context.Context, conn *connection) {
	conn.silent.Store(true)
	if e.status.Load().Problem == nil {
		e.logger.WarnContext(ctx, "upstream does not answer", slog.String("reason", string(Timeout)), slog.Any("error", errSilent))
	}
	e.update(func(s *status) {
		if s.Problem == nil {
			s.setProblem(Timeout, errSilent)
		}
	})
}
