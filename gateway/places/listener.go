package places

import (
	"errors"
	"log/slog"
	"net"
	"syscall"

	"github.com/promptweir/promptweir/gateway/httpconn"
)

// Listen gives the connections of l a place, each in the name of its client's address, which holder turns into a holder. L is from
// [httpconn.Listen].
func (p *Places) Listen(l net.Listener, holder func(address string) string) net.Listener {
	return &listener{l, p, holder}
}

type listener struct {
	net.Listener

	places *Places
	holder func(address string) string
}

// Accept implements [net.Listener]. The HTTP server calls it again after an error that is temporary.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			l.places.failed.add(slog.Any("error", err))
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.places.makeRoom()
		}
		return nil, err
	}
	if conn, ok := c.(*httpconn.Conn); ok {
		l.places.add(conn, l.holder(conn.Host()))
	}
	return c, nil
}
