package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/loglimit"
)

const (
	// A server that is still connecting counts as down after twice its timeout, but not before leastSlow and not after
	// mostSlow. The attempt goes on until its handshake times out. Commands that print a result wait longer than mostSlow.
	leastSlow = 5 * time.Second
	mostSlow  = 20 * time.Second
	// lingerStep is the interval at which a replaced session is checked for remaining calls.
	lingerStep = 100 * time.Millisecond
)

// New returns a server that has not been contacted. The server calls onChange after each change of its [State]. onChange must
// not block. The records of logger must name the upstream.
func New(u *config.Upstream, opts client.Options, logger *slog.Logger, onChange func()) *Server {
	s := &Server{
		Metrics: sync.OnceValue(func() *Metrics { return newMetrics(u) }), upstream: u,
		dialer: client.NewDialer(*u, opts), onChange: onChange, logger: logger,
		callLogger: loglimit.New(logger, maxCallsLogged, "reason"), connects: opts.Connects,
		relist:     rate.Sometimes{Interval: relistPause},
		connectNow: make(Mark, 1), Suspect: make(Mark, 1), Relist: make(Mark, 1), OnLink: func(Link) {},
	}
	s.state.Store(&State{})
	s.connection.Store(noConnection())
	return s
}

// Run keeps the server connected until ctx ends.
func (s *Server) Run(ctx context.Context) {
	// Deferred first, so that it runs last. It ends the wait of calls for a new session.
	defer s.replace(noConnection())
	defer s.dialer.CloseIdleConnections()
	defer s.ending.Wait()
	defer func() {
		if s.next != nil {
			s.next.session.Close()
		}
	}()
	reconnect, renews := newReconnect(), false
	for {
		// Calls wait for a renewed session, so the limit on connects does not apply to it.
		if s.connects != nil && !renews && s.connects.Wait(ctx) != nil {
			return
		}
		begun := time.Now()
		listed, err := s.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.next != nil {
			s.markRenewing(ctx, err)
			renews = true
			continue
		}
		s.ApplyRetryAfter(err)
		steady := listed && time.Since(begun) > steadyTime
		// A server with a lost session is still up: it stays healthy, and calls wait for the new
		// session. If none can be opened, the next round marks it as down.
		renews = listed && errors.Is(err, client.ErrSessionLost)
		wait := max(reconnect.next(steady), s.Paused().Rest())
		if renews {
			s.markRenewing(ctx, err)
		} else {
			s.markDown(ctx, err, wait)
		}
		select {
		case <-time.After(wait):
		case <-s.connectNow:
		case <-ctx.Done():
			return
		}
	}
}

// connect opens a session, unless decide has opened it, and serves it until it breaks. It reports
// whether a list was received.
func (s *Server) connect(ctx context.Context) (listed bool, err error) {
	l := s.next
	if s.next = nil; l == nil {
		if l, err = s.openFirst(ctx); err != nil {
			return false, err
		}
	}
	return s.serve(ctx, l)
}

// openFirst opens a session. While the attempt takes longer than usual, the server counts as down.
func (s *Server) openFirst(ctx context.Context) (*lister, error) {
	slowAfter := min(max(2*s.upstream.Timeout, leastSlow), mostSlow)
	slow := time.AfterFunc(slowAfter, func() { s.markLate(ctx, false, s.dialer.SlowStart(slowAfter)) })
	l, err := s.open(ctx)
	slow.Stop()
	if ctx.Err() == nil {
		// An attempt that was cut off by the end of ctx says nothing about the server.
		s.Metrics().countConnect(err)
	}
	return l, err
}

// serve serves a session until it breaks.
func (s *Server) serve(ctx context.Context, l *lister) (listed bool, err error) {
	session := l.session
	conn := newConnection(ctx, s, session)
	defer func() {
		if s.next == nil {
			conn.close()
			return
		}
		s.ending.Go(func() { // close the replaced session when its calls have ended, or when ctx ends
			for Sleep(ctx, lingerStep) == nil && conn.calls.Load() > 0 {
			}
			conn.close()
		})
	}()
	// Call OnLink before calls can find the session. From now on, the breaker ignores attempts on
	// the previous session.
	s.OnLink(Up)
	s.Suspect.clear() // the mark may be about the last session
	s.replace(conn)
	s.update(func(next *State) {
		next.Connected, next.Revision, next.Transport = true, session.Revision, session.Transport()
		next.Promptless, next.ClockOffset = session.Promptless, session.ClockOffset()
	})

	// The first function that finds the session broken ends the others.
	group, served := errgroup.WithContext(ctx)
	for _, run := range []func() error{
		func() error { return l.watch(served) },
		func() error { return l.run(served) },
		func() error { return s.checkHealth(served, conn) },
	} {
		group.Go(func() error { return client.RecoverToError(s.logger, run) })
	}
	err = group.Wait()
	return l.listed, err
}
