package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/cancel"
)

// deadline is a context that ends with [context.DeadlineExceeded] after a time, like that of [context.WithTimeout], but
// can be paused.
type deadline struct {
	cancel.Context

	// outer is the deadline of the call that an attempt is part of, or nil.
	outer *deadline

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	// until is when the time is over. While paused, remaining is what is left of it.
	until     time.Time
	remaining time.Duration
	pauses    int
}

// withDeadline returns a context that ends after the timeout at the latest, and its deadline, which must be stopped. Now is the time, which
// the caller has read already.
func withDeadline(ctx context.Context, now time.Time, timeout time.Duration, outer *deadline) (context.Context, *deadline) {
	d := &deadline{outer: outer, until: now.Add(timeout)}
	d.Begin(ctx)
	d.timer = time.AfterFunc(timeout, func() { d.End(context.DeadlineExceeded) })
	return d, d
}

// stop ends the context.
func (d *deadline) stop() {
	d.timer.Stop()
	d.End(context.Canceled)
}

// left returns how much time is left.
func (d *deadline) left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pauses > 0 {
		return d.remaining
	}
	return time.Until(d.until)
}

// pause stops the clock of the deadline, and of the outer one, until the returned function is called.
func (d *deadline) pause() (resume func()) {
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
	// Several server requests may be open at once: the first stops the clock, the last starts it again.
	if d.pauses++; d.pauses == 1 && d.timer.Stop() {
		d.remaining = max(time.Until(d.until), 1)
	}
}

func (d *deadline) resumeOne() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pauses--; d.pauses == 0 && d.remaining > 0 { // nothing remains of a deadline that was over when it was paused
		d.until = time.Now().Add(d.remaining)
		d.timer.Reset(d.remaining)
		d.remaining = 0
	}
}
