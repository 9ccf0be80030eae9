package health

import (
	"slices"
	"time"
)

// Breaker is the state of a circuit breaker.
type Breaker int

// The states of a breaker; the package's description has what each means.
const (
	Closed Breaker = iota
	HalfOpen
	Open
)

// String returns the state as logs and metrics show it.
func (b Breaker) String() string { return [...]string{"closed", "half-open", "open"}[b] }

// maxProbes is how many calls a half-open breaker lets through at a time, of as many callers: with
// one, a caller whose calls hang, or who gives them up, would keep all others from probing.
const maxProbes = 2

// breaker is the circuit breaker of a session.
type breaker struct {
	state Breaker
	// period counts changes of state. An attempt that began in another one does not count.
	period int
	// since is when it opened or, while it is half-open, when an attempt failed last.
	since  time.Time
	row    failures
	probes []string // the callers that have a call at the server while it is half-open
}

// change puts the breaker into a state.
func (b *breaker) change(state Breaker) {
	*b = breaker{state: state, period: b.period + 1, since: b.since}
	if state == Open {
		b.since = time.Now()
	}
}

// admit reports whether a call of a caller is made, or else after which time one may be.
func (b *breaker) admit(caller Caller, cooldown time.Duration) (retryAfter time.Duration, ok bool) {
	if b.state == Closed {
		return 0, true
	}
	key, rest := keyOf(caller), time.Until(b.since.Add(cooldown))
	switch {
	case b.state == Open, rest > 0 && b.row.count > 0 && b.row.only == key:
		return rest, false
	case len(b.probes) == maxProbes || slices.Contains(b.probes, key):
		return 0, false
	}
	b.probes = append(b.probes, key)
	return 0, true
}

// end notes how an attempt of this period ended, and returns the state that follows.
func (b *breaker) end(caller Caller, v Verdict, most int, silent bool) Breaker {
	key := keyOf(caller)
	b.probes = slices.DeleteFunc(b.probes, func(prober string) bool { return prober == key })
	switch v {
	case Excused:
		return b.state
	case Unanswered:
	default: // that it refuses, or lost the session, shows that it works
		b.row = failures{}
		return Closed
	}
	b.row.add(caller, key)
	if (b.state == HalfOpen || b.row.count >= most) && (b.row.several || silent) {
		return Open
	}
	if b.state == HalfOpen {
		b.since = time.Now()
	}
	return b.state
}

// failures are those in a row.
type failures struct {
	count int
	// only is the caller that had all of them, unless several had.
	only    string
	several bool
}

// add adds the failure of a caller. Of a nil caller nothing is known: it may be anybody.
func (f *failures) add(caller Caller, key string) {
	f.several = f.several || caller == nil || f.count > 0 && f.only != key
	f.only = key
	f.count++
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
func (r *record) trouble(breaker Breaker) *Trouble {
	suspended := breaker != Closed
	if !suspended && r.gets < manyFailed {
		return nil
	}
	t := &Trouble{Failure: r.last, Suspended: suspended, Since: time.Now()}
	if r.gets > 0 {
		t.Since = r.began
	}
	return t
}
