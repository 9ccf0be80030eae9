package transport

import "testing"

func TestSessionSlots_BoundEachSession(t *testing.T) {
	var slots sessionSlots
	one, other := sessionID{1}, sessionID{1, 1} // of the same shard
	for i := range maxSessionInFlight {
		if !slots.acquire(one) {
			t.Fatalf("request %d of a session is refused, want %d", i, maxSessionInFlight)
		}
	}
	if slots.acquire(one) {
		t.Errorf("a session has %d requests in flight, want %d at most", maxSessionInFlight+1, maxSessionInFlight)
	}
	if !slots.acquire(other) {
		t.Error("a session is refused because another has too many requests in flight")
	}
	slots.release(one)
	if !slots.acquire(one) {
		t.Error("a session is refused although a request of it is over")
	}
	for range maxSessionInFlight {
		slots.release(one)
	}
	slots.release(other)
	if kept := len(slots.shard(one).counts); kept != 0 {
		t.Errorf("%d sessions are kept without a request in flight", kept)
	}
}
