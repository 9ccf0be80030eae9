package call

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// pausedStep is the minimum remaining time that Deadline reports during a pause.
const pausedStep = time.Second

// deadline is a context that ends with [context.DeadlineExceeded] after a time, like
// [context.WithTimeout], but can be paused while a client is asked. It makes its channel and timer
// only when Done is called, because most calls wait only for a connection, which has its own
// deadline. Call [deadline.Start] before any other method. Do not copy a deadline.
type deadline struct {
	parent context.Context //nolint:containedctx // deadline is a context
	// outer is the call's deadline if this is the deadline of an attempt, and otherwise nil.
	outer *deadline
	// made is nil until Done is called.
	made atomic.Pointer[ending]

	mu sync.Mutex // guards the fields below
	// until is the time at which the deadline passes. During a pause, remaining is the time that is
	// left.
	until     time.Time
	remaining time.Duration
	pauses    int
	stopped   bool
}

// ending is a context that ends with its timer, or its parent.
type ending struct {
	context.Context //nolint:containedctx // ending is a context

	end   context.CancelCauseFunc
	timer *time.Timer
}

// Start starts the deadline. The context ends with its parent, or when the timeout has passed since
// now. Call Stop when it is no longer needed. Pauses also apply to outer, which may be nil.
func (d *deadline) Start(parent context.Context, now time.Time, timeout time.Duration, outer *deadline) {
	d.parent, d.outer, d.until = parent, outer, now.Add(timeout)
}

// Stop ends the context and releases its timer.
func (d *deadline) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if made := d.made.Load(); made != nil {
		made.timer.Stop()
		made.end(nil)
	}
}

// Done implements [context.Context].
func (d *deadline) Done() <-chan struct{} {
	if made := d.made.Load(); made != nil {
		return made.Done()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if made := d.made.Load(); made != nil {
		return made.Done()
	}
	made := new(ending)
	made.Context, made.end = context.WithCancelCause(d.parent)
	made.timer = time.AfterFunc(d.leftLocked(), func() { made.end(context.DeadlineExceeded) })
	if d.pauses > 0 {
		made.timer.Stop()
	}
	if d.stopped {
		made.timer.Stop()
		made.end(nil)
	}
	d.made.Store(made)
	return made.Done()
}

// Parent returns a context that ends when the deadline's parent ends, and may also end at the
// deadline. It makes no channel and no timer.
func (d *deadline) Parent() context.Context {
	if made := d.made.Load(); made != nil {
		return made
	}
	if outer, ok := d.parent.(*deadline); ok {
		return outer.Parent()
	}
	return d.parent
}

// Deadline implements [context.Context]. During a pause, the result is at least pausedStep in the
// future, unless the parent's deadline is earlier.
func (d *deadline) Deadline() (time.Time, bool) {
	d.mu.Lock()
	until := d.until
	if d.pauses > 0 {
		until = time.Now().Add(max(d.remaining, pausedStep))
	}
	d.mu.Unlock()
	if sooner, ok := d.parent.Deadline(); ok && sooner.Before(until) {
		until = sooner
	}
	return until, true
}

// Value implements [context.Context].
func (d *deadline) Value(key any) any {
	if made := d.made.Load(); made != nil {
		return made.Value(key)
	}
	return d.parent.Value(key)
}

// Err implements [context.Context]. It distinguishes a passed deadline from a cancelled parent. The
// Err of a derived context does not distinguish them: use its [context.Cause].
func (d *deadline) Err() error {
	if made := d.made.Load(); made != nil {
		if cause := context.Cause(made); errors.Is(cause, context.DeadlineExceeded) {
			return cause
		}
		return made.Err()
	}
	if err := d.parent.Err(); err != nil {
		return err
	}
	if d.Left() <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Left returns how much time is left.
func (d *deadline) Left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leftLocked()
}

func (d *deadline) leftLocked() time.Duration {
	if d.pauses > 0 {
		return d.remaining
	}
	return time.Until(d.until)
}

// Pause stops the clock of the deadline, and of its outer deadlines, until the returned function is
// called.
func (d *deadline) Pause() (resume func()) {
	for each := d; each != nil; each = each.outer {
		each.pauseOne()
	}
	return func() {
		for each := d; each != nil; each = each.outer {
			each.resumeOne()
		}
	}
}

func (d *deadline) pauseOne() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Several server requests may be open at once. The first request stops the clock, and the end
	// of the last one starts it again.
	if d.pauses++; d.pauses > 1 {
		return
	}
	made, left := d.made.Load(), time.Until(d.until)
	if left > 0 && (made == nil || made.timer.Stop()) {
		d.remaining = left
	}
}

func (d *deadline) resumeOne() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A deadline that had passed before the pause stays passed.
	if d.pauses--; d.pauses == 0 && d.remaining > 0 {
		d.until = time.Now().Add(d.remaining)
		if made := d.made.Load(); made != nil {
			made.timer.Reset(d.remaining)
		}
		d.remaining = 0
	}
}
