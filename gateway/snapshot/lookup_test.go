package snapshot_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Conditions that cannot be evaluated are logged, which shows for which lookup they were evaluated.
func TestLookup_DoesTheSameWorkForHiddenAndUnknownNames(t *testing.T) {
	cfg := gatewaytest.Load(t, `
auth {
`+gatewaytest.Token("ann", "eng")+`
}
team "eng" {
  members = ["group:eng"]
  upstream "p" { url = "https://p.example.com/mcp" }
  hide "costly" {
    prompts = ["p.hidden"]
    when    = principal.claims.none == prompt.name
  }
}`)
	lookup := func(name string) (log string) {
		var out bytes.Buffer
		s, err := publish.Evaluate(t.Context(), cfg, snapshot.Lists{"p": {Definitions: []jsontext.Value{
			jsontext.Value(`{"name":"hidden"}`), jsontext.Value(`{"name":"seen"}`),
		}}}, publish.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		audience := s.Policy.Audience(policy.Principal{Subject: "user:ann", Groups: []string{"group:eng"}})
		entry := s.Lookup(audience, name)
		upstreamtest.Equal(t, name == "p.seen", entry != nil, "%s: found", name)
		log = out.String()
		out.Reset()
		if s.Lookup(audience, "p.hidden"); out.Len() > 0 {
			t.Errorf("a second lookup evaluates again: %s", out.String())
		}
		_, log, _ = strings.Cut(log, "level=")
		return log
	}
	hidden, unknown := lookup("p.hidden"), lookup("p.none")
	if hidden != unknown || hidden == "" {
		t.Errorf("lookups differ:\nhidden:  %s\nunknown: %s", hidden, unknown)
	}
	lookup("p.seen")
}
