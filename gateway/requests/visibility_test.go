package requests_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestVisibility_IsTheTeamsOwnAndExposedPrompts(t *testing.T) {
	s, billing, find := gatewaytest.ServeTwoTeams(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	views := map[string][]string{
		"ann": {"billing.ledger", "billing.review_pr"},
		"bob": {"billing.review_pr", "find.query"},
		"":    {"billing.review_pr"},
	}
	all := []string{"billing.ledger", "billing.review_pr", "billing.wip_x", "billing.debug_y", "find.query", "find.none", "none"}
	for who, view := range views {
		for _, c := range []*gatewaytest.Client{s.Modern(who), s.Legacy("2025-11-25", who)} {
			c.WantList(view...)
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
		t.Errorf("the upstreams received %d and %d gets", n, m)
	}
}

func TestVisibility_HiddenLooksAbsentOverEachTransport(t *testing.T) {
	s, billing, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	billing.Stop() // nor does the health of an upstream show
	stdio, legacyStdio, sse := s.Stdio("user:bob"), s.Stdio("user:bob"), s.SSESession("2024-11-05", "bob")
	legacyStdio.Request(`0`, "initialize", `"protocolVersion":"2025-06-18"`)
	legacyStdio.WantMessage(`"protocolVersion":"2025-06-18"`)
	for name, ask := range map[string]exchange{
		"modern": exchangeOf(s.Modern("bob")),
		"legacy": exchangeOf(s.Legacy("2025-06-18", "bob")),
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
			ask.wantAbsent(t, "billing.ledger")
			ask.wantAbsent(t, "billing.wip_x")
			ask.wantAbsent(t, "billing.debug_y")
		})
	}
	ann := exchangeOf(s.Modern("ann"))
	ann.wantAbsent(t, "find.query")
	ann.wantAbsent(t, "billing.wip_x")
}

// exchange makes a request with params, an object, and returns everything that a client can see of the response.
type exchange func(method, params string) string

// exchangeOf returns the exchange of a client over HTTP, whose responses include the status and the headers.
func exchangeOf(c *gatewaytest.Client) exchange {
	return func(method, params string) string {
		body, h := c.Encode("1", method, params)
		return gatewaytest.Send(c.TB, http.MethodPost, c.URL, body, h).Dump()
	}
}

// wantAbsent wants the responses to requests for a hidden name to equal those for a name of the same length that does not
// exist.
func (ask exchange) wantAbsent(t *testing.T, hidden string) {
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
			t.Errorf("%s of a name that does not exist: %s", request.method, none)
		}
		upstreamtest.Equal(t, none, answer(hidden), "%s %s", request.method, hidden)
	}
}

// A prompt that is hidden, not exposed, not for this caller, renamed or left out looks absent, also to a caller over its
// limit and with invalid arguments.
func TestVisibility_HiddenLooksAbsentForEachReason(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "open", `{"name":"own","arguments":[{"name":"year","required":true}]}`, `{"name":"when","_meta":{"for":"user:ann"}}`,
		`{"name":"broken","_meta":{}}`, `{"name":"renamed","arguments":[{"name":"x"}]}`, "drifted", `{"name":"screened","description":"bad"}`, `{"name":"hidden"}`)
	text := func(lock string) string {
		return "auth {\n anonymous = true\n" + gatewaytest.Token("ann", "eng") + gatewaytest.Token("bob") + "}\n" + gatewaytest.Team("eng", `"group:eng"`, lock+`
  limit {
    rate  = 0.0001
    burst = 1
  }
  prompt "p.renamed" {
    name      = "fresh"
    arguments = { x = "1" }
  }
  screen "bad" { patterns = ["bad"] }
  expose "open" {
    prompts = ["p.open"]
    to      = ["*"]
  }
  expose "when" {
    prompts = ["p.when", "p.broken"]
    to      = ["*"]
    when    = prompt.meta.for == principal.subject
  }
  hide "h" {
    prompts = ["p.hidden"]
    when    = !contains(principal.groups, "group:eng")
  }
`, p)
	}
	lock := gatewaytest.Serve(t, text("")).Lock()
	var kept config.Lock
	for _, l := range lock {
		if l.Name != "p.drifted" {
			kept = append(kept, l)
		}
	}
	s := gatewaytest.ServeLocked(t, text(`lock = "enforce"`), kept)
	if diff := cmp.Diff([]string{"fresh", "p.broken", "p.hidden", "p.open", "p.own", "p.when"}, s.Modern("ann").List()); diff != "" {
		t.Fatalf("ann lists (-want +got):\n%s", diff)
	}
	hidden := map[string][]string{
		"bob": {"p.own", "p.when", "p.broken", "p.renamed", "fresh", "p.drifted", "p.screened", "p.hidden"},
		"":    {"p.own", "p.when", "p.broken", "p.renamed", "fresh", "p.drifted", "p.screened", "p.hidden"},
		"ann": {"p.renamed", "p.drifted", "p.screened"},
	}
	for who, names := range hidden {
		for _, c := range []*gatewaytest.Client{s.Modern(who), s.Legacy("2025-11-25", who)} {
			for _, used := range []bool{false, true} {
				if used {
					c.Call("prompts/get", gatewaytest.GetParams("p.open"))
					c.Call("prompts/get", gatewaytest.GetParams("p.open")).Want(t, http.StatusOK, `"rate_limited"`)
				}
				for _, name := range names {
					exchangeOf(c).wantAbsent(t, name)
				}
			}
		}
	}
}
