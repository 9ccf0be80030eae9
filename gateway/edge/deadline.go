package edge

import (
	"errors"
	"os"
	"sync"
	"time"
)

// retryAfter is how far ahead a deadline is armed when only an interruption fired: far enough that
// the deadlines of the next request come later and need not be armed, near enough that a connection
// without a next request is soon back to its own.
const retryAfter = 5 * time.Second

// deadline is the read or the write deadline of a connection, told here for reads. It arms the
// connection below only if what is armed there would fire too late. When that fires too early,
// because a later deadline has been set since, deadline arms the later one and the read goes on. So
// a deadline that is later than the one before costs nothing, nor does one that interrupts a read
// that has not begun.
type deadline struct {
	opened time.Time // when the connection was accepted

	mu            sync.Mutex // guards the fields below
	wanted, armed time.Time  // zero means none
	// interrupted says that wanted is before opened: that is not a deadline but an interruption of
	// the read.
	interrupted bool
	reading     bool // a read of the connection below is in progress
}

// set sets the deadline, and arms it if what is armed would fire too late.
func (d *deadline) set(t time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted, d.interrupted = t, !t.IsZero() && t.Before(d.opened)
	firesInTime := !d.armed.IsZero() && !t.Before(d.armed)
	if t.IsZero() || firesInTime || (d.interrupted && !d.reading) {
		return nil
	}
	d.armed = t
	return arm(t)
}

// begin reports whether a read may begin. If so, end must follow with its result.
func (d *deadline) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reading = !d.interrupted
	return d.reading
}

// end reports whether the result of a read is final. Otherwise a deadline fired too early, and the
// read must be repeated.
func (d *deadline) end(err error, arm func(time.Time) error) bool {
	fired := err != nil && errors.Is(err, os.ErrDeadlineExceeded)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reading = false
	return !fired || d.interrupted || d.rearmLocked(arm)
}

// rearmLocked arms the wanted deadline, or reports that it has passed.
func (d *deadline) rearmLocked(arm func(time.Time) error) (passed bool) {
	now := time.Now()
	if !d.wanted.IsZero() && !now.Before(d.wanted) {
		return true
	}
	next := d.wanted
	if soon := now.Add(retryAfter); now.Sub(d.armed) > retryAfter && (next.IsZero() || soon.Before(next)) {
		next = soon // an interruption fired, whose time is long past
	}
	d.armed = next
	return arm(next) != nil
}
