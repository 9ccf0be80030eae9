package gateway_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// The server's bound is on how long a request may take to arrive, not on what is then answered.
func TestOnlyTheArrivalOfARequestIsBounded(t *testing.T) {
	const bound = 50 * time.Millisecond
	p := gatewaytest.NewPeer(t, "up", "p")
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method == "prompts/get" {
			time.Sleep(3 * bound) // longer than the request may take
		}
		return false
	})
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	bounded := gatewaytest.NewUnstartedServer(s.Gateway)
	bounded.Config.ReadTimeout = bound
	bounded.Start()
	t.Cleanup(func() {
		s.Drain()
		bounded.CloseClientConnections()
		bounded.Close()
	})
	s.URL = bounded.URL + "/mcp"

	c := s.Legacy("2025-06-18", "")
	stream := c.Listen("s")
	c.Call("prompts/get", gatewaytest.GetParams("up.p")).Want(t, http.StatusOK, "from up")
	s.Modern("").Call("prompts/get", gatewaytest.GetParams("up.p")).Want(t, http.StatusOK, "from up")
	p.AwaitStream().Offer("p", "q")
	stream.WantChange()

	half, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(bounded.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if _, err := half.Write([]byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	_ = half.SetReadDeadline(time.Now().Add(gatewaytest.Patience))
	answer := make([]byte, 1000)
	n, err := half.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), "did not arrive whole") {
		t.Errorf("a request of which half arrived is answered %q, %v", answer[:n], err)
	}
}
