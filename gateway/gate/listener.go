package gate

import (
	"net"

	"github.com/promptweir/promptweir/gateway/httpconn"
)

// Listen lets connections of l, and their requests, in through the gate. L is from [httpconn.Listen], or a listener around it.
func (g *Gate) Listen(l net.Listener) net.Listener { return &listener{l, g} }

type listener struct {
	net.Listener

	gate *Gate
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	l.gate.enterConnection()
	c, err := l.Listener.Accept()
	if conn, ok := c.(*httpconn.Conn); ok {
		conn.OnRequest(l.gate.Enter)
	}
	return c, err
}
