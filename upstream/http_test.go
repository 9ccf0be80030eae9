package upstream_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
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
		"405":                       {405, "", wire.Rev20251125},
		"200 and a text":            {200, "", wire.Rev20251125},
		"400, -32000":               {400, `{"code":-32000,"message":"no session"}`, wire.Rev20251125},
		"500, -32603":               {500, `{"code":-32603,"message":"?"}`, wire.Rev20251125},
		"200, -32601":               {200, `{"code":-32601,"message":"unknown"}`, wire.Rev20251125},
		"-32022, legacy supported":  {400, unsupported(`["2025-11-25","2025-06-18"]`), wire.Rev20251125},
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
	const batch = `[{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"},{"jsonrpc":"2.0","id":ID,"result":{"from":"batch"}}]`
	for name, test := range map[string]struct {
		u              config.Upstream
		revision, kind string
		format         string
		ok             bool
	}{
		"JSON":                      {anywhere(), wire.Rev20250326, wire.ContentJSON, batch, true},
		"an event":                  {anywhere(), wire.Rev20250326, wire.ContentSSE, "data: " + batch + "\n\n", true},
		"an event of HTTP+SSE":      {anywhereSSE(), wire.Rev20250326, wire.ContentJSON, batch, true},
		"another's response only":   {anywhere(), wire.Rev20250326, wire.ContentJSON, strings.Replace(batch, "ID", `"x"`, 1), false},
		"2025-06-18":                {anywhere(), wire.Rev20250618, wire.ContentJSON, batch, false},
		"2024-11-05, over HTTP+SSE": {anywhereSSE(), wire.Rev20241105, wire.ContentJSON, batch, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.u.Protocol = test.revision
			peer := func(t testing.TB) *upstreamtest.Peer {
				p := upstreamtest.NewPeer(t)
				p.Result(wire.Initialize, `{"protocolVersion":"`+test.revision+`","capabilities":{"prompts":{"listChanged":true}}}`)
				p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
					p.Prompts("p", "q")
					text(http.StatusOK, test.kind, strings.Replace(test.format, "ID", string(r.Message.ID), 1))(w, r)
				})
				return p
			}
			inBubble(t, peer, test.u, func(t *testing.T, _ *upstreamtest.Peer, c *upstream.Connector) {
				got, err := get(t.Context(), c, "p")
				if !test.ok {
					wantUnavailable(t, err, upstream.BadResponse)
					return
				}
				if err != nil || got != `{"from":"batch"}` {
					t.Errorf("get = %s, %v", got, err)
				}
				healthyWithin(t, c, time.Second, "p q")
			})
		})
	}
}

// ofEra returns a peer that refuses requests of the other era, as a server does that speaks one era
// only.
func ofEra(t *testing.T, modern bool, refuse func(http.ResponseWriter, *upstreamtest.Request)) *upstreamtest.Peer {
	t.Helper()
	peer := upstreamtest.NewPeer(t)
	if modern {
		peer = upstreamtest.NewModernPeer(t)
	}
	peer.Intercept(func(w http.ResponseWriter, r *upstreamtest.Request) bool {
		other := wire.Modern(r.Header.Get(wire.HeaderProtocolVersion)) != modern && r.Message.Method != wire.Initialize && len(r.Body) > 0
		if other {
			refuse(w, r)
		}
		return other
	})
	return peer
}

// A server that is rolled back, or forward, behind a stable address must not leave a session that
// refuses every get.
func TestEra_ChangeInPlaceHealsWithinTheGet(t *testing.T) {
	answer := func(status int, err string) func(http.ResponseWriter, *upstreamtest.Request) {
		return func(w http.ResponseWriter, r *upstreamtest.Request) { refuseWith(w, r, status, err) }
	}
	unsupported := func(supported string) string {
		return `{"code":-32022,"message":"unsupported","data":{"supported":["` + supported + `"],"requested":"x"}}`
	}
	for name, test := range map[string]struct {
		toModern bool
		refuse   func(http.ResponseWriter, *upstreamtest.Request)
	}{
		"forward, -32022":         {true, answer(http.StatusBadRequest, unsupported(wire.Rev20260728))},
		"forward, -32020":         {true, answer(http.StatusBadRequest, `{"code":-32020,"message":"header mismatch"}`)},
		"forward, unknown method": {true, answer(http.StatusOK, `{"code":-32601,"message":"unknown"}`)},
		"back, text":              {false, status(http.StatusBadRequest)},
		"back, -32022":            {false, answer(http.StatusBadRequest, unsupported(wire.Rev20251125))},
		"back, invalid request":   {false, answer(http.StatusOK, `{"code":-32600,"message":"not initialized"}`)},
		"back, unknown method":    {false, answer(http.StatusOK, `{"code":-32601,"message":"unknown"}`)},
		"back, -32000":            {false, answer(http.StatusOK, `{"code":-32000,"message":"Server not initialized"}`)},
		"back, 404":               {false, status(http.StatusNotFound)},
		"back, 406":               {false, status(http.StatusNotAcceptable)},
		"back, 422":               {false, status(http.StatusUnprocessableEntity)}, // of the Rust SDK
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				before, after := ofEra(t, !test.toModern, status(http.StatusBadRequest)), ofEra(t, test.toModern, test.refuse)
				after.Prompts("p", "new")
				var isReplaced atomic.Bool
				c := start(t, anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if isReplaced.Load() {
						after.ServeHTTP(w, r)
						return
					}
					before.ServeHTTP(w, r)
				})}})
				healthyWithin(t, c, time.Second, "p")
				isReplaced.Store(true) // open streams stay: nothing but the get shows the change
				if got, err := get(t.Context(), c, "p"); err != nil || got != `{"messages":[]}` {
					t.Errorf("get after the change = %s, %v", got, err)
				}
				healthyWithin(t, c, time.Second, "p new")
				wantSeen(t, after, wire.PromptsGet, 2) // one of which was refused
				upstreamtest.Equal(t, test.toModern, wire.Modern(c.State().Revision), "the session's revision is modern")
			})
		})
	}
}
