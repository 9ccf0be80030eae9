package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
)

// Listen wraps in, the listener of an HTTP server, for [http.Server.Serve] or ServeTLS. Its
// connections are of type *Conn, and each takes a slot of the ledger. Listen sets the server's
// ConnContext, so that [Write] and [FromContext] find the connection of a request, and its
// ConnState.
func (l *Ledger) Listen(server *http.Server, in net.Listener) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if c, ok := c.(*Conn); ok {
			return context.WithValue(ctx, connKey{}, c)
		}
		return context.WithValue(ctx, tlsKey{}, below(c)) // TLS has to see every byte
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if c := below(c); c != nil {
			c.idle.Store(state == http.StateIdle)
		}
	}
	return &listener{in, l}
}

type (
	connKey struct{} // a connection that can gather
	tlsKey  struct{} // one below TLS
)

// FromContext returns the connection of a request by the request's context. It is nil if the server
// does not use [Ledger.Listen].
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
	net.Listener // the wrapped one

	ledger *Ledger
}

// Accept implements [net.Listener]. The HTTP server calls it again after an error that is
// temporary.
func (l *listener) Accept() (net.Conn, error) {
	l.ledger.awaitClosing() // not later: a connection that waits here would grow old
	in, err := l.Listener.Accept()
	if err != nil {
		l.ledger.notAccepted(err)
		return nil, err
	}
	c := newConn(in)
	c.client = AddressKey(host(in))
	c.ledger, c.slot = l.ledger, &slot{conn: c}
	// Last: from here on, another connection may evict this one.
	l.ledger.accept(c)
	return c, nil
}

// host returns a client's address without the port.
func host(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// notAccepted logs why a connection was not accepted, and makes room if the system has no
// descriptor left for it.
func (l *Ledger) notAccepted(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	l.logger.Warn("connection not accepted", slog.Any("error", err))
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		l.makeRoom()
	}
}
