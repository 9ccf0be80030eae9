package call

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxWaiting bounds the calls that wait for a slot of one upstream.
const maxWaiting = 1024

// Caller identifies a caller by a key.
type Caller interface{ Key() string }

// keyOf returns the key of a caller, which may be nil.
func keyOf(caller Caller) string {
	if caller == nil {
		return ""
	}
	return caller.Key()
}

// queue limits the calls in flight to one upstream. Calls above the limit wait in lines, one line
// for each caller:
//
//	ann │ a1 a2 a3 │     The lines take turns: a3, b1, a2, a1. A flood of calls delays its caller.
//	bob │ b1       │     A call leaves its line when half of its time is over, and is refused.
//
// If maxWaiting calls wait, a new call evicts the oldest call of the longest line, provided that
// its own line would be shorter. Otherwise the new call is refused.
type queue struct {
	// patience bounds the wait of a call.
	patience time.Duration
	limiter  *rate.Limiter // nil if the rate is not limited

	mu sync.Mutex // guards the fields below
	// calls is the number of calls that have begun and not ended. It exceeds inFlight, the number
	// of occupied slots, while clients are asked for input.
	calls    int
	inFlight int
	limit    limit
	closed   bool
	// lines are in round-robin order. Each line has at least one call.
	lines   []*line
	waiting int
	// wake grants slots when the rate allows the next call. It is nil if no call waits for the
	// rate.
	wake *time.Timer
	// idle is closed when the queue is closed and no calls are left.
	idle chan struct{}
}

// line holds the waiting calls of one caller, in order of arrival.
type line struct {
	caller string
	calls  []*waiter
}

// waiter is a waiting call.
type waiter struct {
	slot *slot
	// granted receives nil with the slot, or the error of a refusal.
	granted chan error
	line    *line
}

// newQueue returns the queue of an upstream. concurrency bounds the calls in flight, timeout is the
// total time of a call, and perSecond is the maximum rate, or 0 if the rate is not limited.
func newQueue(concurrency int, timeout time.Duration, perSecond float64) *queue {
	q := &queue{patience: timeout / 2, limit: newLimit(concurrency, timeout), idle: make(chan struct{})}
	if perSecond > 0 {
		// The burst is the number of calls in one second, so that a few simultaneous calls need not
		// wait.
		q.limiter = rate.NewLimiter(rate.Limit(perSecond), int(math.Ceil(perSecond)))
	}
	return q
}

// slot is the place of one call in a [queue]. The zero value is not acquired. Do not copy a slot.
type slot struct {
	queue *queue
	begun time.Time

	mu      sync.Mutex // guards the fields below
	held    bool
	lending int
	// lent is true once the slot was lent: the duration of the call then includes the time that a
	// client took.
	lent bool
}

// acquire waits for a slot of a queue, for at most half of the timeout, in the line of the caller,
// which may be nil. If it gets no slot, it returns [ErrRetired], or an error that says whether the
// rate or the concurrency was exhausted. Call [slot.release] after the call.
func (s *slot) acquire(ctx context.Context, q *queue, caller Caller) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrRetired
	}
	if q.waiting == 0 && q.freeLocked() && (q.limiter == nil || q.limiter.Allow()) {
		q.beginLocked(s)
		q.mu.Unlock()
		return nil
	}
	w, err := q.joinLocked(s, caller)
	q.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-w.granted:
		return err
	case <-time.After(q.patience):
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-w.granted: // granted at the last moment
		return err
	default:
	}
	q.leaveLocked(w)
	if q.freeLocked() {
		return errRate
	}
	return errConcurrency
}

// lend frees the slot until the returned function is called. After that the call goes on even if no
// slot is free, because a client has already replied for it.
func (s *slot) lend() (reclaim func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lending++
	s.lent = true
	if s.held {
		s.held = false
		s.queue.mu.Lock()
		s.queue.vacateLocked()
		s.queue.mu.Unlock()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lending--; s.lending > 0 {
			return // another server request is still open
		}
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		if s.held = s.queue.freeLocked() && !s.queue.closed; s.held {
			s.queue.inFlight++
		}
	}
}

// release ends the call, adapts the limit to its outcome, and frees the slot.
func (s *slot) release(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.held {
		if !s.lent { // the duration of a call with a lent slot includes the time that a client took
			q.limit.end(s.begun, o, q.inFlight)
		}
		q.vacateLocked()
	}
	s.held = false
	q.endLocked()
}

