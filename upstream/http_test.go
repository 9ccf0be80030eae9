package upstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestProbe_DecidesTheEraOverHTTP(t *testing.T) {
	t.Parallel()
	unsupported := func(supported string) string {
		return `{"code":-32022,"message":"unsupported","data":{"supported":` + supported + `,"requested":"2026-07-28"}}`
	}
	for name, test := range map[string]struct {
		status int
		err    string // "" for a text
		want   any    // revision or reason
	}{
		"500":                       {500, "", wire.Rev20251125},
		"404":                       {404, "", wire.Rev20251125},
		"405":                       {405, "", wire.Rev20251125},
		"202":                       {202, "", wire.Rev20251125},
		"200 and a text":            {200, "", wire.Rev20251125},
		"400, -32000":               {400, `{"code":-32000,"message":"no session"}`, wire.Rev20251125},
		"400, -32602":               {400, `{"code":-32602,"message":"initialize first"}`, wire.Rev20251125},
		"500, -32603":               {500, `{"code":-32603,"message":"?"}`, wire.Rev20251125},
		"200, -32601":               {200, `{"code":-32601,"message":"unknown"}`, wire.Rev20251125},
		"200, 0":                    {200, `{"code":0,"message":"unknown"}`, wire.Rev20251125},
		"-32022, legacy supported":  {400, unsupported(`["2025-11-25","2025-06-18"]`), wire.Rev20251125},
		"-32022, nothing":           {400, `{"code":-32022,"message":"unsupported"}`, wire.Rev20251125},
		"-32022, modern supported":  {400, unsupported(`["2026-07-28","2025-06-18"]`), upstream.BadResponse},
		"-32020":                    {400, `{"code":-32020,"message":"header mismatch"}`, upstream.BadResponse},
		"-32021":                    {400, `{"code":-32021,"message":"capability"}`, upstream.BadResponse},
		"401":                       {401, "", upstream.Denied},
		"403":                       {403, "", upstream.Denied},
		"401, and a JSON-RPC error": {401, `{"code":-32001,"message":"who are you"}`, upstream.Denied},
		"429":                       {429, "", upstream.RateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			if test.err == "" {
				peer.Status(wire.Discover, test.status)
			} else {
				peer.Error(wire.Discover, test.status, test.err)
			}
			c := startTried(t, upstreamtest.HTTP("probed", upstreamtest.Serve(t, peer).URL))
			state := c.State()
			if revision, ok := test.want.(string); ok {
				if state.Revision != revision || !state.Listed {
					t.Errorf("State() = %+v, problem %+v, want %s", state, state.Problem, revision)
				}
				return
			}
			if state.Problem == nil || state.Problem.Reason != test.want || len(peer.Seen(wire.Initialize)) > 0 {
				t.Errorf("State() = %+v, problem %+v, want %s and no handshake", state, state.Problem, test.want)
			}
		})
	}
}

// object parses a JSON object.
func object(t *testing.T, text string) wire.Object {
	t.Helper()
	o, err := wire.ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestHTTP_FollowsNoRedirectAndShowsNoSecret(t *testing.T) {
	t.Parallel()
	elsewhere := upstreamtest.NewPeer(t)
	target := upstreamtest.Serve(t, elsewhere).URL
	for _, status := range []int{301, 302, 303, 307, 308} {
		redirecting := upstreamtest.Serve(t, http.RedirectHandler(target, status))
		u := upstreamtest.HTTP("redirecting", redirecting.URL+"/?key=s3cret")
		u.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer s3cret")}
		c, log := startLogged(t, u)
		upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })
		redirecting.Down()
		_, err := get(t.Context(), c, "p")
		for _, text := range []string{log.String(), c.State().Problem.Err.Error(), err.Error()} {
			if strings.Contains(text, "s3cret") {
				t.Errorf("told: %s", text)
			}
		}
		wantLogged(t, log, "redirects are not followed")
	}
	wantSeen(t, elsewhere, http.MethodPost, 0)
	down := upstreamtest.Serve(t, elsewhere)
	down.Down()
	_, err := client.Connect(t.Context(), upstreamtest.HTTP("down", down.URL+"/s3cret"), upstream.Options{})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Connect() = %v", err)
	}
}

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

// swappable is an address behind which the server can change.
type swappable struct{ now atomic.Pointer[http.Handler] }

func (s *swappable) swap(h http.Handler) { s.now.Store(&h) }

func (s *swappable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.now.Load()).ServeHTTP(w, r)
}

