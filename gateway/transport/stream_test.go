package transport_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// The HTTP server's timeouts are shorter than the streams and responses, and clients reuse their connections.
func TestStream_OutlivesTheServersTimeouts(t *testing.T) {
	const short = 500 * time.Millisecond
	p := gatewaytest.NewPeer(t, "p", "a")
	g, err := gateway.New(gatewaytest.Load(t, gatewaytest.Team("eng", "", "", p)), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gatewaytest.Run(t, g)
	listener := gatewaytest.NewUnstartedServer(g)
	listener.Config.ReadTimeout, listener.Config.WriteTimeout = short, short
	listener.Start()
	t.Cleanup(listener.Close)
	s := &gatewaytest.Server{Gateway: g, TB: t, URL: listener.URL + "/mcp"}
	c := s.Modern("")
	modern, legacy, old := c.Listen("1"), s.Legacy("2025-11-25", "").Listen(""), s.SSESession("2024-11-05", "")
	legacy.Next()
	begun := time.Now()
	upstreamtest.Eventually(t, "time passes", func() bool { return time.Since(begun) > 3*short })
	p.AwaitStream().Offer("b")
	modern.WantChange()
	legacy.WantChange()
	old.WantChange()
	p.Intercept(func(_ http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method == "prompts/get" {
			begun := time.Now()
			upstreamtest.Eventually(t, "time passes", func() bool { return time.Since(begun) > 2*short })
		}
		return false
	})
	for range 3 {
		c.Call("prompts/get", gatewaytest.GetParams("p.b")).Want(t, http.StatusOK, "from p")
	}
	g.Drain()
	if last := modern.Next(); !strings.Contains(last.Data, `"result"`) {
		t.Errorf("the last event is %s, want the result", last.Data)
	}
	modern.WantEnd()
	legacy.WantEnd()
	old.WantEnd()
}
