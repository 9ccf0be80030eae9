package transport_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestHTTP_NegotiatesContentTypes(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	c := s.Legacy("2025-11-25", "")
	status := func(want int, h ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodPost, c.URL, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(append(gatewaytest.Headers{}, c.Headers...), h...)).Want(t, want)
	}
	status(http.StatusOK)
	status(http.StatusOK, "Content-Type", "application/json; charset=utf-8")
	status(http.StatusOK, "Content-Type", "Application/JSON")
	status(http.StatusUnsupportedMediaType, "Content-Type", "text/plain")
	status(http.StatusUnsupportedMediaType, "Content-Type", "-")
	status(http.StatusUnsupportedMediaType, "Content-Type", "application/jsonp")
	status(http.StatusNotAcceptable, "Accept", "application/json")
	status(http.StatusNotAcceptable, "Accept", "text/event-stream")
	status(http.StatusNotAcceptable, "Accept", "text/html")
	status(http.StatusOK, "Accept", "*/*")
	status(http.StatusOK, "Accept", "TEXT/*;q=0.5, application/json;q=0.9")
}

func TestHTTP_ChecksHostAndOrigin(t *testing.T) {
	s := gatewaytest.Serve(t, `gateway {
  public_url      = "https://prompts.example.com"
  allowed_hosts   = ["weir.internal"]
  allowed_origins = ["https://app.example.com"]
}`)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		status := func(forbidden bool, h ...string) {
			t.Helper()
			a := gatewaytest.Send(t, method, s.URL, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, h)
			if got := a.Status == http.StatusForbidden; got != forbidden {
				t.Errorf("%s with %q: status %d, want forbidden: %t", method, h, a.Status, forbidden)
			}
		}
		status(false)
		status(true, "Host", "evil.example.com")
		status(true, "Origin", "http://evil.example.com")
		status(true, "Origin", "null")
		status(true, "Origin", "http://127.0.0.1.evil.example.com")
		status(true, "Host", "localhost.evil.example.com:8080")
		status(true, "Host", "evil.example.com", "Origin", "http://localhost")
		status(false, "Host", "localhost:1")
		status(false, "Host", "[::1]:8080")
		status(false, "Host", "PROMPTS.example.com")
		status(false, "Host", "weir.internal:443")
		status(false, "Origin", "http://localhost:3000")
		status(false, "Origin", "https://prompts.example.com")
		status(false, "Origin", "https://app.example.com")
		status(true, "Origin", "https://app.example.com.evil.com")
		status(true, "Origin", "http://app.example.com")
	}
}

func TestHTTP_ServesItsPathOnly(t *testing.T) {
	g, err := gateway.New(gatewaytest.Load(t, `gateway { path = "/prompts" }`), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/prompts": http.StatusUnsupportedMediaType, "/mcp": http.StatusNotFound, "/prompts/x": http.StatusNotFound, "/": http.StatusNotFound} {
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, nil))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
}

// A request may name the address that it arrived at as its host: unlike a name, nobody can make an address point elsewhere.
func TestHTTP_AcceptsItsOwnAddressAsHost(t *testing.T) {
	g, err := gateway.New(gatewaytest.Load(t, ``), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"192.0.2.7:8080": http.StatusUnsupportedMediaType, "192.0.2.8:8080": http.StatusForbidden} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 8080})
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/mcp", nil)
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", host, w.Code, want)
		}
	}
}

// ReadTimeout bounds the time that a request takes to arrive, and not the time that its response takes.
func TestHTTP_ReadTimeoutBoundsOnlyTheArrivalOfARequest(t *testing.T) {
	const bound = 50 * time.Millisecond
	p := gatewaytest.NewPeer(t, "up", "p")
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method == "prompts/get" {
			time.Sleep(3 * bound) // longer than the request may take to arrive
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
	if err != nil || !strings.Contains(string(answer[:n]), "did not arrive in full") {
		t.Errorf("half of a request: got %q, %v, want that it did not arrive in full", answer[:n], err)
	}
}