// joinLocked appends a call to its caller's line. It returns [errQueueFull] if too many calls wait.
func (q *queue) joinLocked(s *slot, caller Caller) (*waiter, error) {
	own := &line{caller: keyOf(caller)}
	if i := slices.IndexFunc(q.lines, func(l *line) bool { return l.caller == own.caller }); i >= 0 {
		own = q.lines[i]
	}
	if q.waiting >= maxWaiting && !q.evictLocked(len(own.calls)+1) {
		return nil, errQueueFull
	}
	if len(own.calls) == 0 {
		q.lines = append(q.lines, own)
	}
	w := &waiter{slot: s, granted: make(chan error, 1), line: own}
	own.calls = append(own.calls, w)
	q.waiting++
	q.grantLocked() // also sets the timer for the rate
	return w, nil
}

// evictLocked refuses the oldest call of the longest line if that line is longer than length, the
// length of the new call's line. It reports whether it refused a call.
func (q *queue) evictLocked(length int) bool {
	var longest *line
	for _, l := range q.lines {
		if len(l.calls) > length {
			longest, length = l, len(l.calls)
		}
	}
	if longest == nil {
		return false
	}
	w := longest.calls[0]
	q.leaveLocked(w)
	w.granted <- errQueueFull
	return true
}

// leaveLocked removes a call from its line, and an empty line from the queue.
func (q *queue) leaveLocked(w *waiter) {
	l := w.line
	l.calls = slices.DeleteFunc(l.calls, func(other *waiter) bool { return other == w })
	q.waiting--
	if len(l.calls) == 0 {
		q.lines = slices.DeleteFunc(q.lines, func(other *line) bool { return other == l })
	}
}

// grantLocked grants free slots to waiting calls within the rate. Lines take turns. In a line the
// newest call is first, because it has most of its time left. If the oldest were first, each call
// would reach a slow server with hardly any time for an answer.
func (q *queue) grantLocked() {
	for q.freeLocked() && q.waiting > 0 {
		first := q.lines[0]
		w := first.calls[len(first.calls)-1]
		if q.limiter != nil {
			now := time.Now()
			if next := q.limiter.ReserveN(now, 1); next.DelayFrom(now) > 0 {
				q.wakeLocked(next.DelayFrom(now))
				next.CancelAt(now)
				return
			}
		}
		q.leaveLocked(w)
		if len(first.calls) > 0 {
			q.lines = append(slices.Delete(q.lines, 0, 1), first)
		}
		q.beginLocked(w.slot)
		w.granted <- nil
	}
}

// wakeLocked calls grantLocked again after a time.
func (q *queue) wakeLocked(after time.Duration) {
	if q.wake != nil {
		return // the timer is already set for the same moment
	}
	q.wake = time.AfterFunc(after, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.wake = nil
		q.grantLocked()
	})
}

func (q *queue) freeLocked() bool { return q.inFlight < int(q.limit.slots) }

func (q *queue) beginLocked(s *slot) {
	q.calls++
	q.inFlight++
	s.queue, s.begun, s.held = q, time.Now(), true
}

// vacateLocked frees a slot and grants it to a waiting call, if the limit and the rate allow that.
func (q *queue) vacateLocked() {
	q.inFlight--
	q.grantLocked()
}

// endLocked records that a call has ended, and closes idle after the last call of a closed queue.
func (q *queue) endLocked() {
	if q.calls--; q.closed && q.calls == 0 {
		close(q.idle)
	}
}

// awaitRate waits until the rate allows another request of a call that already has a slot. It
// returns false at once if the deadline of ctx would pass first.
func (q *queue) awaitRate(ctx context.Context) bool {
	return q.limiter == nil || q.limiter.Wait(ctx) == nil
}

// close makes waiting and later calls fail with [ErrRetired]. The channel is closed when the calls
// in flight have ended.
func (q *queue) close() (idle <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wasClosed := q.closed
	q.closed = true
	for q.waiting > 0 {
		w := q.lines[0].calls[0]
		q.leaveLocked(w)
		w.granted <- ErrRetired
	}
	if !wasClosed && q.calls == 0 {
		close(q.idle)
	}
	return q.idle
}
