package edge_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// Anybody without a credential can have any number of addresses and say nothing. People's streams stay, and another person
// gets in.
func TestListen_SilentConnectionsEndNobodysStreamAndKeepNobodyOut(t *testing.T) {
	const limit, people, silent, addresses = 512, 60, 200, 110 // the least limit of a process with 1024 descriptors
	var auth, members strings.Builder
	for i := range people + 1 {
		auth.WriteString(gatewaytest.Token(fmt.Sprint("u", i)))
		fmt.Fprintf(&members, `"user:u%d", `, i)
	}
	team := gatewaytest.Team("eng", members.String(), "", gatewaytest.NewPeer(t, "up", "p"))
	ledger := edge.New(edge.Options{Connections: limit})
	g, err := gateway.New(gatewaytest.Load(t, "auth {\n"+auth.String()+"}\n"+team), gateway.Options{Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	gatewaytest.Run(t, g)
	server := httptest.NewUnstartedServer(g.Handler())
	server.Listener = ledger.Listen(server.Config, server.Listener, func() *config.Config { return g.Snapshot().Config })
	server.Start()
	t.Cleanup(func() {
		g.Drain()
		server.Close()
	})
	s := gatewaytest.Server{Gateway: g, TB: t, URL: server.URL + "/mcp"}

	s.AwaitUpstreams()
	streams := make([]*gatewaytest.Stream, people)
	for i := range streams {
		streams[i] = s.Modern(fmt.Sprint("u", i)).Listen("1")
	}
	for i := range silent {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}}
		c, err := from.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Skip("this machine has one loopback address only")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	body, header := s.Modern(fmt.Sprint("u", people)).Encode("1", "prompts/list", "{}")
	newcomer, began := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, time.Now()
	response, err := newcomer.Do(gatewaytest.NewRequest(t.Context(), t, http.MethodPost, s.URL, body, header))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if took := time.Since(began); err != nil || took > time.Second || !strings.Contains(string(answer), `"up.p"`) {
		t.Errorf("the newcomer got %s after %v (%v), want the list within a second", answer, took, err)
	}
	for i, stream := range streams {
		select {
		case _, open := <-stream.Events:
			t.Fatalf("the stream of person %d got an event, or ended: open = %t", i, open)
		default:
		}
	}
}