// ofEra returns a peer that refuses requests of the other era, as a server does that speaks one era
// only.
func ofEra(t *testing.T, modern bool, refuse func(w http.ResponseWriter, r *http.Request, id string)) (*upstreamtest.Peer, http.Handler) {
	t.Helper()
	peer := upstreamtest.NewPeer(t)
	if modern {
		peer = upstreamtest.NewModernPeer(t)
	}
	return peer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && wire.Modern(r.Header.Get(wire.HeaderProtocolVersion)) != modern {
			raw, _ := io.ReadAll(r.Body)
			message, err := wire.Parse(raw)
			if err == nil && message.Method != wire.Initialize {
				refuse(w, r, string(message.ID))
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(raw))
		}
		peer.ServeHTTP(w, r)
	})
}

// A server that is rolled back, or forward, behind a stable address must not leave a session that
// refuses every get.
func TestEra_ChangeInPlaceHealsWithinTheGet(t *testing.T) {
	t.Parallel()
	answer := func(status int, err string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", wire.ContentJSON)
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, err)
		}
	}
	page := func(status int) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, _ *http.Request, _ string) { http.Error(w, "no session", status) }
	}
	text := page(http.StatusBadRequest)
	unsupported := func(supported string) string {
		return `{"code":-32022,"message":"unsupported","data":{"supported":["` + supported + `"],"requested":"x"}}`
	}
	for name, test := range map[string]struct {
		toModern bool
		refuse   func(http.ResponseWriter, *http.Request, string)
	}{
		"forward, -32022":         {true, answer(http.StatusBadRequest, unsupported(wire.Rev20260728))},
		"forward, -32020":         {true, answer(http.StatusBadRequest, `{"code":-32020,"message":"header mismatch"}`)},
		"forward, unknown method": {true, answer(http.StatusOK, `{"code":-32601,"message":"unknown"}`)},
		"back, text":              {false, text},
		"back, -32022":            {false, answer(http.StatusBadRequest, unsupported(wire.Rev20251125))},
		"back, invalid request":   {false, answer(http.StatusOK, `{"code":-32600,"message":"not initialized"}`)},
		"back, unknown method":    {false, answer(http.StatusOK, `{"code":-32601,"message":"unknown"}`)},
		"back, -32000":            {false, answer(http.StatusOK, `{"code":-32000,"message":"Server not initialized"}`)},
		"back, 404":               {false, page(http.StatusNotFound)},
		"back, 406":               {false, page(http.StatusNotAcceptable)},
		"back, 422":               {false, page(http.StatusUnprocessableEntity)}, // of the Rust SDK
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var address swappable
			before, old := ofEra(t, !test.toModern, text)
			after, next := ofEra(t, test.toModern, test.refuse)
			after.Prompts("p", "new")
			address.swap(old)
			var log upstreamtest.Log
			c := start(t, upstreamtest.HTTP("swapped", upstreamtest.Serve(t, &address).URL), upstream.Options{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			waitForNames(t, c, "p")
			address.swap(next) // open streams stay: nothing but the get shows the change
			if got, err := get(t.Context(), c, "p"); err != nil || got != `{"messages":[]}` {
				t.Errorf("get after the change = %s, %v", got, err)
			}
			waitForNames(t, c, "p new")
			wantSeen(t, after, wire.PromptsGet, 1)
			if got, want := wire.Modern(c.State().Revision), test.toModern; got != want {
				t.Errorf("the session speaks %s", c.State().Revision)
			}
			wantLogged(t, &log, "session lost")
			before.Break()
		})
	}
}

// The same codes are ordinary answers of a server whose era has not changed.
func TestEra_OrdinaryRefusalKeepsSession(t *testing.T) {
	t.Parallel()
	for name, peer := range map[string]*upstreamtest.Peer{"legacy": upstreamtest.NewPeer(t), "modern": upstreamtest.NewModernPeer(t)} {
		for _, code := range []int{-32600, -32601, -32020, -32022, -32000} {
			c := start(t, upstreamtest.HTTP(name, upstreamtest.Serve(t, peer).URL), upstream.Options{})
			waitForNames(t, c, "p")
			handshakes := len(peer.Seen(wire.Initialize))
			peer.Error(wire.PromptsGet, http.StatusOK, fmt.Sprintf(`{"code":%d,"message":"no"}`, code))
			_, err := get(t.Context(), c, "p")
			if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Code != int64(code) {
				t.Errorf("%s: get = %v, want %d", name, err, code)
			}
			wantSeen(t, peer, wire.Initialize, handshakes)
		}
	}
}
