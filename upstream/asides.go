package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxAsides bounds an endpoint's sessions beside its first, and maxAlike those of one set of capabilities.
	maxAsides = 8
	maxAlike  = 4
	// maxHeld bounds those of them that one caller holds at a time, so that nobody who leaves questions unanswered keeps
	// all others from being asked.
	maxHeld = maxAlike / 2
	// asideIdle is how long one is kept that nobody uses.
	asideIdle = 5 * time.Minute
	// asideRetry is how long after a failure to open one, calls go to the endpoint's first session instead.
	asideRetry = 30 * time.Second
)

var (
	errTurns = fmt.Errorf("%w: each may ask its caller for input, and takes a session of its own", errOverloaded)
	errFresh = errors.New("a new session was lost at once")
)

// asides are an endpoint's sessions for clients that can be asked for input, or want to read log messages. A legacy
// server learns what a client can do when a session begins, so each set of capabilities has its own, opened when it is
// first needed:
//
//	no capabilities            the endpoint's first session, as many calls at once as there may be
//	the transport ties what    one session for each set, as many calls at once as there may be
//	  is said to calls           (Streamable HTTP, until the server asks on another stream than the call's, or on one
//	                             that was taken up again: which is refused, unless the session never had another call)
//	it does not                up to maxAlike sessions for each set, one call at a time on each
//
// Where calls take turns, what the server asks or logs can only be for the one call in flight. A session on which a call
// was given up is closed after it, and before the next call the server must have answered a ping: what it still had to
// say about the last call is out by then, and was refused. Where no session can be had, calls go to the first one, whose
// server was told of no capabilities. One caller holds at most maxHeld of the sessions on which calls take turns.
type asides struct {
	endpoint *endpoint
	first    *Session
	ctx      context.Context //nolint:containedctx // ends with the first session
	end      context.CancelFunc
	work     sync.WaitGroup

	mu     sync.Mutex // guards what follows
	all    []*aside
	closed bool
	// turns says that calls take turns.
	turns bool
	// wanted is how many calls wait for a session of a set.
	wanted map[string]int
	// failed is when a session for a set could last not be opened.
	failed map[string]time.Time
	// news is closed, and another made, when a call that waits may find a session.
	news chan struct{}
}

// aside is one session of [asides]. Their lock guards it.
type aside struct {
	set     string
	session *Session // nil until it is open
	calls   int
	caller  string // of the one call, where there are turns
	// turns says that it takes one call at a time.
	turns bool
	end   context.CancelFunc
	idle  *time.Timer
}

func newAsides(ctx context.Context, e *endpoint, first *Session) *asides {
	ctx, end := context.WithCancel(ctx)
	return &asides{
		endpoint: e, first: first, ctx: ctx, end: end,
		turns: !first.transport.ties(), wanted: map[string]int{}, failed: map[string]time.Time{}, news: make(chan struct{}),
	}
}

// close ends all sessions and waits until they have ended.
func (a *asides) close() {
	a.mu.Lock()
	a.closed = true
	a.tell()
	a.mu.Unlock()
	a.end()
	a.work.Wait()
}

// tell lets those look again who wait for a session. Called with the lock.
func (a *asides) tell() {
	close(a.news)
	a.news = make(chan struct{})
}

// call makes a call on the session that its client needs. One that turns out to be lost is replaced once.
func (a *asides) call(ctx context.Context, k *call) error {
	if set, ok := a.set(k.client); ok {
		return a.callOn(ctx, set, k)
	}
	return k.on(ctx, a.first)
}

// callOn makes a call on a session of a set.
func (a *asides) callOn(ctx context.Context, set string, k *call) error {
	for range 2 {
		one, err := a.acquire(ctx, set, k.client.Caller)
		if err != nil {
			return err
		}
		if one == nil {
			return k.on(ctx, a.first)
		}
		err = k.on(ctx, one.session)
		lost := errors.Is(err, errSessionLost)
		a.release(one, lost)
		if !lost || answerBegun(err) {
			return err
		}
	}
	return errFresh
}

// set returns what a client declares to a server that has to know it when a session begins. Ok is false where the first
// session will do.
func (a *asides) set(client *Client) (set string, ok bool) {
	declared := wire.Object{}
	if client.Ask != nil && !wire.Modern(a.first.Revision) {
		declared = declare(client.Capabilities, a.first.Revision)
	}
	logs := client.LogLevel != "" && client.Tell != nil && !a.first.transport.ties()
	if len(declared) == 0 && !logs {
		return "", false
	}
	return string(declared.JSON()), true
}

// acquire returns a session for a set, to be released, as soon as there is one. It returns nil where there is none to be had.
func (a *asides) acquire(ctx context.Context, set, caller string) (*aside, error) {
	half := time.NewTimer(left(ctx) / 2)
	defer half.Stop()
	a.want(set, 1)
	defer a.want(set, -1)
	for {
		one, opening, news := a.take(set, caller)
		if one != nil || news == nil {
			return one, nil
		}
		late := half.C
		if !opening {
			late = nil // it is there, but busy
		}
		select {
		case <-news:
		case <-late:
			return nil, nil
		case <-ctx.Done():
			return nil, unavailable(a.endpoint.upstream.Name, Overloaded, 0, errTurns)
		}
	}
}

