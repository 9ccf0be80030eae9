package edge

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a connection of an HTTP server. As with net/http, only one goroutine at a time may read
// from it, and one write to it.
type Conn struct {
	net.Conn

	read, write deadline
	// gathering collects what the server writes during a call of [Write]; otherwise it is nil. It
	// needs no lock: between the start and the end of a handler only the handler's goroutine writes
	// to the connection.
	gathering *gathered

	ledger   *Ledger
	client   string      // the address, as the key of an account
	isKnown  atomic.Bool // a credential was accepted
	isClosed bool        // guarded by the ledger's mutex
}

func newConn(c net.Conn) *Conn {
	now := time.Now()
	return &Conn{Conn: c, read: deadline{opened: now}, write: deadline{opened: now}}
}

// Authenticated notes that a credential was accepted on the connection, which no longer counts for
// the part of those without one. A nil connection counts for nothing.
func (c *Conn) Authenticated() {
	if c != nil && !c.isKnown.Load() {
		c.ledger.authenticated(c)
	}
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.ledger.release(c)
	return err
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	for c.read.begin() {
		n, err := c.Conn.Read(p)
		if c.read.end(err, c.Conn.SetReadDeadline) {
			return n, err
		}
	}
	return 0, os.ErrDeadlineExceeded
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error { return c.read.set(t, c.Conn.SetReadDeadline) }

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.write.set(t, c.Conn.SetWriteDeadline) }

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	if c.gathering != nil {
		c.gathering.add(p)
		return len(p), nil
	}
	written := 0
	for c.write.begin() {
		n, err := c.Conn.Write(p[written:])
		written += n
		if c.write.end(err, c.Conn.SetWriteDeadline) {
			return written, err
		}
	}
	return written, os.ErrDeadlineExceeded
}

// writeAll is Write for many slices.
func (c *Conn) writeAll(slices *net.Buffers) error {
	for c.write.begin() {
		_, err := slices.WriteTo(c.Conn)
		if c.write.end(err, c.Conn.SetWriteDeadline) {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// CloseWrite closes the sending direction. The HTTP server looks for this method: when it refuses a
// client that is still sending, a plain Close would make the kernel send a reset, which may
// overtake the response.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

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
	// An interruption of a read that has not begun need not be armed: begin sees it.
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

// end reports whether the result of a read is final.
func (d *deadline) end(err error, arm func(time.Time) error) bool {
	// Otherwise a deadline fired too early, and the read must be repeated.
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
