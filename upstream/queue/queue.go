package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxWaiting bounds the calls that wait for a slot of one upstream.
const maxWaiting = 1024

var (
	// ErrClosed means that the queue admits no more calls.
	ErrClosed = errors.New("queue closed")
	// ErrConcurrency is in each refusal for want of a slot.
	ErrConcurrency = errors.New("the maximum number of calls is in flight")

	errRate      = errors.New("the rate of calls is exceeded")
	errQueueFull = fmt.Errorf("%w, and so is the number of waiting ones", ErrConcurrency)
)

// Caller identifies a caller by a key.
type Caller interface{ Key() string }

// Queue is the queue of one upstream.
type Queue struct {
	// patience is how long a call may wait.
	patience time.Duration
	limiter  *rate.Limiter // nil without a rate

	mu sync.Mutex // guards what follows
	// calls have begun and not ended. They outnumber inFlight, the occupied slots, while clients
	// are asked.
	calls    int
	inFlight int
	limit    limit
	closed   bool
	// lines are in the order of the round robin. Each has at least one call, and byCaller finds it.
	lines    []*line
	byCaller map[string]*line
	waiting  int
	// wake gives out slots when the rate allows the next call; nil if nothing waits for that.
	wake *time.Timer
	// idle is closed once there are no calls after Close.
	idle chan struct{}
}

// line is the calls of one caller that wait, in order of arrival.
type line struct {
	caller string
	calls  []*waiter
}

// waiter is a call that waits.
type waiter struct {
	slot *Slot
	// granted receives nil with the slot, or why there is none.
	granted chan error
	line    *line
}

// New returns the queue of an upstream: calls in flight at most, the time that each call has in
// all, and calls per second, 0 for any number.
func New(concurrency int, timeout time.Duration, perSecond float64) *Queue {
	q := &Queue{
		patience: timeout / 2, limit: newLimit(concurrency, timeout),
		byCaller: map[string]*line{}, idle: make(chan struct{}),
	}
	if perSecond > 0 {
		// The burst is what the rate allows in a second, so that a few calls at once need not wait.
		q.limiter = rate.NewLimiter(rate.Limit(perSecond), int(math.Ceil(perSecond)))
	}
	return q
}

// Acquire waits for a slot of a queue, for half of the timeout at most. Caller says whose line it
// waits in; nil is a caller like any other. Without a slot, the error is [ErrClosed], or says what
// the call waited for. [Slot.Release] must be called for each slot.
func (s *Slot) Acquire(ctx context.Context, q *Queue, caller Caller) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
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
	case err := <-w.granted: // at the last moment
		return err
	default:
	}
	q.leaveLocked(w)
	if q.freeLocked() {
		return errRate
	}
	return ErrConcurrency
}

// joinLocked puts a call at the end of its caller's line.
func (q *Queue) joinLocked(s *Slot, caller Caller) (*waiter, error) {
	key := ""
	if caller != nil {
		key = caller.Key()
	}
	own := 0
	if l := q.byCaller[key]; l != nil {
		own = len(l.calls)
	}
	if q.waiting >= maxWaiting && !q.evictLocked(own+1) {
		return nil, errQueueFull
	}
	l := q.byCaller[key]
	if l == nil { // also if the eviction emptied it
		l = &line{caller: key}
		q.lines, q.byCaller[key] = append(q.lines, l), l
	}
	w := &waiter{slot: s, granted: make(chan error, 1), line: l}
	l.calls = append(l.calls, w)
	q.waiting++
	q.grantLocked() // which also sets the timer for the rate
	return w, nil
}

// evictLocked refuses the oldest call of the longest line, if that is longer than a length: that of
// the line which a call would join, with it.
func (q *Queue) evictLocked(length int) bool {
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
func (q *Queue) leaveLocked(w *waiter) {
	l := w.line
	l.calls = slices.DeleteFunc(l.calls, func(other *waiter) bool { return other == w })
	q.waiting--
	if len(l.calls) == 0 {
		q.lines = slices.DeleteFunc(q.lines, func(other *line) bool { return other == l })
		delete(q.byCaller, l.caller)
	}
}

// grantLocked gives the free slots to calls that wait, as far as the rate allows. Lines take turns.
// Of a line's calls the newest is first: it has most of its time left. The oldest would reach a
// server that is late with hardly any time for an answer, and so would each after it.
func (q *Queue) grantLocked() {
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

// wakeLocked grants again after a time.
func (q *Queue) wakeLocked(after time.Duration) {
	if q.wake != nil {
		return // it is set for the same moment
	}
	q.wake = time.AfterFunc(after, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.wake = nil
		q.grantLocked()
	})
}

func (q *Queue) freeLocked() bool { return q.inFlight < int(q.limit.slots) }

func (q *Queue) beginLocked(s *Slot) {
	q.calls++
	q.inFlight++
	s.queue, s.begun, s.held = q, time.Now(), true
}

// vacateLocked gives a slot back.
func (q *Queue) vacateLocked() {
	q.inFlight--
	q.grantLocked()
}

// endLocked notes that a call has ended.
func (q *Queue) endLocked() {
	if q.calls--; q.closed && q.calls == 0 {
		close(q.idle)
	}
}

// AwaitRate waits until the rate allows a call that has a slot to make one more request. It reports
// false, at once, if that is after the time that the call has left.
func (q *Queue) AwaitRate(ctx context.Context, left time.Duration) bool {
	if q.limiter == nil {
		return true
	}
	next := q.limiter.Reserve()
	wait := next.Delay()
	if wait == 0 {
		return true
	}
	if wait < left {
		select {
		case <-time.After(wait):
			return true
		case <-ctx.Done():
		}
	}
	next.Cancel() // so that the next call may have it
	return false
}

// Close refuses all calls that wait and that come, with [ErrClosed]. The channel is closed when no
// call is left.
func (q *Queue) Close() (idle <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wasClosed := q.closed
	q.closed = true
	for q.waiting > 0 {
		w := q.lines[0].calls[0]
		q.leaveLocked(w)
		w.granted <- ErrClosed
	}
	if !wasClosed && q.calls == 0 {
		close(q.idle)
	}
	return q.idle
}
