package httpconn

import (
	"errors"
	"os"
	"sync"
	"time"
)

// soon is how far ahead a deadline is armed after reading was broken off, as net/http does at the end of each request by
// a deadline long ago: so far that those that follow are all later, and so near that a connection on which nothing
// follows is not kept long from its own.
const soon = 5 * time.Second

// deadline is one of a connection's two. What is armed below is never later than what is wanted; where it passes first,
// it is moved on and the connection asked again. So only a deadline that is earlier than the one before costs anything.
type deadline struct {
	mu            sync.Mutex // guards what follows
	wanted, armed time.Time  // zero is never
}

// set wants a deadline, and arms it where what is armed would pass too late.
func (d *deadline) set(t time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if t.IsZero() || (!d.armed.IsZero() && !t.Before(d.armed)) {
		return nil
	}
	d.armed = t
	return arm(t)
}

// settles reports whether an attempt that ended so was the last: it is done, has failed, or the deadline that is wanted has
// passed. Else it is to be made again, by the caller: to be handed a function would cost two frames more on the stack of
// each goroutine that waits for a client, which then no longer fits into the smallest.
func (d *deadline) settles(err error, arm func(time.Time) error) bool {
	return err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || d.passed(arm)
}

// passed reports whether the deadline that is wanted has passed, now that the armed one has, and else arms a later one.
func (d *deadline) passed(arm func(time.Time) error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
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
