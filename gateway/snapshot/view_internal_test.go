package snapshot

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func empty(tb testing.TB) *Snapshot {
	tb.Helper()
	s, err := Evaluate(tb.Context(), &config.Config{}, nil, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
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
	next := successor(s, s.Generation)
	next.complete(s, nil)
	if kept, ok := next.views.recent.Peek(last); !ok || kept != s.views.of(last) || next.views.recent.Len() != maxViews {
		t.Errorf("of %d views the next snapshot has %d, or it lacks that of the latest audience", maxViews, next.views.recent.Len())
	}
}

// A panic while a view is built fails one request, and announces the view to its listeners.
func TestView_IsBuiltAnewAfterAPanic(t *testing.T) {
	isBroken, audience := true, new(policy.Audience)
	v := newView(audience, new(atomic.Bool), func() *catalog.View {
		if isBroken {
			panic("out of range")
		}
		return new(catalog.View)
	})
	s := empty(t)
	s.views.recent.Add(audience, v)
	p := &Publisher{logger: slog.New(slog.DiscardHandler)}
	if got := p.fingerprint(s, audience); got != (catalog.Fingerprint{}) || v.ready.Load() {
		t.Errorf("the view has the fingerprint %x, ready: %t", got, v.ready.Load())
	}
	isBroken = false
	if s.View(audience) == nil || !v.ready.Load() {
		t.Error("there is no view after a panic")
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

// BenchmarkViewLookup looks up a view that is built already, without allocations.
func BenchmarkViewLookup(b *testing.B) {
	s, principal := empty(b), someone()
	b.ReportAllocs()
	for b.Loop() {
		s.View(s.Policy.Audience(principal))
	}
}
