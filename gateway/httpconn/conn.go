package httpconn

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"
)

// Listen wraps l, the listener of an HTTP server, for [http.Server.Serve] or ServeTLS. It sets the server's ConnContext, so
// that [Write] finds the connection of a request.
func Listen(server *http.Server, l net.Listener) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if c, ok := c.(*Conn); ok { // with TLS it is a *tls.Conn, which has to see every byte
			return context.WithValue(ctx, connKey{}, c)
		}
		return ctx
	}
	return listener{l}
}

type listener struct{ net.Listener }

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}

type connKey struct{}

// Conn is a connection of an HTTP server. As with net/http, only one goroutine at a time may read from it, and one write to it.
type Conn struct {
	net.Conn

	read deadline
	// gathering collects what the server writes during a call of [Write]; otherwise it is nil. It needs no lock: between the
	// start and the end of a handler only the handler's goroutine writes to the connection.
	gathering *gathered
}

func newConn(c net.Conn) *Conn { return &Conn{Conn: c, read: deadline{opened: time.Now()}} }

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
	return c.Conn.Write(p)
}

// CloseWrite closes the sending direction. The HTTP server looks for this method: when it refuses a client that is still
// sending, a plain Close would make the kernel send a reset, which may overtake the response.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
