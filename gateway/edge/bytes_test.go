package edge_test

import (
	"testing"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestLedger_BoundsEachPrincipalAndUpstream(t *testing.T) {
	a := edge.New(edge.Options{Memory: 1000})
	const share = "80%" // 800 bytes: 200 for each principal and each upstream, of that 150 for both
	var held []*edge.Reservation
	acquire := func(want bool, principal, upstream string, bytes int) *edge.Reservation {
		t.Helper()
		h, ok := a.Acquire(share, principal, upstream, bytes)
		upstreamtest.Equal(t, want, ok, "%d bytes for %q and %q are admitted", bytes, principal, upstream)
		held = append(held, &h)
		return &h
	}
	large := acquire(true, "ann", "", 500) // the first may be large
	acquire(false, "ann", "", 1)
	acquire(true, "bob", "git", 150)
	acquire(false, "bob", "git", 1)
	acquire(true, "bob", "wiki", 50)
	acquire(false, "bob", "docs", 1) // bob holds a quarter
	large.Release()
	large.Release() // does nothing
	acquire(true, "ann", "git", 50)
	acquire(false, "cat", "git", 1) // git holds a quarter
	acquire(true, "cat", "docs", 100)
	acquire(true, "dan", "docs", 100)
	acquire(true, "eve", "", 200)
	acquire(true, "fay", "", 150)
	acquire(false, "gus", "", 1) // all is held
	for _, h := range held {
		h.Release()
	}
	upstreamtest.Equal(t, 0, a.Held(), "bytes held after all are released")
	acquire(true, "bob", "git", 900) // nothing is held: even more than there is
}

func TestLedger_HoldGrows(t *testing.T) {
	a := edge.New(edge.Options{Memory: 1 << 20})
	h, ok := a.Acquire("800", "ann", "", 100)
	if !ok || !h.Grow("800", 400) { // alone
		t.Fatal("what is held alone cannot grow")
	}
	other, ok := a.Acquire("800", "ann", "", 1)
	if ok {
		t.Error("a principal with more than a quarter holds another byte")
	}
	other.Release()
	upstreamtest.Equal(t, 400, a.Held(), "bytes held")
	h.Release()
}

func TestLedger_FullOncePrincipalHoldsItsPart(t *testing.T) {
	a := edge.New(edge.Options{Memory: 0})
	full := func(who string) bool { return a.Busy("40000") && a.Full("40000", who) }
	if full("ann") {
		t.Error("nothing is held, and a principal holds as much as it may")
	}
	for range 2 {
		if h, ok := a.Acquire("40000", "ann", "", 5000); !ok {
			t.Fatal("a principal cannot hold its quarter")
		} else {
			defer h.Release()
		}
	}
	if !full("ann") || full("bob") {
		t.Errorf("full: ann %t, bob %t; want only ann", full("ann"), full("bob"))
	}
	if a.Busy("80%") {
		t.Error("a percentage of unknown memory bounds something")
	}
}
