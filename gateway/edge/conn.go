package edge

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a connection of an HTTP server. At any time, at most one goroutine may read from it, and at most one
// may write to it.
type Conn struct {
	net.Conn

	read, write deadline
	// gathering collects the server's output during a call of [Write]; otherwise it is nil. It
	// needs no lock: while a handler runs, only its goroutine writes to the connection.
	gathering *gathered

	ledger          *Ledger
	client          string      // the account's key: AddressKey of the peer
	isAuthenticated atomic.Bool // a credential was accepted
	isClosed        bool        // guarded by the ledger's mutex
}

func newConn(c net.Conn) *Conn {
	now := time.Now()
	return &Conn{Conn: c, read: deadline{opened: now}, write: deadline{opened: now}}
}

// Authenticated records that a credential was accepted on the connection. The connection then no longer
// counts as one without a credential. A nil connection is ignored.
func (c *Conn) Authenticated() {
	if c != nil && !c.isAuthenticated.Load() {
		c.ledger.authenticated(c)
	}
}

// Close implements [net.Conn]. The ledger then no longer counts the connection.
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

// writeAll writes slices, in one system call where the system supports that. It consumes slices.
func (c *Conn) writeAll(slices *net.Buffers) error {
	for c.write.begin() {
		_, err := slices.WriteTo(c.Conn)
		if c.write.end(err, c.Conn.SetWriteDeadline) {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// CloseWrite closes the sending direction. It returns [errors.ErrUnsupported] if the wrapped connection cannot
// do that. The HTTP server calls it when it refuses a client that is still sending. A plain Close would make
// the kernel send a reset, which may overtake the response.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// retryAfter bounds the time to the next armed deadline after an interruption. It is long enough that the
// next request's deadlines are later and need not be armed, and short enough that an idle connection soon
// gets its own deadline back.
const retryAfter = 5 * time.Second

// deadline is the read or the write deadline of a connection; its comments speak of reads. It sets (arms) a
// deadline on the wrapped connection only if the armed deadline is too late. If the armed deadline fires
// although a later one was set since, it arms the later one, and the read continues. So it costs nothing to
// postpone a deadline, or to interrupt a read that has not begun.
type deadline struct {
	opened time.Time // when the connection was accepted

	mu            sync.Mutex // guards the fields below
	wanted, armed time.Time  // set by the caller, and set on the wrapped connection; zero if there is no deadline
	// interrupted is true if wanted is before opened. net/http uses such a deadline to interrupt a
	// read.
	interrupted bool
	reading     bool // a read of the wrapped connection is in progress
}

// set sets the deadline, and arms it if the armed one is too late.
func (d *deadline) set(t time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted, d.interrupted = t, !t.IsZero() && t.Before(d.opened)
	// If no read is in progress, an interruption need not be armed: begin refuses the next read.
	firesInTime := !d.armed.IsZero() && !t.Before(d.armed)
	if t.IsZero() || firesInTime || (d.interrupted && !d.reading) {
		return nil
	}
	d.armed = t
	return arm(t)
}

// begin reports whether a read may begin. If it returns true, end must follow.
func (d *deadline) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reading = !d.interrupted
	return d.reading
}

// end reports whether the result of a read is final. If it returns false, the caller reads again.
func (d *deadline) end(err error, arm func(time.Time) error) bool {
	fired := err != nil && errors.Is(err, os.ErrDeadlineExceeded)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reading = false
	return !fired || d.interrupted || d.rearmLocked(arm)
}

// rearmLocked arms the wanted deadline. It returns true if that deadline has passed or cannot be
// armed.
func (d *deadline) rearmLocked(arm func(time.Time) error) (passed bool) {
	now := time.Now()
	if !d.wanted.IsZero() && !now.Before(d.wanted) {
		return true
	}
	next := d.wanted
	if soon := now.Add(retryAfter); now.Sub(d.armed) > retryAfter && (next.IsZero() || soon.Before(next)) {
		next = soon // an interruption has fired
	}
	d.armed = next
	return arm(next) != nil
}
