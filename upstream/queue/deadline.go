package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// pausedStep is after how long, at least, a paused deadline is asked for again.
const pausedStep = time.Second

// Deadline is a context that ends with [context.DeadlineExceeded] after a time, like that of
// [context.WithTimeout], but can be paused while a client is asked. Most calls wait for nothing but a
// connection, which has a deadline of its own: so the channel and the timer are made only when something asks
// for Done. [Deadline.Start] must be called before any other method. A Deadline must not be copied.
type Deadline struct {
	parent context.Context //nolint:containedctx // it is one
	// outer is the deadline of the call that an attempt is part of, or nil.
	outer *Deadline
	// made is nil until something asks for Done.
	made atomic.Pointer[ending]

	mu sync.Mutex // guards what follows
	// until is when the time is over. While paused, remaining is what is left of it.
	until     time.Time
	remaining time.Duration
	pauses    int
	stopped   bool
}

// ending is a context that ends with its timer, or its parent.
type ending struct {
	context.Context //nolint:containedctx // it is one

	end   context.CancelCauseFunc
	timer *time.Timer
}

// Start makes the deadline a context that ends with its parent, and a timeout after now at the
// latest. It must be stopped. Outer is the deadline that is paused with it, or nil.
func (d *Deadline) Start(parent context.Context, now time.Time, timeout time.Duration, outer *Deadline) {
	d.parent, d.outer, d.until = parent, outer, now.Add(timeout)
}

// Stop ends the context.
func (d *Deadline) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if made := d.made.Load(); made != nil {
		made.timer.Stop()
		made.end(nil)
	}
}

// Done implements [context.Context].
func (d *Deadline) Done() <-chan struct{} {
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

// Parent returns a context that ends if the deadline does for another reason than its time. It costs nothing.
func (d *Deadline) Parent() context.Context {
	if made := d.made.Load(); made != nil {
		return made
	}
	if outer, ok := d.parent.(*Deadline); ok {
		return outer.Parent()
	}
	return d.parent
}

// Deadline implements [context.Context]. While paused, it is some time from now.
func (d *Deadline) Deadline() (time.Time, bool) {
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
func (d *Deadline) Value(key any) any {
	if made := d.made.Load(); made != nil {
		return made.Value(key)
	}
	return d.parent.Value(key)
}

// Err implements [context.Context]: it tells a time that is over from a parent that was cancelled.
// The Err of its children does not; their [context.Cause] does.
func (d *Deadline) Err() error {
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
func (d *Deadline) Left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leftLocked()
}

func (d *Deadline) leftLocked() time.Duration {
	if d.pauses > 0 {
		return d.remaining
	}
	return time.Until(d.until)
}

// Pause stops the clock of the deadline, and of the outer one, until the returned function is
// called.
func (d *Deadline) Pause() (resume func()) {
	for each := d; each != nil; each = each.outer {
		each.pauseOne()
	}
	return func() {
		for each := d; each != nil; each = each.outer {
			each.resumeOne()
		}
	}
}

func (d *Deadline) pauseOne() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Several server requests may be open at once: the first stops the clock, the last starts it
	// again.
	if d.pauses++; d.pauses > 1 {
		return
	}
	made, left := d.made.Load(), time.Until(d.until)
	if left > 0 && (made == nil || made.timer.Stop()) {
		d.remaining = left
	}
}

func (d *Deadline) resumeOne() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Nothing remains of a deadline that was over when it was paused.
	if d.pauses--; d.pauses == 0 && d.remaining > 0 {
		d.until = time.Now().Add(d.remaining)
		if made := d.made.Load(); made != nil {
			made.timer.Reset(d.remaining)
		}
		d.remaining = 0
	}
}
