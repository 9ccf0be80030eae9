package upstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

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
