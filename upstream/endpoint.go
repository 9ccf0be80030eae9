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
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// leastSlow and mostSlow bound how long a server may take to start, twice its timeout, before
	// its endpoint counts as down. It is waited for all the same, for a minute at most. Commands
	// that print a result wait for longer than mostSlow.
	leastSlow = 5 * time.Second
	mostSlow  = 20 * time.Second
	// maxTroubleLogged bounds how often the same is logged of one endpoint's calls within ten
	// seconds.
	maxTroubleLogged = 3
)

// endpoint keeps one address of an upstream connected and its list of prompts up to date.
type endpoint struct {
	name     string // the upstream's
	upstream *config.Upstream
	dialer   *client.Dialer
	// onChange is called after each change of status. It must not block.
	onChange func()
	logger   *slog.Logger
	// callLogger is limited: the server decides how often its calls succeed and fail.
	callLogger *slog.Logger
	metrics    func() *instruments
	// isReplica says that there are other endpoints, so that it matters which of them lists a
	// prompt.
	isReplica bool
	// pace spreads the health checks of all upstreams.
	pace   *rate.Limiter
	health *health.Endpoint

	// connectNow ends the wait for the next attempt to connect.
	connectNow health.Mark

	mu         sync.Mutex // serialises update
	status     atomic.Pointer[status]
	connection atomic.Pointer[connection] // written by run only
}

// newEndpoints returns the endpoints of a connector in configuration order.
func newEndpoints(c *Connector, opts Options) []*endpoint {
	dialers := client.NewDialers(c.upstream, opts)
	endpoints := make([]*endpoint, len(dialers))
	for i, dialer := range dialers {
		e := &endpoint{
			name: c.upstream.Name, upstream: &c.upstream, dialer: dialer, onChange: c.mergeStatuses,
			metrics: c.metrics, logger: c.logger, isReplica: len(dialers) > 1, pace: opts.Pace,
			connectNow: make(health.Mark, 1),
		}
		if e.isReplica {
			e.logger = e.logger.With(slog.String("endpoint", dialer.Address()))
		}
		e.health = health.NewEndpoint(health.Settings{
			Team: c.upstream.Team, Timeout: c.upstream.Timeout,
			Failures: c.upstream.Breaker.Failures, Cooldown: c.upstream.Breaker.Cooldown,
			OnReport: e.publishCalls,
		})
		e.callLogger = loglimit.New(e.logger, maxTroubleLogged, "reason")
		e.status.Store(&status{EndpointState: EndpointState{Address: dialer.Address()}})
		e.connection.Store(noConnection())
		endpoints[i] = e
	}
	return endpoints
}

// run keeps the endpoint connected until ctx ends.
func (e *endpoint) run(ctx context.Context) {
	// Deferred first, so done last: it ends the wait of calls that still hope for a new session.
	defer e.replace(noConnection())
	defer e.dialer.CloseIdleConnections()
	// Otherwise it would count as down for ever, and all others would connect less often because of
	// it.
	defer e.health.Redial.Stop()
	if wait := e.health.Redial.First(); wait > 0 && sleep(ctx, wait) != nil {
		return
	}
	for {
		begun := time.Now()
		listed, err := e.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		e.applyRetryAfter(err)
		steady := listed && time.Since(begun) > health.SteadyTime
		// A server that only lost its session is still up. The endpoint stays healthy, and calls
		// wait for the new session instead of failing; if none can be opened, the next round marks
		// it as down.
		renews := listed && errors.Is(err, client.ErrSessionLost)
		wait := max(e.health.Redial.Next(steady, renews), e.health.Paused().Rest())
		if renews {
			e.markRenewing(ctx, err)
		} else {
			e.markDown(ctx, err, wait)
		}
		select {
		case <-time.After(wait):
		case <-e.connectNow:
		case <-ctx.Done():
			return
		}
	}
}

// connect opens a session and serves it until it breaks. It reports whether a list was received in
// it.
func (e *endpoint) connect(ctx context.Context) (listed bool, err error) {
	l := newLister(e)
	slowAfter := min(max(2*e.upstream.Timeout, leastSlow), mostSlow)
	slow := time.AfterFunc(slowAfter, func() { e.markLate(ctx, false, e.dialer.SlowStart(slowAfter)) })
	session, err := e.open(ctx, client.SessionOptions{OnListChanged: l.change})
	slow.Stop()
	if ctx.Err() == nil {
		// An attempt that the end of the connector has cut off says nothing about the server.
		e.metrics().countConnect(err)
	}
	if err != nil {
		return false, err
	}
	defer session.Close()
	conn := newConnection(ctx, e, session)
	defer conn.close()
	// Before calls can find the session: attempts of before are counted with the session before,
	// and not at all once there is a new one.
	e.health.Up()
	e.replace(conn)
	e.update(func(s *status) {
		s.Connected, s.Revision, s.Transport = true, session.Revision, session.Transport()
		s.Promptless, s.ClockOffset = session.Declared.Promptless(), session.ClockOffset()
		if session.ServesSkills() {
			s.Promptless = nil
		}
	})

	// Whichever of them finds the session broken ends the others.
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func() error{
		func() error { return l.watch(ctx, session) },
		func() error { return l.run(ctx, session) },
		func() error { return e.checkHealth(ctx, session, l) },
	} {
		group.Go(func() error { return client.Guard(e.logger, run) })
	}
	err = group.Wait()
	return l.listed, err
}

