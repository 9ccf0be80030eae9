package upstream

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxWaiting bounds the calls that wait for a slot of one upstream.
const maxWaiting = 1024

var (
	errConcurrency = errors.New("the maximum number of calls is in flight")
	errRate        = errors.New("the rate of calls is exceeded")
	// errNoTime is of calls that would begin with less time left than the upstream usually takes.
	errNoTime    = fmt.Errorf("%w, and those that wait leave no time for this one", errConcurrency)
	errQueueFull = fmt.Errorf("%w, and so is the number of those that wait", errConcurrency)
)

// queue gives out the slots of an upstream: its concurrency, or as many as the server can use, at its rate. Where calls have to wait, callers take turns, so that
// one caller's flood delays that caller. A call is refused at once if its turn would come too late for an answer: sending it would
// only take the server's time from those that it can still answer.
type queue struct {
	timeout time.Duration
	limiter *rate.Limiter // nil without a limit

	mu sync.Mutex // guards what follows
	// calls are those that got a slot and have not ended. They outnumber the slots taken while clients are asked.
	calls    int
	inFlight int
	limit    adaptive
	closed   bool
	usual    estimate
	cycle    cycle
	// turns has the lines in the order of their turns. Each line has at least one call, and lines finds them by caller.
	turns   list.List
	lines   map[string]*list.Element
	waiting int
	// wake hands out slots when the rate allows the next call; nil if nothing waits for that.
	wake *time.Timer
	// idle is closed once there are no calls after close.
	idle chan struct{}
}

// line is the calls of one caller that wait, in order of arrival.
type line struct {
	caller string
	calls  list.List // of *waiter
}

// waiter is a call that waits.
type waiter struct {
	until time.Time
	// patience is how long it may wait from the start.
	patience time.Duration
	// granted receives nil with a slot, or why there is none.
	granted chan error
	line    *list.Element
	place   *list.Element // in the line
}

func newQueue(concurrency int, timeout time.Duration, limiter *rate.Limiter) *queue {
	return &queue{
		timeout: timeout, limiter: limiter, limit: newAdaptive(concurrency, timeout),
		lines: map[string]*list.Element{}, idle: make(chan struct{}),
	}
}

// acquire waits for a slot. Left returns how much time the call has, and is called only if it has to wait. Without a slot, the error is
// ErrRetired or a [*queueError]. End must be called for each call that got one.
func (q *queue) acquire(ctx context.Context, caller Caller, left func() time.Duration) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrRetired
	}
	if q.waiting == 0 && q.freeLocked() && (q.limiter == nil || q.limiter.Allow()) {
		q.beginLocked()
		q.mu.Unlock()
		return nil
	}
	w, err := q.joinLocked(caller, left())
	q.mu.Unlock()
	if err != nil {
		return err
	}
	late := time.NewTimer(w.patience)
	defer late.Stop()
	select {
	case err := <-w.granted:
		return err
	case <-late.C:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-w.granted: // at the last moment
		if err == nil {
			q.giveLocked()
			q.endLocked()
		}
	default:
		q.leaveLocked(w)
		q.grantLocked() // in case it was the rate that the others waited for
	}
	return q.refusalLocked(w, errNoTime)
}

// queueError is why a call got no slot.
type queueError struct {
	error

	// retryAfter is when those that wait now will have had their turns; 0 if that is not known.
	retryAfter time.Duration
}

func (e *queueError) Unwrap() error { return e.error }

// refusalLocked returns the error of a call that has waited, and left.
func (q *queue) refusalLocked(w *waiter, cause error) error {
	own := lineOf(w.line).calls.Len()
	wait, _ := q.waitLocked(own, own > 0)
	return &queueError{cause, wait}
}

// joinLocked puts a call at the end of its caller's line.
func (q *queue) joinLocked(caller Caller, left time.Duration) (*waiter, error) {
	key := ""
	if caller != nil {
		key = caller.Key()
	}
	place, own := q.lines[key], 0
	if place != nil {
		own = lineOf(place).calls.Len()
	}
	if !q.freeLocked() {
		q.limit.want()
	}
	wait, cause := q.waitLocked(own, place != nil)
	patience := left - q.needLocked()
	margin := time.Duration(0)
	if !errors.Is(cause, errRate) { // an estimate may be wrong by that much, and a call that joins should be served
		margin = wait / 4
	}
	if wait+margin >= patience {
		return nil, &queueError{cause, wait}
	}
	if q.waiting >= maxWaiting && !q.evictLocked(own) {
		return nil, &queueError{errQueueFull, wait}
	}
	if place = q.lines[key]; place == nil { // also if the eviction emptied it
		place = q.turns.PushBack(&line{caller: key})
		q.lines[key] = place
	}
	w := &waiter{until: time.Now().Add(left), patience: patience, granted: make(chan error, 1), line: place}
	w.place = lineOf(place).calls.PushBack(w)
	q.waiting++
	q.grantLocked() // which also sets the timer for the rate
	return w, nil
}

func lineOf(e *list.Element) *line {
	l, _ := e.Value.(*line)
	return l
}

