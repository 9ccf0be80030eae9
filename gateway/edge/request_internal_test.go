package edge

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// gated is a listener whose connections ask a function about each request.
type gated struct {
	net.Listener

	ask func() bool
}

func (l gated) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if c, ok := c.(*Conn); ok {
		c.onRequest(l.ask)
	}
	return c, err
}

// serveGated runs a server that answers 503 to the requests that a function refuses.
func serveGated(t *testing.T, http2 bool, ask func() bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if FromContext(r.Context()).Refuses(r.ProtoMajor == 2) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	s.Listener = gated{unbounded().Listen(s.Config, s.Listener, nil), ask}
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func TestConn_AsksOnceForEachRequest(t *testing.T) {
	var asked atomic.Int64
	s := serveGated(t, false, func() bool { return asked.Add(1) != 2 }) // it refuses the second one
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i, want := range []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusOK, http.StatusOK} {
		for _, part := range []string{"POST / HTTP/1.1\r\nHost: ", "localhost\r\nContent-Length: 4\r\n\r\n", "ab", "cd"} {
			if _, err := fmt.Fprint(conn, part); err != nil {
				t.Fatal(err)
			}
		}
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // it is empty
		if response.StatusCode != want {
			t.Errorf("request %d: %s, want %d", i+1, response.Status, want)
		}
		if got := asked.Load(); got != int64(i+1) {
			t.Errorf("asked %d times about %d requests", got, i+1)
		}
	}
}

func TestConn_AsksAboutEachRequestOfHTTP2(t *testing.T) {
	var refuse atomic.Bool
	s := serveGated(t, true, func() bool { return !refuse.Load() })
	for i := range 6 {
		refuse.Store(i%2 == 1)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // it is empty
		if response.ProtoMajor != 2 {
			t.Fatalf("request %d: %s, want HTTP/2", i+1, response.Proto)
		}
		if refused := response.StatusCode == http.StatusServiceUnavailable; refused != refuse.Load() {
			t.Errorf("request %d: %s, want refused = %v", i+1, response.Status, refuse.Load())
		}
	}
}