// want counts the calls that wait for a session of a set.
func (a *asides) want(set string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted[set] += n; a.wanted[set] == 0 {
		delete(a.wanted, set)
	}
}

// take returns a session that is free, or begins to open one. News is closed when it is worth another try; nil where it
// never will be.
func (a *asides) take(set, caller string) (free *aside, opening bool, news <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held(set, caller) >= maxHeld {
		return nil, false, a.news
	}
	alike, begun := 0, 0
	for _, one := range a.all {
		switch {
		case one.set != set || one.turns != a.turns:
		case one.session == nil:
			alike++
			begun++
		case one.turns && one.calls > 0:
			alike++
		default:
			one.calls++
			one.caller = caller
			if one.idle != nil {
				one.idle.Stop()
			}
			return one, false, nil
		}
	}
	if a.closed || time.Since(a.failed[set]) < asideRetry {
		return nil, false, nil
	}
	if (alike == 0 || (a.turns && alike < maxAlike && begun < a.wanted[set])) && a.makeRoom() {
		a.open(set)
		alike++
		begun++
	}
	if alike == 0 {
		return nil, false, nil
	}
	return nil, begun > 0, a.news
}

// held returns how many sessions of a set a caller holds of those on which calls take turns. Called with the lock.
func (a *asides) held(set, caller string) (n int) {
	for _, one := range a.all {
		if caller != "" && one.turns && one.calls > 0 && one.set == set && one.caller == caller {
			n++
		}
	}
	return n
}

// makeRoom reports whether there may be one more session, for which it closes one that nobody uses. Called with the
// lock.
func (a *asides) makeRoom() bool {
	if len(a.all) < maxAsides {
		return true
	}
	unused := slices.IndexFunc(a.all, func(one *aside) bool { return one.session != nil && one.calls == 0 })
	if unused < 0 {
		return false
	}
	a.drop(a.all[unused])
	return true
}

// drop ends a session, in the background. Called with the lock.
func (a *asides) drop(one *aside) {
	a.all = slices.DeleteFunc(a.all, func(other *aside) bool { return other == one })
	if one.idle != nil {
		one.idle.Stop()
	}
	one.end()
	a.tell()
}

// open begins a session, in the background. Called with the lock.
func (a *asides) open(set string) {
	ctx, end := context.WithCancel(a.ctx)
	one := &aside{set: set, turns: a.turns, end: end}
	a.all = append(a.all, one)
	a.work.Go(func() {
		defer end()
		err := a.keep(ctx, one)
		a.mu.Lock()
		defer a.mu.Unlock()
		if one.session == nil && ctx.Err() == nil {
			a.endpoint.logger.WarnContext(ctx, "no session for clients that can be asked for input", slog.Any("error", err))
			maps.DeleteFunc(a.failed, func(_ string, at time.Time) bool { return time.Since(at) > asideRetry })
			a.failed[set] = time.Now()
		}
		a.drop(one)
	})
}

// keep opens a session and listens to it until ctx ends or it breaks.
func (a *asides) keep(ctx context.Context, one *aside) error {
	opts := a.endpoint.opts
	opts.aside, opts.turns, opts.onStray = true, one.turns, a.takeTurns
	opts.declared, _ = wire.ParseObject(jsontext.Value(one.set))
	session, err := Connect(ctx, a.first.reached, opts, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	ready := sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		one.session = session
		a.rest(one)
	})
	late := time.AfterFunc(readyBound, ready)
	defer late.Stop()
	for pause := newPause(); ; {
		err := session.transport.standalone(ctx, ready)
		ready()
		switch {
		case ctx.Err() != nil, errors.Is(err, errSessionLost), errors.Is(err, errExited):
			return err
		case errors.Is(err, errNoStream):
			select {
			case <-session.transport.broken():
				return session.transport.brokenBy()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := sleep(ctx, pause.NextBackOff()); err != nil {
			return err
		}
	}
}

// takeTurns makes calls take turns from now on, because the server asks without saying in which call.
func (a *asides) takeTurns() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turns {
		return
	}
	a.turns = true
	for _, one := range slices.Clone(a.all) {
		if one.session != nil && one.calls == 0 {
			a.drop(one)
		}
	}
}

// rest makes a session one that nobody uses. Called with the lock.
func (a *asides) rest(one *aside) {
	one.calls, one.caller = 0, ""
	one.idle = time.AfterFunc(asideIdle, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if one.calls == 0 {
			a.drop(one)
		}
	})
	a.tell()
}

// release gives a session back after a call.
func (a *asides) release(one *aside, lost bool) {
	abandoned := one.session.hasAbandoned()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case lost, one.turns && abandoned:
		a.drop(one)
	case !one.turns:
		if one.calls--; one.calls > 0 {
			return
		}
		if a.turns {
			a.drop(one)
			return
		}
		a.rest(one)
	case a.closed:
	default: // it is in use until the server has shown that it is done with the call
		a.work.Go(func() {
			err := one.session.alive(a.ctx)
			a.mu.Lock()
			defer a.mu.Unlock()
			if err != nil {
				a.drop(one)
				return
			}
			a.rest(one)
		})
	}
}

func (s *Session) hasAbandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned
}
