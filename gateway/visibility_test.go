package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// wantAbsent wants the responses to requests for a hidden name to equal those for a name of the same length that does not
// exist.
func wantAbsent(t *testing.T, c *gatewaytest.Client, hidden string) {
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
			body, h := c.Encode("1", request.method, strings.ReplaceAll(request.params, "%", name))
			return strings.ReplaceAll(gatewaytest.Send(t, http.MethodPost, c.URL, body, h).Dump(), name, "NAME")
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
					wantAbsent(t, c, name)
				}
			}
		}
	}
}
