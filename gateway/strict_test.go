package gateway_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
)

func TestReadingIsStrict(t *testing.T) {
	s := serve(t, ``)
	c := s.legacy("2025-11-25", "")
	refuse := func(body, code string, more ...string) {
		t.Helper()
		a := send(t, http.MethodPost, c.url, body, c.headers)
		a.is(t, http.StatusBadRequest, append(more, `"code":`+code)...)
		conform(t, "2025-11-25", "", a.body)
	}
	const head = `{"jsonrpc":"2.0","id":1,"method":"ping"`
	refuse(``, "-32700")
	refuse(`null`, "-32700")
	refuse(`{`, "-32700")
	refuse(head+`,"method":"prompts/list"}`, "-32700")
	refuse(head+`,"params":{"a":{"b":1,"\u0062":2}}}`, "-32700")
	refuse(head+",\"params\":{\"a\":\"\xff\"}}", "-32700")
	refuse(head+`,"params":{"a":"\ud800"}}`, "-32700")
	refuse(head+`,"params":{"a":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}}`, "-32700")
	refuse(head+`}`+head+`}`, "-32700")
	refuse(head+`} x`, "-32700")
	refuse(`[`+head+`}]`, "-32600", "Batches")
	refuse(`[]`, "-32600")
	refuse(`{"jsonrpc":"1.0","id":"a","method":"ping"}`, "-32600", `"id":"a"`)
	refuse(`{"id":7,"method":"ping"}`, "-32600", `"id":7`)
	refuse(`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "-32600")
	refuse(`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "-32600")
	refuse(`{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}`, "-32600", `"id":7`)
	refuse(`{"jsonrpc":"2.0","id":7}`, "-32600")
	large := head + `,"params":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`
	send(t, http.MethodPost, c.url, large, c.headers).is(t, http.StatusRequestEntityTooLarge, "too large")
	fits := head + `,"params":{"a":"` + strings.Repeat("x", 3<<20) + `"}}`
	send(t, http.MethodPost, c.url, fits, c.headers).is(t, http.StatusOK)
}

func TestContentNegotiation(t *testing.T) {
	s := serve(t, ``)
	c := s.legacy("2025-11-25", "")
	status := func(want int, h ...string) {
		t.Helper()
		send(t, http.MethodPost, c.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(append(headers{}, c.headers...), h...)).is(t, want)
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

func TestHostAndOrigin(t *testing.T) {
	s := serve(t, `gateway {
  public_url      = "https://prompts.example.com"
  allowed_hosts   = ["weir.internal"]
  allowed_origins = ["https://app.example.com"]
}`)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		status := func(forbidden bool, h ...string) {
			t.Helper()
			a := send(t, method, s.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, h)
			if got := a.status == http.StatusForbidden; got != forbidden {
				t.Errorf("%s with %q: status %d, forbidden should be %v", method, h, a.status, forbidden)
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

func TestTheEndpointIsAtItsPathOnly(t *testing.T) {
	g, err := gateway.New(load(t, `gateway { path = "/prompts" }`), gateway.Options{})
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

// Any address of the gateway's own may come in by its number, since no name can be made to point there.
func TestTheAddressThatARequestCameInBy(t *testing.T) {
	g, err := gateway.New(load(t, ``), gateway.Options{})
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
