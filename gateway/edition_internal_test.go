package gateway

import (
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// A when may tell every token from every other, and tokens are new all the time while the catalog stays.
func TestViewsOfAudiencesThatAreForgottenAreForgotten(t *testing.T) {
	g, err := New(&config.Config{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := g.edition.Load()
	var last *policy.Audience
	for range maxViews + 10 {
		last = new(policy.Audience)
		e.view(last)
	}
	if n := e.views.Len(); n != maxViews {
		t.Errorf("%d views are kept, want %d", n, maxViews)
	}
	next := e.next(e.snapshot, e.states)
	if kept, ok := next.views.Peek(last); !ok || kept != e.audienceView(last) || next.views.Len() != maxViews {
		t.Errorf("of %d views the next edition has %d, and not that of who asked last", maxViews, next.views.Len())
	}
}

// lookUp finds the view of whoever asks, as each list does.
func lookUp(g *Gateway, who policy.Principal) {
	e, audience := g.present(who)
	e.view(audience)
}

// someone is a principal who is not everybody.
func someone() policy.Principal {
	return policy.Principal{Subject: "user:ann", Groups: []string{"group:eng", "group:staff"}}
}

// Whoever has asked before finds the view that was made then.
func TestLookingUpAViewAllocatesNothing(t *testing.T) {
	g, err := New(&config.Config{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	who := someone()
	if got := testing.AllocsPerRun(100, func() { lookUp(g, who) }); got > 0 {
		t.Errorf("looking up a view allocates %v times", got)
	}
}

// BenchmarkViewLookup finds a view that was made before: no allocations.
func BenchmarkViewLookup(b *testing.B) {
	g, err := New(&config.Config{}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	who := someone()
	b.ReportAllocs()
	for b.Loop() {
		lookUp(g, who)
	}
}
