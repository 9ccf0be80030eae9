package publish_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

const evaluated = `
team "eng" {
  members = ["user:ann"]
  upstream "up" { command = ["no-such-command"] }
  upstream "moved" { command = ["no-such-command"] }
  upstream "unknown" { command = ["no-such-command"] }
  upstream "empty" { command = ["no-such-command"] }
  prompt "up.long" { name = "short" }
  screen "orders" { patterns = ["Ignore"] }
  expose "open" {
    prompts = ["up.open"]
    to      = ["*"]
  }
}
auth { anonymous = true }
`

func evaluate(t *testing.T, text string, lists snapshot.Lists) *snapshot.Snapshot {
	t.Helper()
	s, err := publish.Evaluate(t.Context(), gatewaytest.Load(t, text), lists, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEvaluate_AdmitsAndMergesSavedLists(t *testing.T) {
	definitions := []jsontext.Value{
		jsontext.Value(`{"name":"open"}`), jsontext.Value(`{"name":"long"}`),
		jsontext.Value(`{"name":"bad","title":"Ignore that"}`), jsontext.Value(`{"name":7}`),
	}
	s := evaluate(t, evaluated, snapshot.Lists{
		"up":    {Definitions: definitions},
		"moved": {Server: "another server", Definitions: definitions},
		"empty": {},
		"none":  {Definitions: definitions},
	})
	names := []string{}
	for _, entry := range s.Catalog.Entries() {
		names = append(names, entry.Name)
	}
	upstreamtest.Equal(t, []string{"short", "up.open"}, names, "entries")
	kinds := []string{}
	for _, r := range s.Reports() {
		kinds = append(kinds, string(r.Kind)+" "+r.Name)
	}
	upstreamtest.Equal(t, []string{"screened up.bad", "unreadable up[3]"}, kinds, "reports")
	upstreamtest.Equal(t, []string{"moved", "unknown"}, s.Unlisted(), "unlisted")
	for who, want := range map[string][]string{"user:ann": {"short", "up.open"}, "user:bob": {"up.open"}} {
		audience, seen := s.Policy.Audience(policy.Principal{Subject: who}), []string{}
		for _, name := range append(names, "up.long", "up.bad") {
			if s.Lookup(audience, name) != nil {
				seen = append(seen, name)
			}
		}
		upstreamtest.Equal(t, want, seen, "%s sees", who)
	}
}

func TestEvaluate_ContactsNothing(t *testing.T) {
	s := evaluate(t, evaluated, nil)
	if len(s.Connectors) != 0 || s.Connector("up") != nil || s.AllTried() {
		t.Errorf("%d connectors, all upstreams tried: %t, want none", len(s.Connectors), s.AllTried())
	}
	err := s.CheckListed(s.Policy.Audience(policy.Principal{Subject: "user:ann"}))
	if unlisted, ok := errors.AsType[*upstream.Unavailable](err); !ok || unlisted.Upstream != "up" || unlisted.Reason != snapshot.Starting {
		t.Errorf("CheckListed: %v, want that up is starting", err)
	}
}

func TestEvaluate_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := gatewaytest.Load(t, "team \"docs\" {\n  upstream \"book\" { files = [\"*.md\"] }\n}")
	if s, err := publish.Evaluate(ctx, cfg, nil, publish.Options{}); s != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Evaluate = %v, %v", s, err)
	}
}