// waitLocked returns how long a call will wait behind a number of its caller's own, and what for.
func (q *queue) waitLocked(own int, inTurns bool) (time.Duration, error) {
	callers := q.turns.Len()
	if !inTurns {
		callers++
	}
	// Until its turn, each caller has as many turns as it has calls of its own before it.
	before := min(q.waiting, (own+1)*callers-1)
	each, cause := q.takesLocked()/time.Duration(q.limit.now), errNoTime
	wait := time.Duration(before) * each
	if !q.freeLocked() {
		wait += each
	}
	if q.limiter != nil {
		turn := q.limiter.Reserve()
		rated := turn.Delay() + time.Duration(float64(before)/float64(q.limiter.Limit())*float64(time.Second))
		turn.Cancel()
		if rated > wait {
			wait, cause = rated, errRate
		}
	}
	return wait, cause
}

// takesLocked returns how long a call takes that is sent now.
func (q *queue) takesLocked() time.Duration {
	return max(q.usual.mean, q.cycle.length(time.Now(), q.limit.now))
}

// needLocked returns how much time a call must have left to be sent.
func (q *queue) needLocked() time.Duration {
	// An estimate is no promise. But of an upstream that usually times out, no call that has waited at all would be sent.
	return min(q.takesLocked()+2*q.usual.deviation, q.timeout-q.timeout/10)
}

// evictLocked refuses the latest call of the longest line, unless a line of this length would be as long.
func (q *queue) evictLocked(length int) bool {
	var longest *line
	for e := q.turns.Front(); e != nil; e = e.Next() {
		if l := lineOf(e); l.calls.Len() > length {
			longest, length = l, l.calls.Len()
		}
	}
	if longest == nil {
		return false
	}
	w, _ := longest.calls.Back().Value.(*waiter)
	q.leaveLocked(w)
	w.granted <- q.refusalLocked(w, errQueueFull)
	return true
}

// leaveLocked takes a call out of its line, and an empty line out of the turns.
func (q *queue) leaveLocked(w *waiter) {
	l := lineOf(w.line)
	l.calls.Remove(w.place)
	q.waiting--
	if l.calls.Len() == 0 {
		q.turns.Remove(w.line)
		delete(q.lines, l.caller)
	}
}

// grantLocked gives the free slots to calls that wait, as far as the rate allows.
func (q *queue) grantLocked() {
	for q.freeLocked() && q.waiting > 0 {
		first := q.turns.Front()
		w, _ := lineOf(first).calls.Front().Value.(*waiter)
		if time.Until(w.until) < q.needLocked() {
			q.leaveLocked(w)
			w.granted <- q.refusalLocked(w, errNoTime)
			continue
		}
		if q.limiter != nil {
			if turn := q.limiter.Reserve(); turn.Delay() > 0 {
				q.wakeLocked(turn.Delay())
				turn.Cancel()
				return
			}
		}
		q.leaveLocked(w)
		if lineOf(first).calls.Len() > 0 {
			q.turns.MoveToBack(first)
		}
		q.beginLocked()
		w.granted <- nil
	}
}

func (q *queue) freeLocked() bool { return q.inFlight < q.limit.now }

func (q *queue) beginLocked() {
	q.calls++
	q.takeLocked()
}

func (q *queue) takeLocked() {
	q.inFlight++
	q.cycle.run(!q.freeLocked())
}

// wakeLocked grants again after a time.
func (q *queue) wakeLocked(after time.Duration) {
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

// lend gives back the slot of a call that goes on without it.
func (q *queue) lend() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giveLocked()
}

// end ends a call, which gives back its slot if it holds one. Begun is since when it has had it; zero where its time says nothing
// about the server.
func (q *queue) end(holds bool, begun time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if holds && !begun.IsZero() {
		now := time.Now()
		took := now.Sub(begun)
		q.usual.add(took)
		q.cycle.end(now, q.limit.now)
		q.limit.end(took, q.waiting > 0, q.inFlight)
	}
	if holds {
		q.giveLocked()
	}
	q.endLocked()
}

func (q *queue) giveLocked() {
	q.inFlight--
	q.cycle.run(!q.freeLocked())
	q.grantLocked()
}

// endLocked notes that a call has ended.
func (q *queue) endLocked() {
	if q.calls--; q.closed && q.calls == 0 {
		close(q.idle)
	}
}

// awaitRate waits until the rate allows a call that has a slot to make one more request. It reports false, at once, if that is
// after the time that the call has left.
func (q *queue) awaitRate(ctx context.Context, left time.Duration) bool {
	if q.limiter == nil {
		return true
	}
	turn := q.limiter.Reserve()
	if wait := turn.Delay(); wait == 0 || (wait < left && sleep(ctx, wait) == nil) {
		return true
	}
	turn.Cancel() // so that the next call may have it
	return false
}

// tryTake takes a slot back that a call had lent, and reports whether one is free.
func (q *queue) tryTake() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.freeLocked() || q.closed {
		return false
	}
	q.takeLocked()
	return true
}

// close refuses all calls that wait and that come, with ErrRetired. The channel is closed when no call is left.
func (q *queue) close() (idle <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wasClosed := q.closed
	q.closed = true
	for q.waiting > 0 {
		w, _ := lineOf(q.turns.Front()).calls.Front().Value.(*waiter)
		q.leaveLocked(w)
		w.granted <- ErrRetired
	}
	if !wasClosed && q.calls == 0 {
		close(q.idle)
	}
	return q.idle
}
