package edge_test

import (
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// serveConfig serves a gateway through a listener of a ledger.
func serveConfig(t *testing.T, config string, ledger *edge.Ledger) *gatewaytest.Server {
	t.Helper()
	g, err := gateway.New(gatewaytest.Load(t, config), gateway.Options{Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	gatewaytest.Run(t, g)
	s := httptest.NewUnstartedServer(g.Handler())
	s.Listener = ledger.Listen(s.Config, s.Listener)
	s.Start()
	t.Cleanup(func() {
		g.Drain()
		s.Close()
	})
	return &gatewaytest.Server{Gateway: g, TB: t, URL: s.URL + "/mcp"}
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
		edge.New(edge.Options{Connections: limit}))
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
