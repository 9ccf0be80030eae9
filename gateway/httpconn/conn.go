// Package httpconn makes the connections of an HTTP/1.1 server cheaper than package net/http, which cannot know what comes
// next, makes them by itself:
//
//   - The server sets some six deadlines for each request, nearly all of which are moved on before they pass. Here that is
//     remembered, and hardly ever told the system; see deadline.
//   - The server writes through a buffer of 4 KiB, so that a larger response leaves in two system calls, and wakes its
//     reader for the first. [Hold] lets it leave in one.
//
// A response of 25 KB over loopback takes a fifth less time so (BenchmarkResponse).
package httpconn

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"
)

// Listen returns the server's listener in place of l, for [http.Server.Serve] or ServeTLS. It sets ConnContext.
func Listen(server *http.Server, l net.Listener) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if c, ok := c.(*Conn); ok { // over TLS it is another: there is no buffer to get round
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

// Conn is a connection of an HTTP server. One goroutine at a time may read from it and one write to it, as net/http's do: a
// write that outlasts an armed deadline goes on in a second one.
type Conn struct {
	net.Conn

	read, write deadline
	// held is what waits for [Held.Send]; nil where nothing does. Whoever writes uses it, and nobody else.
	held *Held
}

func newConn(c net.Conn) *Conn {
	opened := time.Now()
	return &Conn{Conn: c, read: deadline{opened: opened}, write: deadline{opened: opened}}
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

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (n int, err error) {
	if c.held != nil {
		c.held.keep(p)
		return len(p), nil
	}
	for c.write.begin() {
		some, err := c.Conn.Write(p[n:])
		n += some
		if c.write.end(err, c.Conn.SetWriteDeadline) {
			return n, err
		}
	}
	return n, os.ErrDeadlineExceeded
}

// writeAll is Write for many parts.
func (c *Conn) writeAll(parts *net.Buffers) error {
	for c.write.begin() {
		_, err := parts.WriteTo(c.Conn)
		if c.write.end(err, c.Conn.SetWriteDeadline) {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// CloseWrite lets the server say its last words to a client that is still sending, as it does to a [net.TCPConn].
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error { return c.read.set(t, c.Conn.SetReadDeadline) }

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.write.set(t, c.Conn.SetWriteDeadline) }
