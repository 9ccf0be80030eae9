package gate

import (
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/promptweir/promptweir/gateway/httpconn"
)

// Listen lets connections of l, and their requests, in through the gate. L is from [httpconn.Listen], or a listener around it. Holder
// turns a client's address into who waits: requests of the same holder share their turns.
func (g *Gate) Listen(l net.Listener, holder func(address string) string) net.Listener {
	return &listener{l, g, holder}
}

type listener struct {
	net.Listener

	gate   *Gate
	holder func(address string) string
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	l.gate.enterConnection()
	// An open gate notices that there are too many when their requests are late, which they must not be because all of them are accepted
	// first: 600 were before it closed, and an operator waited for them.
	runtime.Gosched()
	c, err := l.Listener.Accept()
	if conn, ok := c.(*httpconn.Conn); ok {
		holder := l.holder(conn.Host())
		conn.OnRequest(func() bool { return l.gate.Enter(holder) })
	}
	return c, err
}

// Precede returns a handler for operators: while it serves a request, a closed gate lets few of those of clients in. Otherwise each
// step of the answer would wait until all that clients have asked for took a step.
func (g *Gate) Precede(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.beginOperator(time.Now())
		defer g.endOperator()
		next.ServeHTTP(w, r)
	})
}

func (g *Gate) beginOperator(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.operators++
	g.operatorCame = now
}

func (g *Gate) endOperator() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.operators--
}
