package upstream_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A server of 2025-03-26 may send batches over any transport; one of another revision may not.
func TestBatch_IsReadInItsRevisionOnly(t *testing.T) {
	t.Parallel()
	const changed = `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`
	response := func(id any) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"from":"batch"}}`, id) }
	for name, test := range map[string]struct {
		framing, revision string
		batch             func(id any) string
		ok                bool
	}{
		"JSON":                      {"JSON", wire.Rev20250326, func(id any) string { return "[" + changed + ",\n" + response(id) + "]" }, true},
		"an event":                  {"SSE", wire.Rev20250326, func(id any) string { return "[" + response(id) + "," + changed + "]" }, true},
		"an event of HTTP+SSE":      {"HTTP+SSE", wire.Rev20250326, func(id any) string { return "[" + changed + "," + response(id) + "]" }, true},
		"another's response":        {"JSON", wire.Rev20250326, func(id any) string { return "[" + response(`"x"`) + "," + response(id) + "]" }, true},
		"another's response only":   {"JSON", wire.Rev20250326, func(any) string { return "[" + response(`"x"`) + "]" }, false},
		"an empty one":              {"JSON", wire.Rev20250326, func(any) string { return "[]" }, false},
		"what is no message":        {"SSE", wire.Rev20250326, func(id any) string { return "[" + response(id) + ",{}]" }, false},
		"one in another":            {"JSON", wire.Rev20250326, func(id any) string { return "[[" + response(id) + "]]" }, false},
		"2025-06-18":                {"JSON", wire.Rev20250618, func(id any) string { return "[" + response(id) + "]" }, false},
		"2024-11-05":                {"SSE", wire.Rev20241105, func(id any) string { return "[" + response(id) + "]" }, false},
		"2024-11-05, over HTTP+SSE": {"HTTP+SSE", wire.Rev20241105, func(id any) string { return "[" + response(id) + "]" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			peer.Result(wire.Initialize, `{"protocolVersion":"`+test.revision+`","capabilities":{"prompts":{"listChanged":true}}}`)
			peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
				peer.Prompts("p", "q")
				text := test.batch(r.Message.ID)
				if test.framing == "SSE" {
					upstreamtest.Event(w, strings.ReplaceAll(text, "\n", ""))
					return
				}
				w.Header().Set("Content-Type", wire.ContentJSON)
				fmt.Fprint(w, text)
			})
			var handler http.Handler = peer
			if test.framing == "HTTP+SSE" {
				handler = upstreamtest.SSE(peer)
			}
			u := sseUpstream(upstreamtest.Serve(t, handler).URL, test.framing == "HTTP+SSE")
			u.Protocol = test.revision
			c := start(t, u, upstream.Options{})
			waitForNames(t, c, "p")
			got, err := get(t.Context(), c, "p")
			if (err == nil) != test.ok || (test.ok && got != `{"from":"batch"}`) {
				t.Errorf("get = %s, %v, want an answer: %v", got, err, test.ok)
			}
			if strings.Contains(test.batch("1"), changed) {
				waitForNames(t, c, "p q")
			}
			if !test.ok {
				wantUnavailable(t, err, upstream.BadResponse)
			}
		})
	}
	t.Run("a line", func(t *testing.T) {
		t.Parallel()
		for _, faults := range [][]string{{"batches"}, nil} {
			u := upstreamtest.Child(t, "scripted", "script", faults...)
			if faults == nil { // the response is ignored
				u.Timeout = 3 * time.Second
			}
			c := start(t, u, upstream.Options{})
			waitForNames(t, c, "scripted")
			if got, err := get(t.Context(), c, "batch"); (err == nil) != (faults != nil) || (err == nil && got != `{"from":"batch"}`) {
				t.Errorf("%q: get = %s, %v", faults, got, err)
			}
		}
	})
}
