package upstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// firstBackoff and lastBackoff bound the time between two attempts to connect.
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// backoffJitter is how far an attempt may stray from its time, so that replicas do not return in step.
	backoffJitter = 0.5
	// quietTime is how long after a refresh further changes are gathered into one more.
	quietTime = 250 * time.Millisecond
	// readyBound is how long the first list waits for the stream of changes to stand.
	readyBound = 2 * time.Second
	// steadyTime is how long a session or a stream must have lasted for the next to come without growing backoff.
	steadyTime = 3 * time.Second
	// minRetry and maxRetry bound the time until a list that was refused is asked for again.
	minRetry = 10 * time.Second
	maxRetry = 30 * time.Second
	// maxUseless is how many refreshes in a row may bring nothing new before changes are gathered for longer.
	maxUseless = 4
)

// Connector keeps one upstream connected and its prompts known. All methods are safe for concurrent use.
type Connector struct {
	upstream config.Upstream
	opts     Options
	onChange func()
	logger   *slog.Logger
	metrics  *instruments
	// slots are the calls that may be in flight.
	slots *semaphore.Weighted

	mu    sync.Mutex // serialises update
	state atomic.Pointer[State]
	live  atomic.Pointer[live] // changed by swap
}

// live is a session in use, or the want of one.
type live struct {
	session *Session // nil while there is none
	// breaker is the session's: a new session begins with a closed one.
	breaker *gobreaker.CircuitBreaker[Result]
	// opened is when the breaker opened, in Unix nanoseconds.
	opened atomic.Int64
	// suspect asks for a sign of life, because a call brought no answer.
	suspect chan struct{}
	// retryAt is when the next attempt to connect is due, where there is no session.
	retryAt time.Time
	// renewing says that the peer is there and only wants a new session.
	renewing bool
	// over is closed when another live has taken its place.
	over chan struct{}
}

// New returns a connector that has not started. The onChange function is called after each change of [State]; it
// must not block.
func New(u config.Upstream, opts Options, onChange func()) *Connector {
	c := &Connector{
		upstream: u, opts: opts, onChange: onChange,
		logger:  opts.logger().With(slog.String("upstream", u.Name), slog.String("team", u.Team)),
		metrics: newInstruments(u),
		slots:   semaphore.NewWeighted(int64(u.Concurrency)),
	}
	if u.Transport == config.StreamableHTTP {
		c.opts.client = newHTTPClient(u, opts.Forbidden)
	}
	c.state.Store(&State{})
	c.live.Store(&live{over: make(chan struct{})})
	return c
}

// Upstream returns the configuration that the connector was made with.
func (c *Connector) Upstream() config.Upstream { return c.upstream }

