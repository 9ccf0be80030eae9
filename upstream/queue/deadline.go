package queue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Deadline is a context that ends with [context.DeadlineExceeded] after a time, like that of
// [context.WithTimeout], but can be paused while a client is asked. [Deadline.Start] must be called
// before any other method. A Deadline must not be copied.
type Deadline struct {
	context.Context //nolint:containedctx // it is one

	end context.CancelCauseFunc
	// outer is the deadline of the call that an attempt is part of, or nil.
	outer *Deadline

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	// until is when the time is over. While paused, remaining is what is left of it.
	until     time.Time
	remaining time.Duration
	pauses    int
}

// Start makes the deadline a context that ends with its parent, and a timeout after now at the
// latest. It must be stopped. Outer is the deadline that is paused with it, or nil.
func (d *Deadline) Start(parent context.Context, now time.Time, timeout time.Duration, outer *Deadline) {
	d.outer, d.until = outer, now.Add(timeout)
	d.Context, d.end = context.WithCancelCause(parent)
	d.timer = time.AfterFunc(timeout, func() { d.end(context.DeadlineExceeded) })
}

// Stop ends the context.
func (d *Deadline) Stop() {
	d.timer.Stop()
	d.end(nil)
}

// Err implements [context.Context]: it tells a time that is over from a parent that was cancelled.
// The Err of its children does not; their [context.Cause] does.
func (d *Deadline) Err() error {
	if cause := context.Cause(d.Context); errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return d.Context.Err()
}

// Left returns how much time is left.
func (d *Deadline) Left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
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
	if d.pauses++; d.pauses == 1 && d.timer.Stop() {
		d.remaining = max(time.Until(d.until), 1)
	}
}

func (d *Deadline) resumeOne() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Nothing remains of a deadline that was over when it was paused.
	if d.pauses--; d.pauses == 0 && d.remaining > 0 {
		d.until = time.Now().Add(d.remaining)
		d.timer.Reset(d.remaining)
		d.remaining = 0
	}
}
