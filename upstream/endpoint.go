package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// leastSlow and mostSlow bound how long a server may take to start, twice its timeout, before its endpoint counts as down. It is
// waited for all the same, for a minute at most. Commands that print a result wait for longer than mostSlow.
const (
	leastSlow = 5 * time.Second
	mostSlow  = 20 * time.Second
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
	// reconnects is the pace that the endpoint shares with others.
	reconnects *Reconnects
	// isReplica says that there are other endpoints, so that it matters which of them lists a prompt.
	isReplica bool
	// balance is the connector's. It guards load, which is that of the calls where there are other endpoints.
	balance *balance
	load    load
	// pace spreads the signs of life of all upstreams. Signs is how long the last two took; checkHealth alone uses it.
	pace   *rate.Limiter
	signs  [2]time.Duration
	health *callHealth

	mu         sync.Mutex // serialises update
	status     atomic.Pointer[status]
	connection atomic.Pointer[connection] // written by run only
	// pausedUntil is the last pause that the server asked for; nil before the first. It may be over: see paused.
	pausedUntil atomic.Pointer[serverPause]
}

// newEndpoints returns the endpoints of a connector in configuration order.
func newEndpoints(c *Connector, opts Options) []*endpoint {
	dialers := client.NewDialers(c.upstream, opts)
	endpoints := make([]*endpoint, len(dialers))
	for i, dialer := range dialers {
		e := &endpoint{
			name: c.upstream.Name, upstream: &c.upstream, dialer: dialer, onChange: c.mergeStatuses, metrics: c.metrics, logger: c.logger,
			isReplica: len(dialers) > 1, pace: opts.Pace, balance: &c.balance, reconnects: NewReconnects(),
		}
		if e.isReplica {
			e.logger = e.logger.With(slog.String("endpoint", dialer.Address()))
		}
		e.health = &callHealth{onChange: e.callsChanged}
		e.callLogger = loglimit.New(e.logger, maxTroubleLogged, "reason")
		e.status.Store(&status{EndpointState: EndpointState{Address: dialer.Address()}})
		e.connection.Store(noConnection())
		endpoints[i] = e
	}
	return endpoints
}

// run keeps the endpoint connected until ctx ends.
func (e *endpoint) run(ctx context.Context) {
	defer e.replace(noConnection())
	defer e.dialer.CloseIdleConnections()
	defer e.reconnects.ended(e)
	pause := newBackoff()
	if wait := e.reconnects.begin(); wait > 0 && sleep(ctx, wait) != nil {
		return
	}
	for {
		begun := time.Now()
		listed, err := e.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if listed && time.Since(begun) > steadyTime {
			pause.Reset()
		}
		e.heed(err)
		wait := max(pause.NextBackOff(), e.paused().rest())
		// A server that only lost its session is still up. The endpoint stays healthy, and calls wait for the new session
		// instead of failing; if none can be opened, the next round marks the endpoint as down.
		if listed && errors.Is(err, client.ErrSessionLost) {
			e.logger.InfoContext(ctx, "session lost, a new one is opened", slog.Any("error", err))
			renewing := noConnection()
			renewing.renewing = true
			e.replace(renewing)
		} else {
			wait = max(wait, e.reconnects.failed(e))
			e.markDown(ctx, err, wait)
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// connect opens a session and serves it until it breaks. It reports whether a list was received in it.
func (e *endpoint) connect(ctx context.Context) (listed bool, err error) {
	w := newWatch()
	patience := min(max(2*e.upstream.Timeout, leastSlow), mostSlow)
	slow := time.AfterFunc(patience, func() { e.markSlow(ctx, patience) })
	session, err := e.open(ctx, client.SessionOptions{OnListChanged: w.hear})
	slow.Stop()
	if ctx.Err() == nil {
		e.metrics().countConnect(err)
	}
	if err != nil {
		return false, err
	}
	defer session.Close()
	e.reconnects.ended(e)
	conn := newConnection(session, *e.upstream, e.health, e.breakerChanged)
	conn.pool = newSessionPool(ctx, e.name, e.logger, session)
	defer conn.pool.close()
	if session.MayBeLegacyToo() {
		conn.legacy = newLegacyGets(ctx, e.name, e.logger, session)
		defer conn.legacy.pool.close()
	}
	e.health.setBreaker(gobreaker.StateClosed)
	e.replace(conn)
	e.update(func(s *status) {
		s.Connected, s.Revision, s.Transport, s.Promptless = true, session.Revision, session.Transport(), session.Promptless()
		s.ClockOffset = session.ClockOffset()
	})

	// Whichever of them finds the session broken ends the others.
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.watch(ctx, session, w) })
	group.Go(func() error { return e.refresh(ctx, session, w) })
	group.Go(func() error { return e.checkHealth(ctx, conn, w) })
	err = group.Wait()
	return w.listed, err
}

// open opens a session. That takes a stack of 16 KiB, so it has a goroutine of its own: the one that waits for the next attempt for most
// of its time keeps a small one.
func (e *endpoint) open(ctx context.Context, opts client.SessionOptions) (session *client.Session, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err = e.notReachedStill(ctx); err == nil {
			session, err = e.dialer.Connect(ctx, opts)
		}
	}()
	<-done
	return session, err
}