// Run keeps the upstream connected until ctx ends, and always returns nil: that a server is down is for [State].
func (c *Connector) Run(ctx context.Context) error {
	defer c.swap(&live{})
	if c.opts.client != nil {
		defer c.opts.client.closeIdle()
	}
	pause := newPause()
	for {
		begun := time.Now()
		listed, err := c.connected(ctx)
		if ctx.Err() != nil {
			return nil // the end was asked for
		}
		if listed && time.Since(begun) > steadyTime {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		if listed && errors.Is(err, errSessionLost) {
			c.swap(&live{renewing: true})
		} else {
			c.down(ctx, err, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

func newPause() *backoff.ExponentialBackOff {
	pause := &backoff.ExponentialBackOff{
		InitialInterval: firstBackoff, RandomizationFactor: backoffJitter, Multiplier: 2,
		MaxInterval: lastBackoff * 2 / 3, // so that jitter does not lead over it
	}
	pause.Reset()
	return pause
}

// down records that there is no session.
func (c *Connector) down(ctx context.Context, err error, wait time.Duration) {
	if state := c.state.Load(); state.Problem == nil || state.Connected {
		c.logger.WarnContext(ctx, "upstream down", slog.String("reason", string(reason(err))), slog.Any("error", err))
	}
	c.swap(&live{retryAt: time.Now().Add(wait)})
	c.update(func(s *State) {
		s.Connected = false
		s.degrade(reason(err), err)
	})
}

// swap puts a live in the place of another. Called from Run's own goroutine.
func (c *Connector) swap(next *live) {
	next.over = make(chan struct{})
	close(c.live.Swap(next).over)
}

// connected connects and serves one session until it breaks. It reports whether a list was taken in it.
func (c *Connector) connected(ctx context.Context) (listed bool, err error) {
	f := feed{changed: make(chan struct{}, 1), ready: make(chan struct{})}
	session, err := Connect(ctx, c.upstream, c.opts, func() { signal(f.changed) })
	if err != nil {
		return false, err
	}
	defer session.Close()
	l := &live{session: session, suspect: make(chan struct{}, 1)}
	l.breaker = c.newBreaker(l)
	c.swap(l)
	c.update(func(s *State) { s.Connected, s.Revision = true, session.Revision })
	c.logger.InfoContext(ctx, "upstream connected", slog.String("revision", session.Revision))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.watch(ctx, session, &f) })
	group.Go(func() error { return c.refresh(ctx, session, &f) })
	group.Go(func() error { return c.health(ctx, l) })
	err = group.Wait()
	return f.listed, err
}

// feed is how one session's changes reach its refreshes.
type feed struct {
	// changed holds at most one mark: that something changed since the last refresh began.
	changed chan struct{}
	// ready is closed when the first list need not wait any longer: no change can be missed, or none will be told.
	ready chan struct{}
	// silent is set while nobody would tell of a change.
	silent atomic.Bool
	// listed is set with the first good list. It is refresh's alone until it has returned.
	listed bool
}

// signal asks for a refresh. It never blocks.
func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// watch keeps the stream of changes open.
func (c *Connector) watch(ctx context.Context, s *Session, f *feed) error {
	var once sync.Once
	ready := func() { once.Do(func() { close(f.ready) }) }
	defer ready()
	if !s.notifies() {
		f.silent.Store(true)
		return nil
	}
	pause := newPause()
	for {
		var stands atomic.Int64
		err := s.watch(ctx, func() {
			stands.Store(time.Now().UnixNano())
			f.silent.Store(false)
			signal(f.changed) // whatever was said before is made up for
			ready()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.silent.Store(true)
		if errors.Is(err, errNoStream) {
			return nil
		}
		if !errors.Is(err, errSessionLost) && !errors.Is(err, errExited) {
			err = s.alive(ctx)
		}
		if err != nil {
			return err
		}
		ready()
		if began := stands.Load(); began != 0 && time.Since(time.Unix(0, began)) > steadyTime {
			pause.Reset()
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refresh takes the list: at first, when it changed, and from time to time where nobody would tell. The first change
// is followed at once; those that come during a refresh or within quietTime after it share one more. A server that
// tells of changes without end that are none is followed more slowly.
func (c *Connector) refresh(ctx context.Context, s *Session, f *feed) error {
	select { // until the first list is worth taking
	case <-f.ready:
	case <-time.After(readyBound):
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-f.changed: // the first list will know of it
	default:
	}
	for useless := 0; ; {
		before := c.state.Load().Lists
		if err := c.list(ctx, s, f); err != nil {
			return err
		}
		useless++
		if c.state.Load().Lists != before {
			useless = 0
		}
		select {
		case <-time.After(quiet(useless)):
		case <-ctx.Done():
			return ctx.Err()
		}
		told, err := c.rest(ctx, f)
		if err != nil {
			return err
		}
		if !told {
			useless = 0
		}
	}
}

// quiet is how long changes are gathered after so many refreshes in a row that brought nothing new.
func quiet(useless int) time.Duration {
	doublings := min(max(useless-maxUseless, 0), 10)
	return min(quietTime<<doublings, lastBackoff)
}

// rest waits until there is a reason to list again, and reports whether it is that the server told of a change.
func (c *Connector) rest(ctx context.Context, f *feed) (told bool, err error) {
	for {
		refused := c.state.Load().Problem != nil
		select {
		case <-f.changed:
			return true, nil
		case <-time.After(c.pollInterval(refused)):
			if refused || f.silent.Load() {
				return false, nil
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// pollInterval is the refresh attribute or, after a list that was refused, what of it lies between minRetry and
// maxRetry. It is jittered upwards, so that upstreams do not all list at once.
func (c *Connector) pollInterval(refused bool) time.Duration {
	interval := c.upstream.Refresh
	if refused {
		interval = min(max(interval, minRetry), maxRetry)
	}
	return time.Duration(float64(interval) * (1 + 0.2*rand.Float64())) //nolint:gosec // jitter
}

// list takes the list once. It returns an error only where the session is of no more use.
func (c *Connector) list(ctx context.Context, s *Session, f *feed) error {
	spanned, finish := c.metrics.start(ctx, wire.PromptsList, "")
	definitions, err := s.List(spanned, c.upstream.MaxPrompts)
	finish(s.Revision, err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		f.listed = true
		c.publish(ctx, definitions)
		return nil
	}
	if errors.Is(err, errSessionLost) {
		return err
	}
	if suspicious(err) {
		if dead := s.alive(ctx); dead != nil {
			return dead
		}
	}
	why := reasonOfList(err)
	if problem := c.state.Load().Problem; problem == nil || problem.Reason != why {
		c.logger.WarnContext(ctx, "no new list of prompts, the last good one stays", slog.Any("error", err))
	}
	c.update(func(s *State) { s.degrade(why, err) })
	return nil
}

// publish makes a list the present one.
func (c *Connector) publish(ctx context.Context, definitions []jsontext.Value) {
	before := c.state.Load()
	if before.Problem != nil {
		c.logger.InfoContext(ctx, "upstream healthy")
	}
	same := before.Listed && slices.EqualFunc(before.Definitions, definitions, func(a, b jsontext.Value) bool {
		return bytes.Equal(a, b)
	})
	c.update(func(s *State) {
		s.Tried, s.Listed, s.Problem = true, true, nil
		if !same {
			s.Definitions = definitions
			s.Lists++
		}
	})
}

// health ends the session when its transport breaks or a suspicion proves true.
func (c *Connector) health(ctx context.Context, l *live) error {
	for {
		select {
		case <-l.suspect:
			if err := l.session.alive(ctx); err != nil {
				return err
			}
		case <-l.session.transport.broken():
			return l.session.transport.brokenBy()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Call sends one request to the upstream and waits for its result, at most as long as the upstream's timeout. Errors
// are [*wire.Error] where the upstream answered no, [*Unavailable] where it did not answer, and the context's own
// where the caller gave up.
func (c *Connector) Call(ctx context.Context, method, name string, params wire.Object) (Result, error) {
	ctx, finish := c.metrics.start(ctx, method, name)
	result, err := c.call(ctx, method, name, params)
	finish(result.Revision, err)
	return result, c.explain(err)
}

func (c *Connector) call(caller context.Context, method, name string, params wire.Object) (Result, error) {
	ctx, cancel := context.WithTimeout(caller, c.upstream.Timeout)
	defer cancel()
	begun := time.Now()
	if c.slots.Acquire(ctx, 1) != nil {
		if gone := caller.Err(); gone != nil {
			return Result{}, &gaveUpError{gone}
		}
		return Result{}, c.unavailable(Overloaded, 0, errOverloaded)
	}
	defer c.slots.Release(1)
	late := time.Since(begun) > c.upstream.Timeout/2
	ask := func(s *Session) (Result, error) {
		result, err := s.Call(ctx, method, name, params)
		switch gone := caller.Err(); {
		case answered(err):
		case gone != nil:
			err = &gaveUpError{gone}
		case late && errors.Is(err, context.DeadlineExceeded): // it had its time, but not from the peer
			err = c.unavailable(Overloaded, 0, errOverloaded)
		}
		return result, err
	}
	l, result, err := c.callOnce(ctx, nil, ask)
	if errors.Is(err, errSessionLost) { // nothing was processed: the caller need not notice
		_, result, err = c.callOnce(ctx, l, ask)
	}
	if gone := caller.Err(); gone != nil && !answered(err) {
		err = &gaveUpError{gone}
	}
	return result, err
}

// callOnce asks on the present session, through its breaker, but not on one that is known to be lost. It returns what
// it asked on.
func (c *Connector) callOnce(ctx context.Context, lost *live, ask func(*Session) (Result, error)) (*live, Result, error) {
	l := c.present(ctx, lost)
	if l.session == nil || l == lost {
		return l, Result{}, c.unavailable(Unreachable, time.Until(l.retryAt), errNoSession)
	}
	result, err := l.breaker.Execute(func() (Result, error) { return ask(l.session) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		reopens := time.Unix(0, l.opened.Load()).Add(c.upstream.Breaker.Cooldown)
		return l, result, c.unavailable(BreakerOpen, time.Until(reopens), err)
	}
	if suspicious(err) {
		signal(l.suspect)
	}
	return l, result, err
}

// present returns what calls are made on now. Where that is about to be replaced, it waits until it is or ctx ends.
func (c *Connector) present(ctx context.Context, lost *live) *live {
	for {
		l := c.live.Load()
		if l != lost && !l.renewing {
			return l
		}
		select {
		case <-l.over:
		case <-ctx.Done():
			return l
		}
	}
}

func (c *Connector) unavailable(reason Reason, retryAfter time.Duration, err error) error {
	return &Unavailable{Upstream: c.upstream.Name, Reason: reason, RetryAfter: max(retryAfter, 0), Err: err}
}

// explain turns the lack of an answer into [*Unavailable]; an answer stays what it is, and so does a caller's end.
func (c *Connector) explain(err error) error {
	if err == nil {
		return nil
	}
	if gone, ok := errors.AsType[*gaveUpError](err); ok {
		return gone.cause
	}
	if answer, ok := errors.AsType[*wire.Error](err); ok {
		return answer
	}
	if _, ok := errors.AsType[*Unavailable](err); ok {
		return err
	}
	var retryAfter time.Duration
	if status, ok := errors.AsType[*statusError](err); ok {
		retryAfter = status.retryAfter
	}
	return c.unavailable(reason(err), retryAfter, err)
}

func (c *Connector) newBreaker(l *live) *gobreaker.CircuitBreaker[Result] {
	return gobreaker.NewCircuitBreaker[Result](gobreaker.Settings{
		Name:    c.upstream.Name,
		Timeout: c.upstream.Breaker.Cooldown,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return int64(counts.ConsecutiveFailures) >= int64(c.upstream.Breaker.Failures)
		},
		IsSuccessful: answered,
		IsExcluded:   excused,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				l.opened.Store(time.Now().UnixNano())
			}
			c.metrics.breaker(to)
			c.logger.Warn("breaker", slog.String("from", from.String()), slog.String("to", to.String()))
		},
	})
}

// Completes reports whether the upstream's present session knows completions.
func (c *Connector) Completes() bool {
	l := c.live.Load()
	return l.session == nil || l.session.Completes()
}
