package httpconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Listen wraps l, the listener of an HTTP server, for [http.Server.Serve] or ServeTLS. Its connections are of type *Conn. It sets
// the server's ConnContext, so that [Write] and [FromContext] find the connection of a request, and its ConnState.
func Listen(server *http.Server, l net.Listener) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if c, ok := c.(*Conn); ok {
			return context.WithValue(ctx, connKey{}, c)
		}
		return context.WithValue(ctx, tlsKey{}, below(c)) // TLS has to see every byte
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if c := below(c); c != nil {
			c.idle.Store(state == http.StateIdle)
			if state == http.StateIdle && c.onRequest != nil {
				c.fresh.Store(true)
			}
		}
	}
	return listener{l, new(departures)}
}

// FromContext returns the connection of a request by the request's context. It is nil if the server does not use [Listen].
func FromContext(ctx context.Context) *Conn {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c
	}
	c, _ := ctx.Value(tlsKey{}).(*Conn)
	return c
}

// below returns the connection that c is, or that its TLS is on; nil for another one.
func below(c net.Conn) *Conn {
	if conn, ok := c.(*Conn); ok {
		return conn
	}
	if secure, ok := c.(*tls.Conn); ok {
		conn, _ := secure.NetConn().(*Conn)
		return conn
	}
	return nil
}

type listener struct {
	net.Listener

	departures *departures
}

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := newConn(c)
	conn.departures = l.departures
	return conn, nil
}

type (
	connKey struct{} // a connection that can gather
	tlsKey  struct{} // one below TLS
)

// Conn is a connection of an HTTP server. As with net/http, only one goroutine at a time may read from it, and one write to it.
type Conn struct {
	net.Conn

	read, write deadline
	// gathering collects what the server writes during a call of [Write]; otherwise it is nil. It needs no lock: between the
	// start and the end of a handler only the handler's goroutine writes to the connection.
	gathering *gathered

	// onRequest says whether a request may be served; nil serves all.
	onRequest func() bool
	// fresh says that the next bytes begin a request, refused that the one in progress may not be served.
	fresh, refused atomic.Bool

	idle atomic.Bool
	// left is set once the client has closed its side. Departures closes the connection then; nil without any.
	left       atomic.Bool
	departures *departures
	onClose    func()
	closed     atomic.Bool
}

func newConn(c net.Conn) *Conn {
	now := time.Now()
	return &Conn{Conn: c, read: deadline{opened: now}, write: deadline{opened: now}}
}

// Host returns the client's address without the port.
func (c *Conn) Host() string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// Idle reports whether the connection has had a request and has none in progress.
func (c *Conn) Idle() bool { return c.idle.Load() }

// OnClose sets what to call once when the connection is closed. To be called before the connection is served.
func (c *Conn) OnClose(f func()) { c.onClose = f }

// OnRequest sets what to call when a request begins to arrive, before anything else becomes of it: it may wait, and reports whether
// the request may be served. To be called before the connection is served.
func (c *Conn) OnRequest(f func() bool) {
	c.onRequest = f
	c.fresh.Store(true)
}

// Refuses reports whether a request may not be served, to be asked once for each. A request of HTTP/2 may have to wait now: only its
// connection has waited.
func (c *Conn) Refuses(multiplexed bool) bool {
	if multiplexed {
		return c.onRequest != nil && !c.onRequest()
	}
	return c.refused.Load() && c.refused.Swap(false)
}

// Close implements [net.Conn]. That of a client which has left may be closed a moment later.
func (c *Conn) Close() error {
	if c.left.Load() && c.departures != nil {
		return c.departures.close(c)
	}
	return c.closeNow()
}

func (c *Conn) closeNow() error {
	err := c.Conn.Close()
	if c.onClose != nil && !c.closed.Swap(true) {
		c.onClose()
	}
	return err
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	for c.read.begin() {
		n, err := c.Conn.Read(p)
		if c.read.end(err, c.Conn.SetReadDeadline) {
			if n > 0 && c.fresh.Load() && c.fresh.Swap(false) {
				c.refused.Store(!c.onRequest())
			}
			if errors.Is(err, io.EOF) {
				c.left.Store(true)
			}
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

// CloseWrite closes the sending direction. The HTTP server looks for this method: when it refuses a client that is still
// sending, a plain Close would make the kernel send a reset, which may overtake the response.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
