package health

import (
	"errors"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
)

// maxProbes is how many calls a half-open breaker lets through at a time, of as many callers: with
// one, a caller whose calls hang, or who gives them up, would keep all others from probing.
const maxProbes = 2

// breaker is the circuit breaker of a session in one of its states, with what gobreaker does not
// know. Another state is another breaker, for which attempts that began in this one do not count.
type breaker struct {
	// circuit is called with the endpoint's lock held, and so are its callbacks.
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	state   gobreaker.State
	// since is when the state began or, while it is half-open, when an attempt failed last.
	since time.Time
	// failed says that there are failures in a row, and only is the caller that had all of them,
	// unless several had.
	failed, several bool
	only            string
	probes          []string // the callers that have a call at the server while it is half-open
}

// What gobreaker is told of an attempt; a nil error is an answer.
var errUnanswered, errExcused = errors.New("unanswered"), errors.New("excused")

// resetBreakerLocked makes a new, closed breaker, and reports whether the last one was not closed.
func (e *Endpoint) resetBreakerLocked() (news bool) {
	circuit := gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: maxProbes,
		// gobreaker is open for longer than its timeout, which must not be 0.
		Timeout: max(e.settings.Cooldown-1, 1),
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return int64(counts.ConsecutiveFailures) >= int64(e.settings.Failures) && e.mayOpenLocked()
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errExcused) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			e.changeBreakerLocked(to, e.breaker.circuit)
		},
	})
	return e.changeBreakerLocked(gobreaker.StateClosed, circuit)
}

// mayOpenLocked reports whether the failures in a row are the server's, rather than one caller's.
func (e *Endpoint) mayOpenLocked() bool { return e.breaker.several || e.silent }

// allowLocked returns the function that tells gobreaker how a call of a caller ended, or a
// [*SuspendedError] if it is not made.
func (e *Endpoint) allowLocked(caller Caller) (done func(error), err error) {
	b := e.breaker
	if b.state == gobreaker.StateHalfOpen { // a key is made for few calls
		key := keyOf(caller)
		if rest := e.restLocked(); rest > 0 && b.failed && b.only == key {
			return nil, &SuspendedError{rest}
		}
		if slices.Contains(b.probes, key) {
			return nil, &SuspendedError{}
		}
	}
	done, err = b.circuit.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		return nil, &SuspendedError{e.restLocked()}
	case err != nil: // as many probe as may
		return nil, &SuspendedError{}
	}
	if b = e.breaker; b.state == gobreaker.StateHalfOpen { // perhaps only since Allow
		b.probes = append(b.probes, keyOf(caller))
	}
	return done, nil
}

// restLocked returns how long the cool-down still takes.
func (e *Endpoint) restLocked() time.Duration {
	return time.Until(e.breaker.since.Add(e.settings.Cooldown))
}

// endLocked tells the breaker how an attempt ended, if it began in this state.
func (e *Endpoint) endLocked(a Attempt, v Verdict) {
	defer e.setUnwellLocked()
	b := e.breaker
	if a.session != e.session || a.breaker != b {
		return
	}
	key := keyOf(a.caller)
	b.probes = slices.DeleteFunc(b.probes, func(prober string) bool { return prober == key })
	switch v {
	case Excused:
		a.done(errExcused)
	case Unanswered:
		// Of a nil caller nothing is known: it may be anybody.
		b.several = b.several || a.caller == nil || b.failed && b.only != key
		b.failed, b.only = true, key
		if b.state == gobreaker.StateHalfOpen && !e.mayOpenLocked() {
			b.since = time.Now()
			a.done(errExcused) // any failure would open it; this one concerns its caller only
			return
		}
		a.done(errUnanswered)
	default: // that it refuses, or lost the session, shows that it works
		b.failed, b.several = false, false
		for range maxProbes { // gobreaker closes after so many, and one answer is enough
			a.done(nil)
		}
	}
}

func keyOf(caller Caller) string {
	if caller == nil {
		return ""
	}
	return caller.Key()
}

// record is what calls have shown of an endpoint beside the breaker. The zero value is that of a
// server that answers.
type record struct {
	// gets have failed in a row, the first of them at began.
	gets  int
	began time.Time
	// last is how the last call failed.
	last Failure
}

// fail notes a failure. Only gets are counted.
func (r *record) fail(get bool, f Failure) {
	r.last = f
	if !get {
		return
	}
	if r.gets++; r.gets == 1 {
		r.began = time.Now()
	}
}

// trouble returns what is wrong with the breaker in a state, or nil.
func (r *record) trouble(breaker gobreaker.State) *Trouble {
	suspended := breaker != gobreaker.StateClosed
	if !suspended && r.gets < manyFailed {
		return nil
	}
	t := &Trouble{Failure: r.last, Suspended: suspended, Since: time.Now()}
	if r.gets > 0 {
		t.Since = r.began
	}
	return t
}
