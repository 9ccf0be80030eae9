package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/promptweir/promptweir/config"
)

// Listen wraps in, the listener of an HTTP server, for [http.Server.Serve] or ServeTLS. Its
// connections are of type *Conn and count in the ledger; those beyond a bound are closed at once.
// Current returns the configuration in use; if it is nil, only the connection limit itself is a
// bound. Listen sets the server's ConnContext, so that [Write] and [FromContext] find the connection
// of a request.
func (l *Ledger) Listen(server *http.Server, in net.Listener, current func() *config.Config) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if c, ok := c.(*Conn); ok {
			return context.WithValue(ctx, connKey{}, c)
		}
		return context.WithValue(ctx, tlsKey{}, below(c)) // TLS has to see every byte
	}
	if current == nil {
		current = func() *config.Config { return nil }
	}
	return &listener{in, l, current}
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

	ledger  *Ledger
	current func() *config.Config
}

// Accept implements [net.Listener]. The HTTP server calls it again after an error that is
// temporary.
func (l *listener) Accept() (net.Conn, error) {
	for {
		in, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.ledger.logger.Warn("connection not accepted", slog.Any("error", err))
			}
			return nil, err
		}
		c, peer := newConn(in), host(in)
		c.ledger, c.client = l.ledger, AddressKey(peer)
		if l.ledger.admit(c, peer, l.current()) {
			return c, nil
		}
		_ = in.Close() // its client is told by that
	}
}

// host returns a client's address without the port.
func host(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
