package health

import (
	"errors"
	"slices"
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
	// Get says that it was a get. Only gets make a server Failing: a server may have no
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
	server *Server
	caller Caller
	// session and breaker are those with which it began.
	session int
	breaker *breaker
	done    func(error) // tells gobreaker
}

// Begin begins an attempt for a caller, nil for one of whom nothing is known, unless the breaker
// refuses it: the error is then a [*SuspendedError]. [Attempt.End] must be called.
func (e *Server) Begin(caller Caller) (Attempt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	done, err := e.allowLocked(caller)
	if err != nil {
		return Attempt{}, err
	}
	return Attempt{server: e, caller: caller, session: e.session, breaker: e.breaker, done: done}, nil
}

// Asks notes that the server asks its client: it works, whatever becomes of the call. A breaker
// that is half-open closes now, since a reply may take minutes.
func (a Attempt) Asks() {
	e := a.server
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked(a, Answered)
}

// End notes how the attempt ended.
func (a Attempt) End(o Outcome) {
	e := a.server
	// The breaker is not told either: while it is closed, and no failures are counted, neither
	// changes anything.
	if (o.Verdict == Answered || o.Verdict == Excused) && !e.unwell.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	isPresent := a.session == e.session // else the server may be another one by now
	if o.Suspicious && isPresent {
		e.Suspect.Set()
	}
	switch o.Verdict {
	case Answered:
		if now := time.Now(); e.denied && now.Sub(e.relisted) >= relistPause {
			e.relisted = now
			e.Relist.Set()
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
func (e *Server) Unsent(get bool, f Failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.link != Down || e.forgotten {
		e.failLocked(get, f)
	}
}

// failLocked notes a failure that is the server's.
func (e *Server) failLocked(get bool, f Failure) {
	e.record.fail(get, f)
	e.setUnwellLocked()
	if get && time.Since(e.changed) >= stableTime { // a failed completion only matters to the breaker
		e.assessLocked()
	}
}

// maxProbes is how many calls a half-open breaker lets through at a time, of as many callers: with
// one, a caller whose calls hang, or who gives them up, would keep all others from probing.
const maxProbes = 2

// breaker is the circuit breaker of a session in one of its states, with what gobreaker does not
// know. Another state is another breaker, for which attempts that began in this one do not count.
type breaker struct {
	// circuit is called with the server's lock held, and so are its callbacks.
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
func (e *Server) resetBreakerLocked() (news bool) {
	circuit := gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: maxProbes,
		// gobreaker is open for longer than its timeout, which must not be 0.
		Timeout: max(e.settings.Cooldown-1, 1),
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			// Else the failures in a row may be one caller's, rather than the server's.
			return int64(counts.ConsecutiveFailures) >= int64(e.settings.Failures) && e.breaker.several
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errExcused) },
		// gobreaker holds its lock here: nothing beneath may ask the circuit for its state.
		OnStateChange: func(_ string, _, to gobreaker.State) {
			e.changeBreakerLocked(to, e.breaker.circuit)
		},
	})
	return e.changeBreakerLocked(gobreaker.StateClosed, circuit)
}

// allowLocked returns the function that tells gobreaker how a call of a caller ended, or a
// [*SuspendedError] if it is not made.
func (e *Server) allowLocked(caller Caller) (done func(error), err error) {
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
func (e *Server) restLocked() time.Duration {
	return time.Until(e.breaker.since.Add(e.settings.Cooldown))
}

// endLocked tells the breaker how an attempt ended, if it began in this state.
func (e *Server) endLocked(a Attempt, v Verdict) {
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
		if b.state == gobreaker.StateHalfOpen && !b.several {
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

// record is what calls have shown of a server beside the breaker. The zero value is that of a
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
