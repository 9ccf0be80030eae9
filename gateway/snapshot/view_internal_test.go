package snapshot

import (
	"log/slog"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func empty(tb testing.TB) *Snapshot {
	tb.Helper()
	g, err := NewGeneration(&config.Config{}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	return New(g, Contents{Catalog: catalog.Merge(nil, catalog.Options{})}, time.Now())
}

// A when expression may tell every token from every other one, so that audiences may come without end.
func TestViews_AreBounded(t *testing.T) {
	s := empty(t)
	var last *policy.Audience
	for range maxViews + 10 {
		last = new(policy.Audience)
		s.View(last)
	}
	upstreamtest.Equal(t, maxViews, s.views.recent.Len(), "views kept")
	next := s.Successor(s.Generation, s.Contents)
	if kept, ok := next.views.recent.Peek(last); !ok || kept != s.views.of(last) || next.views.recent.Len() != maxViews {
		t.Errorf("of %d views the next snapshot has %d, or it lacks that of the latest audience", maxViews, next.views.recent.Len())
	}
}

// someone returns a principal with groups.
func someone() policy.Principal {
	return policy.Principal{Subject: "user:ann", Groups: []string{"group:eng", "group:staff"}}
}

// The view of an audience that asked before is built already.
func TestView_LookupAllocatesNothing(t *testing.T) {
	s, principal := empty(t), someone()
	if got := testing.AllocsPerRun(100, func() { s.View(s.Policy.Audience(principal)) }); got > 0 {
		t.Errorf("looking up a view allocates %v times", got)
	}
}
