package upstream_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// compressing is a writer whose body is compressed, whatever the request allows.
type compressing struct {
	http.ResponseWriter

	to   *gzip.Writer
	once sync.Once
}

func (w *compressing) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(p)
}

func (w *compressing) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.once.Do(func() { w.ResponseWriter.WriteHeader(status) })
}

func (w *compressing) Flush() {
	w.WriteHeader(http.StatusOK)
	_ = w.to.Flush()
	w.ResponseWriter.(http.Flusher).Flush()
}

// compressed is a server that compresses all of its responses.
type compressed struct{ handler http.Handler }

func (s compressed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	to := gzip.NewWriter(w)
	s.handler.ServeHTTP(&compressing{ResponseWriter: w, to: to}, r)
	_ = to.Close()
}

func TestEncoding_CompressedResponsesAreRead(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := kind.peer(t)
			server := upstreamtest.Serve(t, compressed{handlerFor(anywhere(), p)})
			u := upstreamtest.HTTP("compressed", server.URL)
			if kind.transport == "sse" {
				server.Down()
				server.Up(compressed{upstreamtest.SSE(p)})
				u = sseUpstream(server.URL, true)
			}
			c := start(t, u, upstream.Options{})
			waitForNames(t, c, "p")
			p.Error(wire.PromptsGet, http.StatusBadRequest, `{"code":-32602,"message":"unknown prompt"}`)
			if _, err := get(t.Context(), c, "p"); kind.transport != "sse" && (err == nil || !strings.Contains(err.Error(), "unknown prompt")) {
				t.Errorf("get = %v, want the server's error", err)
			}
			p.Prompts("p", "q")
			p.Changed()
			if p.Streams() > 0 {
				waitForNames(t, c, "p q")
			}
			for _, r := range append(p.Seen(wire.PromptsList), p.Seen(http.MethodGet)...) {
				if got := r.Header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("Accept-Encoding is %q", got)
				}
			}
		})
	}
}

func TestEncoding_IsRefused(t *testing.T) {
	var bomb bytes.Buffer
	to := gzip.NewWriter(&bomb)
	for range 64 {
		_, _ = to.Write(bytes.Repeat([]byte(" "), 1<<20))
	}
	_ = to.Close()
	for name, test := range map[string]struct{ coding, body, want string }{
		"another coding": {"br", "\x8b\x02", `the content coding "br"`},
		"a bomb":         {"gzip", bomb.String(), "larger than max_message"},
		"not gzip":       {"gzip", `{"jsonrpc":"2.0"}`, "gzip: invalid header"},
	} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.MaxMessage = 1 << 20
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
					w.Header().Set("Content-Encoding", test.coding)
					text(http.StatusOK, wire.ContentJSON, test.body)(w, r)
				})
				_, err := get(t.Context(), c, "p")
				wantUnavailable(t, err, upstream.BadResponse)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("get = %v, want %s", err, test.want)
				}
			})
		})
	}
}
