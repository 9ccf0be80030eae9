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

// Listen wraps the listener of an HTTP server, for [http.Server.Serve] or ServeTLS. Its connections are of
// type *Conn and count in the ledger. Connections beyond a bound are closed at once. current returns the
// configuration in use. If current is nil, only the connection limit itself applies. Listen sets the server's
// ConnContext, so that [Write] and [FromContext] find the connection of a request.
func (l *Ledger) Listen(server *http.Server, in net.Listener, current func() *config.Config) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	if current == nil {
		current = func() *config.Config { return nil }
	}
	return &listener{in, l, current}
}

// connKey is the context key of a request's connection: a *Conn, or a *tls.Conn around one.
type connKey struct{}

// FromContext returns the connection of a request from the request's context, or nil if the server's listener
// is not from [Ledger.Listen].
func FromContext(ctx context.Context) *Conn {
	switch c := ctx.Value(connKey{}).(type) {
	case *Conn:
		return c
	case *tls.Conn:
		conn, _ := c.NetConn().(*Conn)
		return conn
	}
	return nil
}

type listener struct {
	net.Listener // the wrapped listener

	ledger  *Ledger
	current func() *config.Config
}

// Accept implements [net.Listener]. It logs and returns errors; the HTTP server calls it again after a
// temporary one.
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
		_ = in.Close()
	}
}

// host returns a client's address without the port, if the address has one.
func host(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
