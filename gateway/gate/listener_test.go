package gate_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gate"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/httpconn"
)

// refusing is a listener whose connections refuse all requests.
type refusing struct{ net.Listener }

func (l refusing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if c, ok := c.(*httpconn.Conn); ok {
		c.OnRequest(func() bool { return false })
	}
	return c, err
}

// serve serves a gateway through a listener that wrap makes.
func serve(t *testing.T, wrap func(net.Listener) net.Listener) *gatewaytest.Client {
	t.Helper()
	g, err := gateway.New(gatewaytest.Load(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "p"))), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gatewaytest.Run(t, g)
	s := httptest.NewUnstartedServer(g.Handler())
	s.Listener = wrap(httpconn.Listen(s.Config, s.Listener))
	s.Start()
	t.Cleanup(func() {
		g.Drain()
		s.Close()
	})
	return (&gatewaytest.Server{Gateway: g, TB: t, URL: s.URL + "/mcp"}).Modern("")
}

func TestListen_ServesThroughAnOpenGate(t *testing.T) {
	g := gate.New(slog.New(slog.DiscardHandler))
	c := serve(t, func(l net.Listener) net.Listener { return g.Listen(l, gateway.AddressHolder) })
	for range 3 {
		c.Call("prompts/list", "{}").Want(t, http.StatusOK)
	}
}

// endless is a listener on which another connection has always arrived already.
type endless struct{ net.Listener }

func (endless) Accept() (net.Conn, error) { return nil, nil } //nolint:nilnil // nobody looks at it

func TestListen_AcceptsWhenTheConnectionBeforeHadItsTurn(t *testing.T) {
	const connections = 100
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	l := gate.New(slog.New(slog.DiscardHandler)).Listen(endless{}, gateway.AddressHolder)
	var served sync.WaitGroup
	defer served.Wait()
	var turns atomic.Int32
	for range connections {
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		served.Go(func() { turns.Add(1) })
	}
	if n := turns.Load(); n < connections/2 {
		t.Errorf("%d of %d connections had a turn while others were accepted", n, connections)
	}
}

func TestTransport_SaysThatARefusedRequestMaySucceedLater(t *testing.T) {
	c := serve(t, func(l net.Listener) net.Listener { return refusing{l} })
	for range 2 { // on the same connection
		body, header := c.Encode("1", "prompts/list", "{}")
		r := gatewaytest.Send(t, http.MethodPost, c.URL, body, header)
		r.Want(t, http.StatusServiceUnavailable)
		if got := r.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After: %q, want 1", got)
		}
		for _, want := range []string{`"code":-32603`, `"reason":"overloaded"`} {
			if !strings.Contains(r.Body, want) {
				t.Errorf("body = %s, want %s in it", r.Body, want)
			}
		}
	}
}
