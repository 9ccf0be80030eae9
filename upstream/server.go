package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/loglimit"
)

const (
	// leastSlow and mostSlow bound how long a server may take to start, twice its timeout, before
	// it counts as down. It is waited for all the same, for a minute at most. Commands
	// that print a result wait for longer than mostSlow.
	leastSlow = 5 * time.Second
	mostSlow  = 20 * time.Second
	// maxTroubleLogged bounds how often the same is logged of one server's calls within ten
	// seconds.
	maxTroubleLogged = 3
)

// server keeps the server of an upstream connected and its list of prompts up to date.
type server struct {
	upstream *config.Upstream
	dialer   *client.Dialer
	// state and update are those of the connector.
	state   func() *State
	update  func(change func(*State))
	logger  *slog.Logger
	metrics func() *instruments
	// callLogger is limited: the server decides how often its calls succeed and fail.
	callLogger *slog.Logger
	// pace spreads the health checks of all upstreams, and connects the attempts to connect of one
	// team's. Either may be nil.
	pace, connects *rate.Limiter
	health         *health.Server

	// connectNow ends the wait for the next attempt to connect.
	connectNow health.Mark
	connection atomic.Pointer[connection] // written by run only
	// next is the session that takes the place of a lost one; nil if it has yet to be opened. Ending are
	// the sessions that have been replaced. For run and what it waits for.
	next   *opened
	ending sync.WaitGroup

	mu    sync.Mutex // guards proof
	proof *proof     // the last one; nil before the first
}

func newServer(c *Connector, opts Options) *server {
	s := &server{
		upstream: &c.upstream, dialer: client.NewDialer(c.upstream, opts), state: c.State, update: c.update,
		metrics: c.metrics, logger: c.logger, pace: opts.Pace, connects: opts.Connects,
		callLogger: loglimit.New(c.logger, maxTroubleLogged, "reason"), connectNow: make(health.Mark, 1),
	}
	s.health = health.NewServer(health.Settings{
		Failures: c.upstream.Breaker.Failures, Cooldown: c.upstream.Breaker.Cooldown,
		OnReport: s.publishCalls,
	})
	s.connection.Store(noConnection())
	return s
}