// notReachedStill returns an [unchangedError] if there was no connection to the server before, and there is none for the same cause.
// Where thousands of servers are down, that is what most attempts come to, for a third of the processor's time.
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

// breakerChanged records a transition of the circuit breaker.
func (e *endpoint) breakerChanged(from, to gobreaker.State) {
	e.metrics().countTransition(to)
	if to == gobreaker.StateOpen {
		e.logger.Warn("breaker", slog.String("from", from.String()), slog.String("to", to.String()), slog.Any("error", e.health.lastFailure()))
		return
	}
	e.logger.Warn("breaker", slog.String("from", from.String()), slog.String("to", to.String()))
}

// callsChanged publishes what calls show. They fail and succeed by themselves, whatever the list does.
func (e *endpoint) callsChanged(breaker gobreaker.State, trouble *Problem) {
	before := e.status.Load()
	switch {
	case trouble != nil && trouble != before.calls && trouble.Reason != BreakerOpen: // the breaker has its own record
		e.callLogger.Warn("gets fail", e.explained(trouble.Reason, trouble.Cause(), trouble.Err)...)
	case trouble == nil && before.calls != nil && before.Problem == nil:
		e.callLogger.Info("upstream healthy")
	}
	e.update(func(s *status) { s.calls, s.Breaker = trouble, BreakerState(breaker) })
}

// noteNotSent notes that a call failed because it was not sent. While the server is down, that is no news.
func (e *endpoint) noteNotSent(method string, err error) {
	if c := e.connection.Load(); c.session != nil || c.renewing || c.forgotten {
		e.health.fail(method, err)
	}
}

// noSession is the error of a call that finds a connection without a session. Its reason is why there is none.
func (e *endpoint) noSession(conn *connection) error {
	reason, err := Unreachable, &noSessionError{}
	if p := e.status.Load().Problem; p != nil && conn.session == nil {
		reason, err.cause = p.Reason, p.Err
	}
	return unavailable(e.name, reason, time.Until(conn.retryAt), err)
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
	down.retryAt, down.forgotten = time.Now().Add(wait), errors.Is(err, client.ErrSessionLost)
	e.replace(down)
	if before.tried && known {
		return // an outage that goes on is no change, and a change costs everybody who looks at states
	}
	e.update(func(s *status) {
		s.Connected = false
		s.setProblem(reason, err)
	})
	if !down.forgotten { // else the server is up, and the same
		e.health.forget()
	}
}

// explained returns what the log says of a problem.
func (e *endpoint) explained(reason Reason, cause Cause, err error) []any {
	return []any{
		slog.String("place", e.upstream.Place.String()), slog.String("reason", string(reason)), slog.String("cause", cause.Problem),
		slog.String("remedy", cause.Remedy), slog.Any("error", err),
	}
}

// markSlow records that a server which was started or called a while ago has not answered. It is waited for all the same.
func (e *endpoint) markSlow(ctx context.Context, after time.Duration) {
	err := e.dialer.SlowStart(after)
	if s := e.status.Load(); s.Problem == nil {
		e.logger.WarnContext(ctx, "upstream down", e.explained(Timeout, causeOf(Timeout, err), err)...)
	}
	e.update(func(s *status) {
		if s.Problem == nil && !s.Connected { // else it has connected, or failed, at this moment
			s.setProblem(Timeout, err)
		}
	})
}

// replace puts a connection in place of another. Only run's goroutine may call it.
func (e *endpoint) replace(next *connection) {
	close(e.connection.Swap(next).replaced)
}

// await returns the present connection. If that is the lost one, or one that is being renewed, it waits until another takes
// its place, or ctx ends.
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

// isHealthy reports whether a call of the method is likely to be answered.
func (e *endpoint) isHealthy(method string) bool {
	c := e.connection.Load()
	// That it is refused for its rate does not send a call elsewhere, neither before nor after.
	if p := e.paused(); p != nil && p.reason != RateLimited {
		return false
	}
	return c.session != nil && !c.silent.Load() && c.breaker.State() != gobreaker.StateOpen &&
		(method != wire.Complete || c.session.Completes())
}

// update publishes a changed copy of the status.
func (e *endpoint) update(change func(*status)) {
	e.mu.Lock()
	next := *e.status.Load()
	change(&next)
	e.status.Store(&next)
	e.mu.Unlock()
	e.onChange()
}
