package call

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/session"
)

const (
	// manyFailed is the number of failed gets in a row that is published as a [session.Problem].
	manyFailed = 5
	// stableTime is the minimum time between a change of the published problem and a further change
	// by failed gets, so that a server cannot cause frequent changes. A get that works ends the
	// problem at once.
	stableTime = time.Second
	// maxProbes bounds the calls that a half-open breaker lets through at a time, one for each
	// caller. A single probe that hangs or is cancelled would keep all other callers from probing.
	maxProbes = 2
)

// breaker refuses calls to a server that does not answer, and publishes why calls fail. It counts
// consecutive requests without an answer. Package gobreaker implements the state, the cool-down and
// the counts. The breaker itself records which callers had the failures and which callers probe:
//
//	closed     opens after the configured number of unanswered requests in a row, if they
//	           are from several callers (a nil caller counts as several)
//	open       is half-open once a call begins after the cool-down
//	half-open  allows two callers one call each at a time. The first answer closes it. A request
//	           without an answer suspends its caller for another cool-down. After unanswered requests
//	           of two callers, it opens again
//
// So a single caller with a key cannot lock other callers out by calls that fail, hang or are
// cancelled.
//
// In addition, five failed gets in a row are published as a [session.Problem]. A new session has a
// closed breaker. The count of failed gets is reset by a get that works, and by [session.Down],
// because the next session may be with another server.
type breaker struct {
	upstream *config.Upstream
	server   *session.Server
	// unwell is true while an answer could change the state. It is usually false, and answers then
	// take no lock.
	unwell atomic.Bool

	mu sync.Mutex // guards the fields below
	// session counts the changes of link. Failures of requests that began before the last change
	// are ignored.
	session int
	link    session.Link
	circuit *circuit
	// gets is the number of failed gets in a row, and began is the time of the first of them. last
	// is the last failure of any call.
	gets  int
	began time.Time
	last  session.Problem
	// trouble is the published problem, or nil if there is no problem. changed is the time of the
	// last change of trouble.
	trouble *session.Problem
	changed time.Time
}

// circuit is one state of the breaker, with the data that gobreaker does not store. Each change of
// state makes a new circuit. Requests that began in an earlier circuit do not count.
type circuit struct {
	// The breaker holds its lock when it calls steps, and so during the callbacks of steps.
	steps *gobreaker.TwoStepCircuitBreaker[struct{}]
	state gobreaker.State
	// since is the start of the state or, while it is half-open, the time of the last failure.
	since time.Time
	// failed is true after a failure, until a call works. only is the key of the caller with the
	// last failure. several is true if more than one caller had failures, or a caller without a key.
	failed, several bool
	only            string
	probes          []string // in the half-open state, the callers with a call in flight
}

// permit is the breaker's permission for one request. Call [permit.end] when the request has ended.
type permit struct {
	breaker *breaker
	caller  Caller
	// session and circuit are the breaker's values when the request began.
	session int
	circuit *circuit
	done    func(error) // reports the result to gobreaker
}

// newBreaker returns the closed breaker of a server without a session yet.
func newBreaker(u *config.Upstream, server *session.Server) *breaker {
	b := &breaker{upstream: u, server: server, link: session.Down, circuit: new(circuit)}
	b.closeLocked()
	server.OnLink = b.setLink
	return b
}

// begin allows a request of a caller, or returns an error with reason breaker_open. caller may be
// nil. Call [permit.end] after an allowed request.
func (b *breaker) begin(caller Caller) (permit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done, retryAfter := b.allowLocked(caller)
	if done == nil {
		return permit{}, unavailable(b.upstream.Name, session.BreakerOpen, retryAfter, &session.Unsent{Why: errSuspended})
	}
	return permit{breaker: b, caller: caller, session: b.session, circuit: b.circuit, done: done}, nil
}

// asks records that the server has sent a request for its client, which shows that the server
// works. A half-open breaker closes at once, without waiting for the reply, which may take minutes.
func (p permit) asks() {
	p.breaker.mu.Lock()
	defer p.breaker.mu.Unlock()
	p.endLocked(outcomeOf(nil))
}

// end records how the request ended.
func (p permit) end(o outcome, isGet bool) {
	b := p.breaker
	if o.gets == works {
		b.server.RelistIfDenied()
	}
	// Skip the lock: while the circuit is closed and no failures are counted, only a failure
	// changes its state.
	if o.gets != fails && !b.unwell.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case o.gets == works && isGet && b.gets > 0:
		b.gets = 0
		b.assessLocked()
	case o.gets == fails && p.session == b.session: // after a change of link, another server may have failed
		if o.Suspicious {
			b.server.Suspect.Set()
		}
		b.failLocked(o, isGet)
	}
	p.endLocked(o) // after failLocked, so that the failure that opens the breaker is published as the cause
}

// endLocked reports the end of a request to the circuit, unless the circuit has changed since the
// request began.
func (p permit) endLocked(o outcome) {
	b, c := p.breaker, p.breaker.circuit
	defer b.setUnwellLocked()
	if p.session != b.session || p.circuit != c {
		return
	}
	key := keyOf(p.caller)
	c.probes = slices.DeleteFunc(c.probes, func(prober string) bool { return prober == key })
	switch o.breaker {
	case nothing:
		p.done(errExcused)
	case fails:
		// A nil caller counts as several.
		c.several = c.several || p.caller == nil || c.failed && c.only != key
		c.failed, c.only = true, key
		if c.state == gobreaker.StateHalfOpen && !c.several {
			c.since = time.Now()
			p.done(errExcused) // gobreaker would open, but this failure suspends only its caller
			return
		}
		p.done(errUnanswered)
	case works:
		c.failed, c.several = false, false
		for range maxProbes { // gobreaker closes after maxProbes answers, but one answer is enough
			p.done(nil)
		}
	}
}

