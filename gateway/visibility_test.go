package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestEachSeesItsOwnAndWhatIsExposed(t *testing.T) {
	s, billing, find := gatewaytest.ServeTwoTeams(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	views := map[string][]string{
		"ann": {"billing.ledger", "billing.review_pr"},
		"bob": {"billing.review_pr", "find.query"},
		"":    {"billing.review_pr"},
	}
	all := []string{"billing.ledger", "billing.review_pr", "billing.wip_x", "billing.debug_y", "find.query", "find.none", "none"}
	for who, view := range views {
		for _, c := range []*gatewaytest.Client{s.Modern(who), s.Legacy("2025-11-25", who)} {
			if diff := cmp.Diff(view, c.List()); diff != "" {
				t.Errorf("%q lists (-want +got):\n%s", who, diff)
			}
			for _, name := range all {
				visible := strings.Contains(strings.Join(view, " ")+" ", name+" ")
				for method, params := range map[string]string{"prompts/get": `{"name":"` + name + `","arguments":{"year":"1"}}`, "completion/complete": gatewaytest.CompleteParams(name)} {
					a := c.Call(method, params)
					if got := !strings.Contains(a.Body, `"error"`); got != visible {
						t.Errorf("%q: %s of %s: visible %v, want %v: %s", who, method, name, got, visible, a.Body)
					}
				}
			}
		}
	}
	if n, m := len(billing.Calls("prompts/get")), len(find.Calls("prompts/get")); n != 2*(2+1+1) || m != 2 {
		t.Errorf("upstreams were asked %d and %d times", n, m)
	}
}

func TestEachPageHasTheSameCacheScope(t *testing.T) {
	up, down := gatewaytest.NewPeer(t, "up", "a", "b", "c"), gatewaytest.NewPeer(t, "down", "d")
	teams := "gateway { page_size = 1 }\n" + gatewaytest.Team("eng", `"user:ann"`, "", up, down)
	for auth, want := range map[string]string{
		"": `"public"`, // everybody sees the same
		"auth {\n" + gatewaytest.Token("ann") + "}\n":                   `"private"`,
		"auth {\nanonymous = true\n" + gatewaytest.Token("ann") + "}\n": `"private"`,
	} {
		s := gatewaytest.Serve(t, auth+teams)
		callers := []*gatewaytest.Client{s.Modern("ann")}
		if strings.Contains(auth, "anonymous") {
			callers = append(callers, s.Modern(""))
		}
		for _, healthy := range []bool{true, false} {
			if !healthy {
				down.Stop()
				upstreamtest.Eventually(t, "it is degraded", func() bool {
					return strings.Contains(callers[0].Call("prompts/list", "").Body, "promptweir/partial")
				})
			}
			for _, c := range callers {
				for params := ""; ; {
					page := c.Call("prompts/list", params)
					if got := string(page.Result(t, "cacheScope")); got != want {
						t.Errorf("with %q, healthy %v: cacheScope %s, want %s: %s", auth, healthy, got, want, page.Body)
					}
					cursor := page.Result(t, "nextCursor")
					if cursor == nil {
						break
					}
					params = `{"cursor":` + string(cursor) + `}`
				}
			}
		}
		down.Restart()
	}
}

func TestWhatIsInvisibleDoesNotExist(t *testing.T) {
	s, billing, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	billing.Stop() // nor does health show
	stdio, legacyStdio, sse := s.Stdio("user:bob"), s.Stdio("user:bob"), s.SSESession("2024-11-05", "bob")
	legacyStdio.Request(`0`, "initialize", `"protocolVersion":"2025-06-18"`)
	legacyStdio.WantMessage(`"protocolVersion":"2025-06-18"`)
	for name, ask := range map[string]asking{
		"modern": askerOf(s.Modern("bob")),
		"legacy": askerOf(s.Legacy("2025-06-18", "bob")),
		"modern over stdio": func(method, params string) string {
			stdio.Request(`1`, method, params[1:len(params)-1]+","+gatewaytest.Meta)
			return stdio.Next()
		},
		"legacy over stdio": func(method, params string) string {
			legacyStdio.Request(`1`, method, params[1:len(params)-1])
			return legacyStdio.Next()
		},
		"HTTP+SSE": func(method, params string) string {
			sse.Request(`1`, method, params[1:len(params)-1])
			return sse.WantMessage()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask.sameAsNone(t, "billing.ledger")
			ask.sameAsNone(t, "billing.wip_x")
			ask.sameAsNone(t, "billing.debug_y")
		})
	}
	ann := askerOf(s.Modern("ann"))
	ann.sameAsNone(t, "find.query")
	ann.sameAsNone(t, "billing.wip_x")
}

// asking asks with a method and its params, an object, and returns all of the answer.
type asking func(method, params string) string

// askerOf asks over HTTP. Status and headers are part of the answer.
func askerOf(c *gatewaytest.Client) asking {
	return func(method, params string) string {
		body, h := c.Encode("1", method, params)
		return gatewaytest.Send(c.TB, http.MethodPost, c.URL, body, h).Dump()
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
		{"completion/complete", gatewaytest.CompleteParams("%")},
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
	s, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+"}")
	for name, h := range map[string]gatewaytest.Headers{
		"none": nil, "unknown": gatewaytest.Bearer("eve"), "empty": {"Authorization", "Bearer "}, "basic": {"Authorization", "Basic YW5uOmFubg=="},
	} {
		for _, a := range []gatewaytest.Response{
			gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","id":5,"method":"initialize","params":`+gatewaytest.InitializeParams("2025-11-25")+`}`, h),
			gatewaytest.Send(t, http.MethodGet, s.URL, "", h),
			gatewaytest.Send(t, http.MethodDelete, s.URL, "", h),
			(&gatewaytest.Client{Server: s, TB: t, Revision: gatewaytest.Latest, Headers: h}).Call("prompts/list", ""),
			(&gatewaytest.Client{Server: s, TB: t, Revision: gatewaytest.Latest, Headers: h}).Call("subscriptions/listen", `{"notifications":{}}`),
			(&gatewaytest.Client{Server: s, TB: t, Revision: gatewaytest.Latest, Headers: h}).Call("server/discover", ""),
		} {
			a.Want(t, http.StatusUnauthorized)
			if got := a.Header.Get("WWW-Authenticate"); got != "Bearer" {
				t.Errorf("%s: WWW-Authenticate %q", name, got)
			}
		}
	}
	open, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann", "payments")+"}")
	open.Modern("").Call("prompts/list", "").Want(t, http.StatusOK)
	open.Modern("eve").Call("prompts/list", "").Want(t, http.StatusUnauthorized)
	// Without an auth block everybody is in every team, whatever they send.
	all, _, _ := gatewaytest.ServeTwoTeams(t, "")
	for _, token := range []string{"", "eve"} {
		if diff := cmp.Diff([]string{"billing.ledger", "billing.review_pr", "find.query"}, all.Modern(token).List()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
