package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
)

// The cases named after a version of HTTP must use it: the server answers the proxy in that version, and refuses clients that do not
// speak it.
func TestSecure_SpeaksOneVersionOfHTTP(t *testing.T) {
	for version, want := range map[string]int{"1.1": 1, "2": 2} {
		file := filepath.Join(t.TempDir(), "certificate.pem")
		server := newServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != want {
				t.Errorf("-http %s: a request came by %s", version, r.Proto)
			}
		}))
		server.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the server refuses
		if err := secure(server, file, version); err != nil {
			t.Fatal(err)
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.ServeTLS(listener, "", "") }() // until Close
		defer server.Close()
		trust, err := trusting(file)
		if err != nil {
			t.Fatal(err)
		}
		target := &url.URL{Scheme: "https", Host: listener.Addr().String()}
		w := httptest.NewRecorder()
		proxy(target, trust).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil))
		if w.Code != http.StatusOK {
			t.Errorf("-http %s: %d %s", version, w.Code, w.Body)
		}
		old := &http.Client{Transport: &http.Transport{TLSClientConfig: trust.Clone()}} // speaks HTTP/1.1 only
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := old.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if (err == nil) != (want == 1) {
			t.Errorf("-http %s: a client of HTTP/1.1 gets error %v", version, err)
		}
	}
}
