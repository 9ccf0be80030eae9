package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// twoTeams are payments with ann and search with bob. Payments shows its reviews to everybody; its wip is hidden from
// all, by itself and, for debug, by the gateway.
func twoTeams(t testing.TB, auth string) (s *server, billing, find *peer) {
	billing = newPeer(t, "billing", "review_pr", "wip_x", "debug_y", `{"name":"ledger","arguments":[{"name":"year","required":true}]}`)
	find = newPeer(t, "find", "query")
	return serve(t, auth+`
hide "never" { prompts = ["*.debug_*"] }
`+team("payments", `"group:payments"`, `
expose "reviews" {
  prompts = ["billing.review_*", "billing.debug_*"]
  to      = ["*"]
}
hide "half-finished" { prompts = ["billing.wip_*"] }
`, billing)+team("search", `"user:bob"`, "", find)), billing, find
}

func TestEachSeesItsOwnAndWhatIsExposed(t *testing.T) {
	s, billing, find := twoTeams(t, "auth {\n anonymous = true\n"+token("ann", "payments")+token("bob")+"}")
	views := map[string][]string{
		"ann": {"billing.ledger", "billing.review_pr"},
		"bob": {"billing.review_pr", "find.query"},
		"":    {"billing.review_pr"},
	}
	all := []string{"billing.ledger", "billing.review_pr", "billing.wip_x", "billing.debug_y", "find.query", "find.none", "none"}
	for who, view := range views {
		for _, c := range []*client{s.modern(who), s.legacy("2025-11-25", who)} {
			if diff := cmp.Diff(view, c.list()); diff != "" {
				t.Errorf("%q lists (-want +got):\n%s", who, diff)
			}
			for _, name := range all {
				visible := strings.Contains(strings.Join(view, " ")+" ", name+" ")
				for method, params := range map[string]string{"prompts/get": `{"name":"` + name + `","arguments":{"year":"1"}}`, "completion/complete": complete(name)} {
					a := c.call(method, params)
					if got := !strings.Contains(a.body, `"error"`); got != visible {
						t.Errorf("%q: %s of %s: visible %v, want %v: %s", who, method, name, got, visible, a.body)
					}
				}
			}
		}
	}
	if n, m := len(billing.heard("prompts/get")), len(find.heard("prompts/get")); n != 2*(2+1+1) || m != 2 {
		t.Errorf("upstreams were asked %d and %d times", n, m)
	}
}

func TestEachPageHasTheSameCacheScope(t *testing.T) {
	up, down := newPeer(t, "up", "a", "b", "c"), newPeer(t, "down", "d")
	teams := "gateway { page_size = 1 }\n" + team("eng", `"user:ann"`, "", up, down)
	for auth, want := range map[string]string{
		"":                                `"public"`, // everybody sees the same
		"auth {\n" + token("ann") + "}\n": `"private"`,
		"auth {\nanonymous = true\n" + token("ann") + "}\n": `"private"`,
	} {
		s := serve(t, auth+teams)
		callers := []*client{s.modern("ann")}
		if strings.Contains(auth, "anonymous") {
			callers = append(callers, s.modern(""))
		}
		for _, healthy := range []bool{true, false} {
			if !healthy {
				down.stop()
				eventually(t, "it is degraded", func() bool {
					return strings.Contains(callers[0].call("prompts/list", "").body, "promptweir/partial")
				})
			}
			for _, c := range callers {
				for params := ""; ; {
					page := c.call("prompts/list", params)
					if got := string(page.result(t, "cacheScope")); got != want {
						t.Errorf("with %q, healthy %v: cacheScope %s, want %s: %s", auth, healthy, got, want, page.body)
					}
					cursor := page.result(t, "nextCursor")
					if cursor == nil {
						break
					}
					params = `{"cursor":` + string(cursor) + `}`
				}
			}
		}
		down.restart()
	}
}

