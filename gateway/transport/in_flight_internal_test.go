package transport

import (
	"strconv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestInFlight_BoundsEachSession(t *testing.T) {
	var f inFlight
	one, other := sessionID{1}, sessionID{2}
	begin := func(session sessionID, id int) *cancellable {
		_, c := f.begin(t.Context(), session, jsontext.Value(strconv.Itoa(id/2))) // each id twice
		return c
	}
	var begun []*cancellable
	for i := range maxSessionInFlight {
		c := begin(one, i)
		if c == nil {
			t.Fatalf("request %d of a session is refused, want %d", i, maxSessionInFlight)
		}
		if c.again != (i%2 == 1) {
			t.Fatalf("request %d: id in use = %t", i, c.again)
		}
		begun = append(begun, c)
	}
	if begin(one, maxSessionInFlight) != nil {
		t.Errorf("a session has %d requests in flight, want %d at most", maxSessionInFlight+1, maxSessionInFlight)
	}
	others := begin(other, 0)
	if others == nil {
		t.Fatal("a session is refused because another has too many requests in flight")
	}
	begun[0].end()
	if begun[0] = begin(one, maxSessionInFlight); begun[0] == nil {
		t.Fatal("a session is refused although a request of it is over")
	}
	for _, c := range append(begun, others) {
		c.end()
	}
	if len(f.counts) > 0 || len(f.requests) > 0 {
		t.Errorf("%d sessions and %d requests are kept without a request in flight", len(f.counts), len(f.requests))
	}
}
