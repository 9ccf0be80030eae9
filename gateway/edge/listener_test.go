package edge_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// refusing is a listener whose connections refuse all requests.
type refusing struct{ net.Listener }

func (l refusing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if c, ok := c.(*edge.Conn); ok {
		c.OnRequest(func() bool { return false })
	}
	return c, err
}

// serveGateway serves a gateway through a listener of a ledger that wrap may wrap.
func serveGateway(t *testing.T, shedder *edge.Shedder, wrap func(net.Listener) net.Listener) *gatewaytest.Client {
	t.Helper()
	return serveConfig(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "p")), edge.New(edge.Options{}), shedder, wrap).Modern("")
}

func serveConfig(
	t *testing.T, config string, ledger *edge.Ledger, shedder *edge.Shedder, wrap func(net.Listener) net.Listener,
) *gatewaytest.Server {
	t.Helper()
	g, err := gateway.New(gatewaytest.Load(t, config), gateway.Options{Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	gatewaytest.Run(t, g)
	s := httptest.NewUnstartedServer(g.Handler())
	s.Listener = wrap(ledger.Listen(s.Config, s.Listener, shedder))
	s.Start()
	t.Cleanup(func() {
		g.Drain()
		s.Close()
	})
	return &gatewaytest.Server{Gateway: g, TB: t, URL: s.URL + "/mcp"}
}

func asIs(l net.Listener) net.Listener { return l }

func newShedder() *edge.Shedder {
	return edge.NewShedder(edge.New(edge.Options{}), slog.New(slog.DiscardHandler))
}

func TestListen_ServesWhileAdmitting(t *testing.T) {
	c := serveGateway(t, newShedder(), asIs)
	for range 3 {
		c.Call("prompts/list", "{}").Want(t, http.StatusOK)
	}
}

// endless is a listener on which another connection has always arrived already.
type endless struct{ net.Listener }

func (endless) Accept() (net.Conn, error) {
	c, _ := net.Pipe() // nobody looks at it
	return c, nil
}

func TestListen_AcceptsWhenTheConnectionBeforeHadItsTurn(t *testing.T) {
	const connections = 100
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	l := edge.New(edge.Options{}).Listen(new(http.Server), endless{}, newShedder()) //nolint:gosec // it never serves
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
	c := serveGateway(t, nil, func(l net.Listener) net.Listener { return refusing{l} })
	for range 2 { // on the same connection
		body, header := c.Encode("1", "prompts/list", "{}")
		r := gatewaytest.Send(t, http.MethodPost, c.URL, body, header)
		r.Want(t, http.StatusServiceUnavailable)
		upstreamtest.Equal(t, "1", r.Header.Get("Retry-After"), "Retry-After")
		for _, want := range []string{`"code":-32603`, `"reason":"overloaded"`} {
			if !strings.Contains(r.Body, want) {
				t.Errorf("body = %s, want %s in it", r.Body, want)
			}
		}
	}
}

// Whoever has no credential can have any number of addresses, so that silent connections must not cost people their streams.
func TestLedger_SilentConnectionsEndNobodysStream(t *testing.T) {
	const limit, people, silent = 100, 60, 110
	var auth, members strings.Builder
	for i := range people {
		auth.WriteString(gatewaytest.Token(fmt.Sprint("u", i)))
		fmt.Fprintf(&members, `"user:u%d", `, i)
	}
	peer := gatewaytest.NewPeer(t, "up", "p")
	s := serveConfig(t, "auth {\n"+auth.String()+"}\n"+gatewaytest.Team("eng", members.String(), "", peer),
		edge.New(edge.Options{Connections: limit}), nil, asIs)
	streams := make([]*gatewaytest.Stream, people)
	for i := range streams {
		streams[i] = s.Modern(fmt.Sprint("u", i)).Listen("1")
	}
	for i := range silent {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
		c, err := from.DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), "/mcp"))
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Skip("this machine has one loopback address only")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	s.Modern("u0").WantList("up.p") // accepted after the silent ones
	for i, stream := range streams {
		select {
		case _, open := <-stream.Events:
			t.Fatalf("the stream of person %d got an event, or ended: open = %t", i, open)
		default:
		}
	}
}