func TestWhatIsInvisibleDoesNotExist(t *testing.T) {
	s, billing, _ := twoTeams(t, "auth {\n"+token("ann", "payments")+token("bob")+"}")
	billing.stop() // nor does health show
	stdio, legacyStdio, sse := s.stdio("user:bob"), s.stdio("user:bob"), s.initialized("2024-11-05", "bob")
	legacyStdio.request(`0`, "initialize", `"protocolVersion":"2025-06-18"`)
	legacyStdio.expect(`"protocolVersion":"2025-06-18"`)
	for name, ask := range map[string]asking{
		"modern": s.modern("bob").asker(),
		"legacy": s.legacy("2025-06-18", "bob").asker(),
		"modern over stdio": func(method, params string) string {
			stdio.request(`1`, method, params[1:len(params)-1]+","+meta)
			return stdio.next()
		},
		"legacy over stdio": func(method, params string) string {
			legacyStdio.request(`1`, method, params[1:len(params)-1])
			return legacyStdio.next()
		},
		"HTTP+SSE": func(method, params string) string {
			sse.request(`1`, method, params[1:len(params)-1])
			return sse.expect()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask.sameAsNone(t, "billing.ledger")
			ask.sameAsNone(t, "billing.wip_x")
			ask.sameAsNone(t, "billing.debug_y")
		})
	}
	ann := s.modern("ann").asker()
	ann.sameAsNone(t, "find.query")
	ann.sameAsNone(t, "billing.wip_x")
}

// asking asks with a method and its params, an object, and returns all of the answer.
type asking func(method, params string) string

// asker asks over HTTP. Status and headers are part of the answer.
func (c *client) asker() asking {
	return func(method, params string) string {
		body, h := c.envelope("1", method, params)
		return send(c.t, http.MethodPost, c.url, body, h).whole()
	}
}

// sameAsNone compares the answers to requests for a name with those for one of the same length that nobody has.
func (ask asking) sameAsNone(t *testing.T, hidden string) {
	t.Helper()
	made := strings.Repeat("x", len(hidden))
	for _, request := range []struct{ method, params string }{
		{"prompts/get", `{"name":"%"}`},
		{"prompts/get", `{"name":"%","arguments":[]}`},
		{"prompts/get", `{"name":"%","arguments":{}}`},
		{"prompts/get", `{"name":"%","arguments":{"x":"2","year":7}}`},
		{"completion/complete", complete("%")},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"%"},"argument":{"name":"x","value":""}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"%"}}`},
	} {
		answer := func(name string) string {
			return strings.ReplaceAll(ask(request.method, strings.ReplaceAll(request.params, "%", name)), name, "NAME")
		}
		none := answer(made)
		if !strings.Contains(none, "-32602") || !strings.Contains(none, "NAME") {
			t.Errorf("%s of what nobody has: %s", request.method, none)
		}
		if diff := cmp.Diff(none, answer(hidden)); diff != "" {
			t.Errorf("%s %s (-made up +hidden):\n%s", request.method, hidden, diff)
		}
	}
}

func TestAuthentication(t *testing.T) {
	s, _, _ := twoTeams(t, "auth {\n"+token("ann", "payments")+"}")
	for name, h := range map[string]headers{
		"none": nil, "unknown": bearer("eve"), "empty": {"Authorization", "Bearer "}, "basic": {"Authorization", "Basic YW5uOmFubg=="},
	} {
		for _, a := range []answer{
			send(t, http.MethodPost, s.url, `{"jsonrpc":"2.0","id":5,"method":"initialize","params":`+initializeParams("2025-11-25")+`}`, h),
			send(t, http.MethodGet, s.url, "", h),
			send(t, http.MethodDelete, s.url, "", h),
			(&client{server: s, t: t, revision: latest, headers: h}).call("prompts/list", ""),
			(&client{server: s, t: t, revision: latest, headers: h}).call("subscriptions/listen", `{"notifications":{}}`),
			(&client{server: s, t: t, revision: latest, headers: h}).call("server/discover", ""),
		} {
			a.is(t, http.StatusUnauthorized)
			if got := a.header.Get("WWW-Authenticate"); got != "Bearer" {
				t.Errorf("%s: WWW-Authenticate %q", name, got)
			}
		}
	}
	open, _, _ := twoTeams(t, "auth {\n anonymous = true\n"+token("ann", "payments")+"}")
	open.modern("").call("prompts/list", "").is(t, http.StatusOK)
	open.modern("eve").call("prompts/list", "").is(t, http.StatusUnauthorized)
	// Without an auth block everybody is in every team, whatever they send.
	all, _, _ := twoTeams(t, "")
	for _, token := range []string{"", "eve"} {
		if diff := cmp.Diff([]string{"billing.ledger", "billing.review_pr", "find.query"}, all.modern(token).list()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
