package health

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Verdict is what the end of an attempt says about the server.
type Verdict int

// The verdicts; the package's description has the effect of each.
const (
	Answered   Verdict = iota // with a result, or with an error of its own
	Refused                   // completely, but not so that a client can use it: HTTP 401, say
	Unanswered                // not, or not completely, and that is the server's fault
	Lost                      // it forgot the session
	Excused                   // nothing
)

// Outcome is how an attempt ended.
type Outcome struct {
	Verdict Verdict
	// Get says that it was a get. Only gets make an endpoint Failing: a server may have no
	// completions.
	Get bool
	// Suspicious says that the server should be checked.
	Suspicious bool
	// Failure is set of an attempt that was Refused or Unanswered.
	Failure Failure
}

// Caller identifies a caller by a key.
type Caller interface{ Key() string }

// SuspendedError means that the circuit breaker lets no call through.
type SuspendedError struct {
	error

	// RetryAfter is when it will.
	RetryAfter time.Duration
}

// Unwrap returns the breaker's error.
func (e *SuspendedError) Unwrap() error { return e.error }

// Attempt is one attempt of a call.
type Attempt struct {
	endpoint *Endpoint
	session  int
	caller   Caller
	tell     func(error) // the breaker's
	told     atomic.Bool // the breaker
	sent     bool
}

// What the breaker is told of an attempt; a nil error is an answer.
var errUnanswered, errExcused = errors.New("unanswered"), errors.New("excused")

// Begin begins an attempt for a caller, nil for one of whom nothing is known, unless the breaker is
// open: the error is then a [*SuspendedError]. [Attempt.End] must be called.
func (e *Endpoint) Begin(caller Caller) (*Attempt, error) {
	e.mu.Lock()
	breaker, session := e.breaker, e.session
	e.mu.Unlock()
	if breaker == nil { // a call that has a session did not wait for Up
		return nil, &SuspendedError{gobreaker.ErrOpenState, 0}
	}
	tell, err := breaker.Allow()
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		return nil, &SuspendedError{err, time.Until(e.opened.Add(e.settings.Cooldown))}
	}
	return &Attempt{endpoint: e, session: session, caller: caller, tell: tell}, nil
}

// Send notes that the request is sent.
func (a *Attempt) Send() {
	a.sent = true
	a.endpoint.inFlight.Add(1)
}

// Asks notes that the server asks its client: it works, whatever becomes of the call. A breaker that is half-open waits no
// longer for this attempt, since a person may take minutes to reply.
func (a *Attempt) Asks() { a.report(nil) }

func (a *Attempt) report(err error) {
	if !a.told.Swap(true) {
		a.tell(err)
	}
}

// End notes how the attempt ended.
func (a *Attempt) End(o Outcome) {
	if a.sent {
		a.endpoint.inFlight.Add(-1)
	}
	a.endpoint.note(a, o) // before the breaker, which may open by it
	switch o.Verdict {
	case Unanswered:
		a.report(errUnanswered)
	case Excused:
		a.report(errExcused)
	default: // that it refuses, or lost the session, shows that it works
		a.report(nil)
	}
}

// Unsent notes that a call was not sent although there was, or will soon be, a session. Of a server
// that is down that is no news.
func (e *Endpoint) Unsent(get bool, f Failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.link != Down || e.forgotten {
		e.failLocked(get, f)
	}
}

// note notes how an attempt ended.
func (e *Endpoint) note(a *Attempt, o Outcome) {
	if o.Verdict == Excused || (o.Verdict == Answered && !e.unwell.Load()) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	stale := a.session != e.session
	if o.Suspicious && !stale {
		mark(e.suspect)
	}
	switch {
	case stale:
	case o.Verdict == Unanswered:
		e.record.callers.add(a.caller)
	default:
		e.record.callers = callers{}
	}
	switch {
	case o.Verdict == Lost: // the caller makes the attempt again
	case o.Verdict != Answered:
		if !stale { // the server may be another one by now
			e.failLocked(o.Get, o.Failure)
		}
	default:
		if now := time.Now(); e.denied && now.Sub(e.relisted) >= relistPause {
			e.relisted = now
			mark(e.relist)
		}
		if o.Get && e.record.gets > 0 {
			e.record.gets = 0
			e.assessLocked()
		}
	}
	e.setUnwellLocked()
}

// failLocked notes a failure that is the endpoint's.
func (e *Endpoint) failLocked(get bool, f Failure) {
	e.record.fail(get, f)
	e.setUnwellLocked()
	if get && time.Since(e.changed) >= stableTime { // a failed completion only matters to the breaker
		e.assessLocked()
	}
}

// newBreaker returns the closed breaker of a session.
func (e *Endpoint) newBreaker(session int) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: e.settings.Cooldown,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			if int64(counts.ConsecutiveFailures) < int64(e.settings.Failures) {
				return false
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.record.callers.several || e.silent
		},
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return err == errExcused }, //nolint:errorlint // the value itself
		OnStateChange: func(_ string, from, to gobreaker.State) {
			e.mu.Lock()
			last := e.record.last.Err
			e.mu.Unlock()
			e.settings.OnBreaker(from, to, last)
			e.mu.Lock()
			defer e.mu.Unlock()
			if session != e.session {
				return
			}
			if to == gobreaker.StateOpen {
				e.opened = time.Now()
			}
			e.setBreakerLocked(to)
		},
	})
}

// Balance orders the endpoints of one upstream: the one with the fewest calls in flight comes first
// and, of those with as many, the one that came first the longest time ago. So endpoints that are
// equally fast share the calls evenly, a slower one gets fewer, and one that hangs no more than the
// others have in flight. Its zero value is ready for use.
type Balance struct {
	mu    sync.Mutex // so that each order sees the last one's pick
	picks uint64
}

// Order returns endpoints, best first: those that are ready, ordered, and then the others. There
// must be one. Health returns that of an endpoint.
func Order[E any](b *Balance, ready, others []E, health func(E) *Endpoint) []E {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Stable, so that the configured order counts among endpoints that had no call yet.
	slices.SortStableFunc(ready, func(first, second E) int {
		x, y := health(first), health(second)
		return cmp.Or(
			cmp.Compare(x.inFlight.Load(), y.inFlight.Load()), cmp.Compare(x.picked.Load(), y.picked.Load()))
	})
	ordered := append(ready, others...)
	b.picks++
	health(ordered[0]).picked.Store(b.picks)
	return ordered
}
