package snapshot

import (
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

func empty(tb testing.TB) *Snapshot {
	tb.Helper()
	s, err := Evaluate(&config.Config{}, nil, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// A when may distinguish every token from every other, and there are new tokens all the time while the catalog stays.
func TestViews_AreBounded(t *testing.T) {
	s := empty(t)
	var last *policy.Audience
	for range maxViews + 10 {
		last = new(policy.Audience)
		s.View(last)
	}
	if n := s.views.Len(); n != maxViews {
		t.Errorf("%d views are kept, want %d", n, maxViews)
	}
	next := s.next(s.Generation, s.Catalog, s.States)
	if kept, ok := next.views.Peek(last); !ok || kept != s.view(last) || next.views.Len() != maxViews {
		t.Errorf("of %d views the next snapshot has %d, and not that of the audience that asked last", maxViews, next.views.Len())
	}
}

// someone is a principal who is not everybody.
func someone() policy.Principal {
	return policy.Principal{Subject: "user:ann", Groups: []string{"group:eng", "group:staff"}}
}

// An audience that has asked before finds the view that was built then.
func TestView_LookupAllocatesNothing(t *testing.T) {
	s, principal := empty(t), someone()
	if got := testing.AllocsPerRun(100, func() { s.View(s.Policy.Audience(principal)) }); got > 0 {
		t.Errorf("looking up a view allocates %v times", got)
	}
}

// BenchmarkViewLookup finds a view that was built before: no allocations.
func BenchmarkViewLookup(b *testing.B) {
	s, principal := empty(b), someone()
	b.ReportAllocs()
	for b.Loop() {
		s.View(s.Policy.Audience(principal))
	}
}
