package upstream

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/errgroup"

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
	// maxRetry bounds the time until a list that was refused is asked for again.
	maxRetry = 30 * time.Second
)

// endpoint keeps one address of an upstream connected and its prompts known.
type endpoint struct {
	// upstream is the configuration as if this were its only address.
	upstream config.Upstream
	opts     Options
	// onChange is called after each change of standing; it must not block.
	onChange func()
	logger   *slog.Logger
	metrics  *instruments
	// replica says that there are others, so that it matters who has which prompt.
	replica bool
	// turn is the call for which it was last the first to be asked. The connector guards it.
	turn uint64

	mu       sync.Mutex // serialises update
	standing atomic.Pointer[standing]
	live     atomic.Pointer[live] // changed by swap
}

// live is a session in use, or the want of one.
type live struct {
	session *Session // nil while there is none
	// asides are the sessions for clients that can be asked.
	asides *asides
	// breaker is the session's: a new session begins with a closed one.
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
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

// newEndpoints returns the endpoints of an upstream in configuration order. They share its metrics.
func newEndpoints(u config.Upstream, opts Options, metrics *instruments, onChange func()) []*endpoint {
	single := split(u)
	endpoints := make([]*endpoint, len(single))
	tokens := newTokens(u, opts.Forbidden)
	shown := u.Addresses()
	for i := range single {
		address := u.Address()
		if len(shown) == len(single) { // it is not where a configuration was loaded that lacks some of its environment
			address = shown[i]
		}
		opts := opts
		logger := opts.logger()
		if len(single) > 1 {
			logger = logger.With(slog.String("endpoint", address))
		}
		opts.Logger = logger
		if u.Transport != config.Stdio {
			opts.client = newHTTPClient(single[i], opts.Forbidden, tokens)
		}
		e := &endpoint{
			upstream: single[i], opts: opts, onChange: onChange, metrics: metrics, replica: len(single) > 1,
			logger: logger.With(slog.String("upstream", u.Name), slog.String("team", u.Team)),
		}
		e.standing.Store(&standing{EndpointState: EndpointState{Address: address}})
		e.live.Store(&live{over: make(chan struct{})})
		endpoints[i] = e
	}
	return endpoints
}

// split returns the configuration once for each address, as if that were the only one.
func split(u config.Upstream) []config.Upstream {
	if len(u.URLs) < 2 {
		return []config.Upstream{u}
	}
	single := make([]config.Upstream, len(u.URLs))
	for i := range u.URLs {
		single[i] = u
		single[i].URLs = u.URLs[i : i+1]
	}
	return single
}

// run keeps the endpoint connected until ctx ends.
func (e *endpoint) run(ctx context.Context) {
	defer e.swap(&live{})
	if e.opts.client != nil {
		defer e.opts.client.closeIdle()
	}
	pause := newPause()
	for {
		begun := time.Now()
		listed, err := e.connected(ctx)
		if ctx.Err() != nil {
			return // the end was asked for
		}
		if listed && time.Since(begun) > steadyTime {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		if listed && errors.Is(err, errSessionLost) {
			e.swap(&live{renewing: true})
		} else {
			e.down(ctx, err, wait)
		}
		if sleep(ctx, wait) != nil {
			return
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

// sleep waits for a time, or returns the error of a context that ends before.
func sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// down records that there is no session.
func (e *endpoint) down(ctx context.Context, err error, wait time.Duration) {
	if s := e.standing.Load(); s.Problem == nil || s.Connected {
		e.logger.WarnContext(ctx, "upstream down", slog.String("reason", string(reason(err))), slog.Any("error", err))
	}
	e.swap(&live{retryAt: time.Now().Add(wait)})
	e.update(func(s *standing) {
		s.Connected = false
		s.degrade(reason(err), err)
	})
}

// swap puts a live in the place of another. Called from run's own goroutine.
func (e *endpoint) swap(next *live) {
	next.over = make(chan struct{})
	close(e.live.Swap(next).over)
}

// connected connects and serves one session until it breaks. It reports whether a list was taken in it.
func (e *endpoint) connected(ctx context.Context) (listed bool, err error) {
	f := feed{changed: make(chan struct{}, 1), ready: make(chan struct{})}
	session, err := Connect(ctx, e.upstream, e.opts, func() { signal(f.changed) })
	if err != nil {
		return false, err
	}
	defer session.Close()
	l := &live{session: session, suspect: make(chan struct{}, 1)}
	l.asides = newAsides(ctx, e, session)
	defer l.asides.close()
	l.breaker = e.newBreaker(l)
	e.swap(l)
	e.update(func(s *standing) { s.Connected, s.Revision = true, session.Revision })
	e.logger.InfoContext(ctx, "upstream connected", slog.String("revision", session.Revision))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.watch(ctx, session, &f) })
	group.Go(func() error { return e.refresh(ctx, session, &f) })
	group.Go(func() error { return e.health(ctx, l) })
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
	// listed is set with the first good list, and ttl is how long the last one may live, 0 where the server does not
	// say. Both are refresh's alone until it has returned.
	listed bool
	ttl    time.Duration
}

// signal asks for a refresh. It never blocks.
func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// watch keeps the stream of changes open.
func (e *endpoint) watch(ctx context.Context, s *Session, f *feed) error {
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
		if err := sleep(ctx, pause.NextBackOff()); err != nil {
			return err
		}
	}
}

// refresh takes the list: at first, when it changed, and from time to time where nobody would tell. The first change
// is followed at once; those that come during a refresh or within quietTime after it share one more, so
// that a server which tells of changes without end is asked four times a second at most.
func (e *endpoint) refresh(ctx context.Context, s *Session, f *feed) error {
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
	for {
		if err := e.list(ctx, s, f); err != nil {
			return err
		}
		if err := sleep(ctx, quietTime); err != nil {
			return err
		}
		if err := e.rest(ctx, f); err != nil {
			return err
		}
	}
}

// rest waits until there is a reason to list again.
func (e *endpoint) rest(ctx context.Context, f *feed) error {
	for {
		refused := e.standing.Load().Problem != nil
		select {
		case <-f.changed:
			return nil
		case <-time.After(e.pollInterval(refused, f.ttl)):
			if refused || f.silent.Load() {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pollInterval is the time that the server gives its list to live, or else the refresh attribute; after a list that was
// refused, that attribute, but maxRetry at most. It is never less than [config.MinRefresh], and jittered upwards, so that
// upstreams do not all list at once.
func (e *endpoint) pollInterval(refused bool, ttl time.Duration) time.Duration {
	interval := e.upstream.Refresh
	switch {
	case refused:
		interval = min(interval, maxRetry)
	case ttl > 0:
		interval = ttl
	}
	return time.Duration(float64(max(interval, config.MinRefresh)) * (1 + 0.2*rand.Float64())) //nolint:gosec // jitter
}

// list takes the list once. It returns an error only where the session is of no more use.
func (e *endpoint) list(ctx context.Context, s *Session, f *feed) error {
	spanned, finish := e.metrics.start(ctx, wire.PromptsList, "")
	taken, err := s.list(spanned, e.upstream.MaxPrompts)
	finish(s.Revision, err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		f.listed, f.ttl = true, taken.ttl
		e.publish(ctx, taken.definitions)
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
	if problem := e.standing.Load().Problem; problem == nil || problem.Reason != why {
		e.logger.WarnContext(ctx, "no new list of prompts, the last good one stays", slog.Any("error", err))
	}
	e.update(func(s *standing) { s.degrade(why, err) })
	return nil
}

// publish makes a list the present one.
func (e *endpoint) publish(ctx context.Context, definitions []jsontext.Value) {
	before := e.standing.Load()
	if before.Problem != nil {
		e.logger.InfoContext(ctx, "upstream healthy")
	}
	same := before.listed && equal(before.definitions, definitions)
	var names offer
	if e.replica && !same {
		names = newOffer(definitions)
	}
	e.update(func(s *standing) {
		s.tried, s.listed, s.Problem = true, true, nil
		if !same {
			s.definitions, s.offer = definitions, names
			s.lists++
		}
	})
}

// health ends the session when its transport breaks or a suspicion proves true.
func (e *endpoint) health(ctx context.Context, l *live) error {
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

// fit reports whether a call of the method is likely to be answered.
func (e *endpoint) fit(method string) bool {
	l := e.live.Load()
	return l.session != nil && l.breaker.State() != gobreaker.StateOpen &&
		(method != wire.Complete || l.session.Completes())
}

// call asks on the present session, through its breaker, but not on one that is known to be lost. It returns what
// it asked on.
func (e *endpoint) call(ctx context.Context, lost *live, k *call) (*live, error) {
	l := e.present(ctx, lost)
	if l.session == nil || l == lost {
		return l, unavailable(e.upstream.Name, Unreachable, time.Until(l.retryAt), errNoSession)
	}
	done, err := l.breaker.Allow()
	if err == nil {
		err = l.ask(ctx, k, done)
	}
	if err == nil {
		return l, nil
	}
	return l, e.suspect(l, err)
}

// errBroke is what the breaker hears of a call that panics.
var errBroke = errors.New("it broke")

// ask makes a call that the breaker allows, and tells it by done how that went.
func (l *live) ask(ctx context.Context, k *call, done func(error)) (err error) {
	err = errBroke // which it is until it comes back
	defer func() { done(err) }()
	err = l.asides.call(ctx, k)
	return err
}

// suspect takes up what is wrong with a session.
func (e *endpoint) suspect(l *live, err error) error {
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		reopens := time.Unix(0, l.opened.Load()).Add(e.upstream.Breaker.Cooldown)
		return unavailable(e.upstream.Name, BreakerOpen, time.Until(reopens), err)
	}
	if suspicious(err) {
		signal(l.suspect)
	}
	return err
}

// present returns what calls are made on now. Where that is about to be replaced, it waits until it is or ctx ends.
func (e *endpoint) present(ctx context.Context, lost *live) *live {
	for {
		l := e.live.Load()
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

func (e *endpoint) newBreaker(l *live) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:    e.upstream.Name,
		Timeout: e.upstream.Breaker.Cooldown,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return int64(counts.ConsecutiveFailures) >= int64(e.upstream.Breaker.Failures)
		},
		IsSuccessful: answered,
		IsExcluded:   excused,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				l.opened.Store(time.Now().UnixNano())
			}
			e.metrics.breaker(to)
			e.logger.Warn("breaker", slog.String("from", from.String()), slog.String("to", to.String()))
		},
	})
}
