package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// Whatever keeps a prompt from a caller, it looks as if there were none: whether it is hidden, not exposed, not for this caller, renamed, left
// out, over a limit, or asked for with arguments that are wrong.
func TestNothingTellsWhatExists(t *testing.T) {
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
					askerOf(c).sameAsNone(t, name)
				}
			}
		}
	}
}

// How long the refusal takes says nothing either: what nobody has, and what this caller may not see, in turns.
func BenchmarkUnknownPrompt(b *testing.B) {
	s, _, _ := gatewaytest.ServeTwoTeams(b, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	handler := s.Handler()
	bob := s.Modern("bob")
	took := map[string]time.Duration{}
	names := []string{"billing.nothing", "billing.ledger"}
	requests := map[string]*http.Request{}
	for _, name := range names {
		body, h := bob.Encode("1", "prompts/get", gatewaytest.GetParams(name))
		requests[name] = gatewaytest.NewRequest(b.Context(), b, http.MethodPost, bob.URL, body, h)
		requests[name].Body = nil
	}
	for b.Loop() {
		for _, name := range names {
			r := requests[name].Clone(b.Context())
			r.Body, _ = requests[name].GetBody()
			begun := time.Now()
			handler.ServeHTTP(httptest.NewRecorder(), r)
			took[name] += time.Since(begun)
		}
	}
	b.ReportMetric(float64(took[names[0]])/float64(b.N), "ns/nobody's")
	b.ReportMetric(float64(took[names[1]])/float64(b.N), "ns/somebody's")
}
