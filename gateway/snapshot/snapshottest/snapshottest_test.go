package snapshottest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

const docs = `team "eng" {
  upstream "docs" { url = "http://127.0.0.1:1/docs" }
  upstream "gone" { url = "http://127.0.0.1:1/gone" }
}
`

func TestNew_HoldsListsAndAnswersCalls(t *testing.T) {
	server := &snapshottest.Upstream{
		Definitions: []string{`{"name":"intro"}`},
		Answer: func(_ context.Context, request *upstream.Request, _ *upstream.Relay) (upstream.Result, error) {
			return snapshottest.Result(`{"of":"` + request.Name + `"}`), nil
		},
	}
	p := snapshottest.New(t, docs, snapshottest.Upstreams{"docs": server})
	s := p.Current()
	audience := s.Policy.Audience(policy.Principal{Anonymous: true, EveryTeam: true})
	if s.Lookup(audience, "docs.intro") == nil || !s.Listed(0) || s.Listed(1) || s.AllTried() {
		t.Fatalf("docs.intro is %v, listed: %t and %t, all tried: %t; want docs.intro, and an upstream that was never reached",
			s.Lookup(audience, "docs.intro"), s.Listed(0), s.Listed(1), s.AllTried())
	}
	request := &upstream.Request{Name: "intro"}
	result, err := s.Connector("docs").Call(t.Context(), request, nil)
	if err != nil || string(result.JSON) != `{"of":"intro"}` || len(server.Calls()) != 1 {
		t.Errorf("the call returns %s, %v after %d calls", result.JSON, err, len(server.Calls()))
	}
	missing := errors.New("missing")
	request.Check = func(upstream.Result) error { return missing }
	if _, err := s.Connector("docs").Call(t.Context(), request, nil); !errors.Is(err, missing) {
		t.Errorf("a result that fails its check has the error %v", err)
	}
}

func TestStart_PublishesChangesAndReloads(t *testing.T) {
	server := &snapshottest.Upstream{Definitions: []string{`{"name":"intro"}`}}
	p := snapshottest.New(t, docs, snapshottest.Upstreams{"docs": server})
	p.Start()
	has := func(name string) func() bool {
		return func() bool { return p.Current().Catalog.Lookup(name) != nil }
	}
	server.List(`{"name":"other"}`)
	upstreamtest.Eventually(t, "the new list is published", has("docs.other"))
	server.Fail(upstream.Unreachable, errors.New("refused"))
	upstreamtest.Eventually(t, "the problem is published", func() bool { return p.Current().States[0].Problem != nil })
	p.Reload(`team "eng" {
  upstream "docs" {
    url    = "http://127.0.0.1:1/docs"
    prefix = "d"
  }
}
`)
	if !has("d.other")() {
		t.Error("the reload is not published")
	}
}
