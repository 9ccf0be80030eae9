package requests

import "testing"

func TestRelay_IsBounded(t *testing.T) {
	relay := NewRelayQueue()
	for range 10 * maxRelayed {
		relay.notify([]byte("{}"))
	}
	if !relay.Send([]byte(`"question"`)) {
		t.Error("there is no room for a server request")
	}
	if n := len(relay.Take()); n != maxRelayed+1 {
		t.Errorf("%d messages are kept, want %d", n, maxRelayed+1)
	}
	for range 10 {
		relay.notify(make([]byte, maxRelayedBytes/4))
	}
	if n := len(relay.Take()); n != 4 {
		t.Errorf("%d large messages are kept, want 4", n)
	}
	if relay.Close(); relay.Send(nil) {
		t.Error("Send succeeds after Close")
	}
}
