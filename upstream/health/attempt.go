package health

import (
	"cmp"
	"slices"
	"sync"
	"time"
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
	// RetryAfter is when it may; 0 if that is not known.
	RetryAfter time.Duration
}

func (e *SuspendedError) Error() string { return "the circuit breaker is open" }

// Attempt is one attempt of a call.
type Attempt struct {
	endpoint *Endpoint
	caller   Caller
	// session and breaker are those with which it began.
	session int
	breaker *breaker
	done    func(error) // tells gobreaker
	sent    bool
}

// Begin begins an attempt for a caller, nil for one of whom nothing is known, unless the breaker
// refuses it: the error is then a [*SuspendedError]. [Attempt.End] must be called.
func (e *Endpoint) Begin(caller Caller) (Attempt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	done, err := e.allowLocked(caller)
	if err != nil {
		return Attempt{}, err
	}
	return Attempt{endpoint: e, caller: caller, session: e.session, breaker: e.breaker, done: done}, nil
}

// Send notes that the request is sent.
func (a *Attempt) Send() {
	a.sent = true
	a.endpoint.inFlight.Add(1)
}

// Asks notes that the server asks its client: it works, whatever becomes of the call. A breaker
// that is half-open closes now, since a reply may take minutes.
func (a Attempt) Asks() {
	e := a.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked(a, Answered)
}

// End notes how the attempt ended.
func (a Attempt) End(o Outcome) {
	e := a.endpoint
	if a.sent {
		e.inFlight.Add(-1)
	}
	if (o.Verdict == Answered || o.Verdict == Excused) && !e.unwell.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	isPresent := a.session == e.session // else the server may be another one by now
	if o.Suspicious && isPresent {
		mark(e.suspect)
	}
	switch o.Verdict {
	case Answered:
		if now := time.Now(); e.denied && now.Sub(e.relisted) >= relistPause {
			e.relisted = now
			mark(e.relist)
		}
		if o.Get && e.record.gets > 0 {
			e.record.gets = 0
			e.assessLocked()
		}
	case Refused, Unanswered:
		if isPresent {
			e.failLocked(o.Get, o.Failure)
		}
	case Lost, Excused: // the caller makes the attempt again, or has left
	}
	e.endLocked(a, o.Verdict) // only now: what opens the breaker is shown as its reason
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

// failLocked notes a failure that is the endpoint's.
func (e *Endpoint) failLocked(get bool, f Failure) {
	e.record.fail(get, f)
	e.setUnwellLocked()
	if get && time.Since(e.changed) >= stableTime { // a failed completion only matters to the breaker
		e.assessLocked()
	}
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