// run keeps the server connected until ctx ends.
func (s *server) run(ctx context.Context) {
	// Deferred first, so done last: it ends the wait of calls that still hope for a new session.
	defer s.replace(noConnection())
	defer s.dialer.CloseIdleConnections()
	defer s.ending.Wait()
	defer func() {
		if s.next != nil {
			s.next.session.Close()
		}
	}()
	reconnect, renews := health.NewReconnect(), false
	for {
		// A server that only lost its session is up: calls wait for the new one.
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
		s.applyRetryAfter(err)
		steady := listed && time.Since(begun) > health.SteadyTime
		// A server that only lost its session is still up. The server stays healthy, and calls
		// wait for the new session instead of failing; if none can be opened, the next round marks
		// it as down.
		renews = listed && errors.Is(err, client.ErrSessionLost)
		wait := max(reconnect.Next(steady), s.health.Paused().Rest())
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

// connect opens a session, unless the next one is open, and serves it until it breaks. It reports
// whether a list was received in it.
func (s *server) connect(ctx context.Context) (listed bool, err error) {
	o := s.next
	if s.next = nil; o == nil {
		if o, err = s.openFirst(ctx); err != nil {
			return false, err
		}
	}
	return s.serve(ctx, o.lister, o.session)
}

// openFirst opens a session for calls that wait for none.
func (s *server) openFirst(ctx context.Context) (*opened, error) {
	l := newLister(s)
	slowAfter := min(max(2*s.upstream.Timeout, leastSlow), mostSlow)
	slow := time.AfterFunc(slowAfter, func() { s.markLate(ctx, false, s.dialer.SlowStart(slowAfter)) })
	session, err := s.open(ctx, client.SessionOptions{OnListChanged: l.change})
	slow.Stop()
	if ctx.Err() == nil {
		// An attempt that the end of the connector has cut off says nothing about the server.
		s.metrics().countConnect(err)
	}
	return &opened{l, session}, err
}

// serve serves a session until it breaks.
func (s *server) serve(ctx context.Context, l *lister, session *client.Session) (listed bool, err error) {
	conn := newConnection(ctx, s, session)
	defer func() {
		if s.next != nil {
			s.ending.Go(func() { s.endAfterCalls(ctx, conn) })
			return
		}
		conn.close()
	}()
	// Before calls can find the session: attempts of before are counted with the session before,
	// and not at all once there is a new one.
	s.health.Up()
	s.replace(conn)
	s.update(func(next *State) {
		next.Connected, next.Revision, next.Transport = true, session.Revision, session.Transport()
		next.Promptless, next.ClockOffset = session.Declared.Promptless(), session.ClockOffset()
		if session.ServesSkills() {
			next.Promptless = nil
		}
	})

	// Whichever of them finds the session broken ends the others.
	group, served := errgroup.WithContext(ctx)
	for _, run := range []func() error{
		func() error { return l.watch(served, session) },
		func() error { return l.run(served, session) },
		func() error { return s.checkHealth(served, conn) },
	} {
		group.Go(func() error { return client.Guard(s.logger, run) })
	}
	err = group.Wait()
	return l.listed, err
}

// open opens a session. That takes a stack of 16 KiB, so it has a goroutine of its own: the one
// that waits for the next attempt for most of its time keeps a small one.
func (s *server) open(ctx context.Context, opts client.SessionOptions) (session *client.Session, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = client.Guard(s.logger, func() (err error) {
			session, err = s.dialer.Connect(ctx, opts)
			return err
		})
	}()
	<-done
	return session, err
}

// applyRetryAfter keeps the Retry-After of HTTP 429 and 503 in a response to any request: calls,
// lists, streams and connects wait.
func (s *server) applyRetryAfter(err error) {
	end := outcomeOf(err)
	if end.Pauses && s.health.Pause(end.RetryAfter, failureOf(err)) {
		s.callLogger.Warn("server asks for a pause", slog.String("reason", string(end.Reason)),
			slog.Duration("retry_after", end.RetryAfter), slog.Any("error", err))
	}
}

// checkHealth pings the server when it has been idle and, at once, after a call that got no answer. It
// makes the proofs of the connection's sessions. It returns an error when the session's connection
// breaks, when a ping is not answered within the upstream's timeout, or when the session is lost.
func (s *server) checkHealth(ctx context.Context, conn *connection) error {
	session := conn.session
	next := time.NewTimer(s.health.NextCheck(0))
	defer next.Stop()
	for {
		var err error
		select {
		case p := <-conn.proofs:
			err = s.decide(ctx, p)
		case <-s.health.Suspect:
			err = session.Ping(ctx)
		case <-next.C:
			// The timer is not moved by what the server sends: its idle time is looked at only here.
			if left := s.health.NextCheck(session.Idle()); left > 0 {
				next.Reset(left)
				continue
			}
			// Not for a suspect one, above: calls to it fail in the meantime.
			if s.pace != nil && s.pace.Wait(ctx) != nil {
				return ctx.Err()
			}
			if err = session.CheckHealth(ctx); client.OutcomeOf(err).MayBeLost {
				s.proofFor(conn, session, false) // it is the next to be received
				err = nil
			}
		case <-session.Done():
			return session.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			// At once: the end of the session may take a while where the server hangs.
			if ctx.Err() == nil && !errors.Is(err, client.ErrSessionLost) {
				s.markLate(ctx, true, err)
			}
			return err
		}
		// Not since the answer, which may have had no body to end the idle time.
		next.Reset(s.health.NextCheck(0))
	}
}

// publishCalls publishes what calls show. They fail and succeed by themselves, whatever the list
// does.
func (s *server) publishCalls(report health.Report) {
	// Health calls this with its lock held, so that reports come in their order. Nothing below may
	// call health, or wait.
	trouble := problemOfCalls(report.Trouble)
	before := s.state()
	if from, to := before.Breaker, report.Breaker; from != to {
		s.metrics().countTransition(to)
		record := []any{slog.String("from", from.String()), slog.String("to", to.String())}
		if to == BreakerIsOpen {
			record = append(record, slog.Any("error", trouble.Err))
		}
		s.logger.Warn("breaker", record...)
	}
	switch {
	case trouble != nil && trouble.Reason != BreakerOpen: // the breaker has its own record
		if before.ofCalls == nil || !before.ofCalls.hasCause(trouble.Reason, trouble.Err) {
			s.callLogger.Warn("gets fail", s.explained(trouble.Reason, trouble.Cause(), trouble.Err)...)
		}
	case trouble == nil && before.ofCalls != nil && before.ofList == nil:
		s.callLogger.Info("upstream healthy")
	}
	s.update(func(next *State) { next.ofCalls, next.Breaker = trouble, report.Breaker })
}

// sleep waits for a time, or returns the error of a context that ends before.
func sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
