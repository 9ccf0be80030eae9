package httpconn

import (
	"errors"
	"os"
	"sync"
	"time"
)

// soon is how far ahead a deadline is armed after reading was broken off, as net/http does at the end of a request by a
// deadline long ago: so far that those that follow are all later, and so near that a connection on which nothing follows
// is not kept long from its own.
const soon = 5 * time.Second

// deadline is one of a connection's two. What is armed below is never later than what is wanted, or nobody waits below;
// where it passes first, it is moved on and the connection asked again. So a deadline that is later than the one before
// costs nothing, nor does one that breaks off what has not begun.
type deadline struct {
	opened time.Time // the connection

	mu            sync.Mutex // guards what follows
	wanted, armed time.Time  // zero is never
	// over says that what is wanted has passed, for it was before the connection was opened.
	over bool
	// waiting says that the connection below is being asked.
	waiting bool
}

// set wants a deadline, and arms it where what is armed would pass too late.
func (d *deadline) set(t time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted, d.over = t, !t.IsZero() && t.Before(d.opened)
	if t.IsZero() || (!d.armed.IsZero() && !t.Before(d.armed)) || (d.over && !d.waiting) {
		return nil
	}
	d.armed = t
	return arm(t)
}

// begin reports whether the connection may be asked. If so, end is to be called with what came of it.
func (d *deadline) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = !d.over
	return d.waiting
}

// end reports whether that is what comes of it. Else the deadline that passed was only the armed one, and a later one is now.
func (d *deadline) end(err error, arm func(time.Time) error) bool {
	passed := err != nil && errors.Is(err, os.ErrDeadlineExceeded)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = false
	return !passed || d.over || d.moveOn(arm)
}

// moveOn arms a later deadline, now that the armed one has passed. It reports whether the one that is wanted has passed too.
func (d *deadline) moveOn(arm func(time.Time) error) (passed bool) {
	now := time.Now()
	if !d.wanted.IsZero() && !now.Before(d.wanted) {
		return true
	}
	next := d.wanted
	if first := now.Add(soon); now.Sub(d.armed) > soon && (next.IsZero() || first.Before(next)) {
		next = first
	}
	d.armed = next
	return arm(next) != nil
}
