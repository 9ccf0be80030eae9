package gateway_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The server's bound is on how long a request may take to arrive, not on what is then answered.
func TestOnlyTheArrivalOfARequestIsBounded(t *testing.T) {
	const bound = 50 * time.Millisecond
	p := newPeer(t, "up", "p")
	p.intercept(func(w http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method == "prompts/get" {
			time.Sleep(3 * bound) // longer than the request may take
		}
		return false
	})
	s := serve(t, team("eng", "", "", p))
	bounded := unstarted(s.Gateway)
	bounded.Config.ReadTimeout = bound
	bounded.Start()
	t.Cleanup(func() {
		s.Drain()
		bounded.CloseClientConnections()
		bounded.Close()
	})
	s.url = bounded.URL + "/mcp"

	c := s.legacy("2025-06-18", "")
	stream := c.open("s")
	c.call("prompts/get", get("up.p")).is(t, http.StatusOK, "from up")
	s.modern("").call("prompts/get", get("up.p")).is(t, http.StatusOK, "from up")
	p.watched().offer("p", "q")
	stream.changed()

	half, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(bounded.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if _, err := half.Write([]byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	_ = half.SetReadDeadline(time.Now().Add(patience))
	answer := make([]byte, 1000)
	n, err := half.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), "did not arrive whole") {
		t.Errorf("a request of which half arrived is answered %q, %v", answer[:n], err)
	}
}