// unsent records a call that was not sent. It changes nothing while the server is down.
func (b *breaker) unsent(o outcome, isGet bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link != session.Down {
		b.failLocked(o, isGet)
	}
}

// failLocked records a failure of the server. Only failed gets are counted, because completions
// also fail if the server does not support them.
func (b *breaker) failLocked(o outcome, isGet bool) {
	b.last = session.Problem{Reason: o.Reason, Err: o.err, Failing: true}
	if unavailable, ok := errors.AsType[*Unavailable](o.err); ok {
		b.last.Err = unavailable.Err
	}
	if !isGet {
		return
	}
	if b.gets++; b.gets == 1 {
		b.began = time.Now()
	}
	b.setUnwellLocked()
	if time.Since(b.changed) >= stableTime {
		b.assessLocked()
	}
}

// setLink records that a session began or ended.
func (b *breaker) setLink(link session.Link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.setUnwellLocked()
	b.session++
	b.link = link
	switch link {
	case session.Up:
		b.closeLocked()
	case session.Down:
		b.gets = 0
		// If closeLocked changed the state, it has also called assessLocked.
		if !b.closeLocked() {
			b.assessLocked()
		}
	}
}

// The errors with which permit.done tells gobreaker how a request ended. A nil error means that the
// server answered.
var errUnanswered, errExcused = errors.New("unanswered"), errors.New("excused")

// closeLocked makes a new, closed circuit, and reports whether the state has changed.
func (b *breaker) closeLocked() (changed bool) {
	steps := gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: maxProbes,
		// gobreaker stays open until more than its timeout has passed. The timeout must not be 0.
		Timeout: max(b.upstream.Breaker.Cooldown-1, 1),
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			// Do not open if all failures in a row are from a single caller, who may have caused
			// them.
			return int64(counts.ConsecutiveFailures) >= int64(b.upstream.Breaker.Failures) && b.circuit.several
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errExcused) },
		// gobreaker holds its lock during the callback, so changeLocked must not call gobreaker.
		OnStateChange: func(_ string, _, to gobreaker.State) { b.changeLocked(to, b.circuit.steps) },
	})
	return b.changeLocked(gobreaker.StateClosed, steps)
}

// changeLocked starts a new circuit in the given state. It publishes a changed state, and reports whether
// the state has changed.
func (b *breaker) changeLocked(state gobreaker.State, steps *gobreaker.TwoStepCircuitBreaker[struct{}]) (changed bool) {
	before := b.circuit.state
	b.circuit = &circuit{steps: steps, state: state, since: time.Now()}
	if state == before {
		return false
	}
	if !b.assessLocked() {
		b.server.PublishCalls(b.trouble, state)
	}
	return true
}

// allowLocked returns a function that reports the end of a request to gobreaker. If it refuses the
// request, it returns nil and the time after which the next request may be allowed, or 0 if that
// time cannot be determined.
func (b *breaker) allowLocked(caller Caller) (done func(error), retryAfter time.Duration) {
	c := b.circuit
	if c.state == gobreaker.StateHalfOpen { // make the key only in this state, because that takes time
		key := keyOf(caller)
		if rest := b.restLocked(); rest > 0 && c.failed && c.only == key {
			return nil, rest
		}
		if slices.Contains(c.probes, key) {
			return nil, 0
		}
	}
	done, err := c.steps.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		return nil, b.restLocked()
	case err != nil: // maxProbes calls are in flight
		return nil, 0
	}
	if c = b.circuit; c.state == gobreaker.StateHalfOpen { // Allow may have changed the state
		c.probes = append(c.probes, keyOf(caller))
	}
	return done, 0
}

// restLocked returns the remaining cool-down. It is zero or negative once the cool-down is over.
func (b *breaker) restLocked() time.Duration {
	return time.Until(b.circuit.since.Add(b.upstream.Breaker.Cooldown))
}

// assessLocked publishes the problem of calls if it has changed, and reports whether it has.
func (b *breaker) assessLocked() (changed bool) {
	var next *session.Problem
	if suspended := b.circuit.state != gobreaker.StateClosed; suspended || b.gets >= manyFailed {
		trouble := b.last
		if trouble.Since = time.Now(); b.gets > 0 {
			trouble.Since = b.began
		}
		if suspended {
			trouble.Reason = session.BreakerOpen
		}
		next = &trouble
	}
	switch before := b.trouble; {
	case next == nil && before == nil:
		return false
	case next == nil, before == nil:
	case before.HasCause(next.Reason, next.Err):
		return false
	default:
		next.Since = before.Since
	}
	b.trouble, b.changed = next, time.Now()
	b.server.PublishCalls(next, b.circuit.state)
	return true
}

func (b *breaker) setUnwellLocked() {
	b.unwell.Store(b.circuit.state != gobreaker.StateClosed || b.circuit.failed || b.gets > 0)
}