// open opens a session. That takes a stack of 16 KiB, so it has a goroutine of its own: the one
// that waits for the next attempt for most of its time keeps a small one.
func (e *endpoint) open(ctx context.Context, opts client.SessionOptions) (session *client.Session, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = client.Guard(e.logger, func() (err error) {
			if err = e.notReachedStill(ctx); err == nil {
				session, err = e.dialer.Connect(ctx, opts)
			}
			return err
		})
	}()
	<-done
	return session, err
}

// notReachedStill returns an [unchangedError] if there was no connection to the server before, and
// there is none for the same cause. Where thousands of servers are down, that is what most attempts
// come to, for a third of the processor's time.
func (e *endpoint) notReachedStill(ctx context.Context) error {
	before := e.status.Load()
	if before.Connected || before.Problem == nil || !client.NotReached(before.Problem.Err) {
		return nil
	}
	if err := e.dialer.Reach(ctx); err != nil && before.Problem.hasCause(reasonOf(err), err) {
		return &unchangedError{before.Problem.Err}
	}
	return nil // or for another cause, which an attempt to open a session tells exactly
}

// applyRetryAfter keeps the Retry-After of HTTP 429 and 503 in a response to any request: calls,
// lists, streams and connects wait.
func (e *endpoint) applyRetryAfter(err error) {
	status, ok := errors.AsType[*client.StatusError](err)
	if !ok || !status.AsksForPause() {
		return
	}
	// That the gateway's rate is limited holds for its calls to other endpoints, too.
	reason := reasonOf(err)
	if e.health.Pause(status.RetryAfter, failureOf(err), reason == RateLimited) {
		e.callLogger.Warn("server asks for a pause", slog.String("reason", string(reason)),
			slog.Duration("retry_after", status.RetryAfter), slog.Any("error", err))
	}
}

// checkHealth returns an error when the session's connection breaks, or when the server does not
// answer a health check. It is checked when it has been idle and, at once, after a call that got no
// answer.
func (e *endpoint) checkHealth(ctx context.Context, session *client.Session, l *lister) error {
	next := time.NewTimer(e.health.NextCheck(0, session.CheckStream()))
	defer next.Stop()
	for {
		suspect := false
		select {
		case <-e.health.Suspect:
			suspect = true
		case <-next.C:
			// The timer is not moved by what the server sends; how long it has been idle is looked
			// at only here.
			if left := e.health.NextCheck(session.Idle(), session.CheckStream()); left > 0 {
				next.Reset(left)
				continue
			}
			// Not for a suspect one, above: calls to it fail in the meantime.
			if e.pace != nil && e.pace.Wait(ctx) != nil {
				return ctx.Err()
			}
		case <-session.Done():
			return session.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := e.check(ctx, session, l, suspect); err != nil {
			return err
		}
		// Not since the answer, which may have had no body to end the idle time.
		next.Reset(e.health.NextCheck(0, session.CheckStream()))
	}
}

// check makes a health check, and returns an error if there is no answer within the upstream's
// timeout. An endpoint of which nothing at all has come in the check's time is marked before that,
// and its session kept: the server may only be slow.
func (e *endpoint) check(ctx context.Context, session *client.Session, l *lister, suspect bool) error {
	timeout := e.health.CheckTimeout()
	ctx, cancel := context.WithTimeout(ctx, max(e.upstream.Timeout, timeout))
	defer cancel()
	begun, answer := time.Now(), make(chan error, 1)
	go func() {
		answer <- client.Guard(e.logger, func() error { return session.CheckHealth(ctx, timeout, suspect) })
	}()
	var err error
	select {
	case err = <-answer:
	case <-time.After(timeout):
		// A server that is busy answers others first.
		if session.Idle() >= time.Since(begun) {
			e.health.Late()
			e.markLate(ctx, true, errSilent)
		}
		err = <-answer
	}
	if e.health.Checked(time.Since(begun), err == nil) {
		l.change() // nobody knows what it said meanwhile; the list also ends the problem
	}
	return err
}

// isHealthy reports whether a call of the method is likely to be answered.
func (e *endpoint) isHealthy(method string) bool {
	c := e.connection.Load()
	return c.session != nil && e.health.Ready() && (method != wire.Complete || c.session.Declared.Completes())
}

// publishCalls publishes what calls show. They fail and succeed by themselves, whatever the list
// does.
func (e *endpoint) publishCalls(report health.Report) {
	// Health calls this with its lock held, so that reports come in their order. Nothing below may
	// call health, or wait.
	trouble := problemOfCalls(report.Trouble)
	before := e.status.Load()
	if from, to := before.Breaker, report.Breaker; from != to {
		e.metrics().countTransition(to)
		record := []any{slog.String("from", from.String()), slog.String("to", to.String())}
		if to == BreakerIsOpen {
			record = append(record, slog.Any("error", trouble.Err))
		}
		e.logger.Warn("breaker", record...)
	}
	switch {
	case trouble != nil && trouble.Reason != BreakerOpen: // the breaker has its own record
		if before.calls == nil || !before.calls.hasCause(trouble.Reason, trouble.Err) {
			e.callLogger.Warn("gets fail", e.explained(trouble.Reason, trouble.Cause(), trouble.Err)...)
		}
	case trouble == nil && before.calls != nil && before.Problem == nil:
		e.callLogger.Info("upstream healthy")
	}
	e.update(func(s *status) { s.calls, s.Breaker = trouble, report.Breaker })
}

// update publishes a changed copy of the status.
func (e *endpoint) update(change func(*status)) {
	e.mu.Lock()
	next := *e.status.Load()
	change(&next)
	e.status.Store(&next)
	e.mu.Unlock()
	// Without the lock, so perhaps out of order; that does not matter to mergeStatuses, which reads
	// what is published by then.
	e.onChange()
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
