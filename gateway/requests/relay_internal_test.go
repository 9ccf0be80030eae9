package requests

import (
	"testing"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/policy"
)

func TestRelay_IsBounded(t *testing.T) {
	relay := NewRelayQueue()
	for range 10 * maxRelayed {
		relay.notify([]byte("{}"))
	}
	if !relay.Send([]byte(`"question"`)) {
		t.Error("there is no room for a server request")
	}
	if n := len(relay.Drain()); n != maxRelayed+1 {
		t.Errorf("%d messages are kept, want %d", n, maxRelayed+1)
	}
	for range 10 {
		relay.notify(make([]byte, maxRelayedBytes/4))
	}
	if n := len(relay.Drain()); n != 4 {
		t.Errorf("%d large messages are kept, want 4", n)
	}
	if relay.Close(); relay.Send(nil) {
		t.Error("Send succeeds after Close")
	}
}

// What a client does not read counts for it, server requests too.
func TestRelay_CountsWhatItHolds(t *testing.T) {
	const quarter = 1 << 20
	ledger, relay := edge.New(edge.Options{}), NewRelayQueue()
	release := relay.Hold(ledger, "4194304", "user:ann")
	held := func(want int64) {
		t.Helper()
		if got := ledger.Held(); got != want {
			t.Errorf("%d bytes are held, want %d", got, want)
		}
	}
	half := make([]byte, quarter/2)
	for i := range 3 {
		if ok := relay.Send(half); ok != (i < 2) {
			t.Errorf("half %d of what a client may hold is accepted: %t", i+1, ok)
		}
	}
	relay.Drain()
	if held(quarter); relay.Send(half) {
		t.Error("what is being sent counts for nothing")
	}
	relay.Drain()
	if held(0); !relay.Send(half) {
		t.Error("what was sent counts still")
	}
	relay.Close()
	release()
	held(0)
}

func TestOwner_IsTheCredentialOrTheAddress(t *testing.T) {
	anonymous := policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	for _, test := range []struct {
		principal     policy.Principal
		address, want string
	}{
		{policy.Principal{Subject: "user:ann"}, "192.0.2.1", "user:ann"},
		{anonymous, "192.0.2.1", "192.0.2.1"},
		{anonymous, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{anonymous, "fe80::1%eth0", "fe80::/64"},
		{anonymous, "@", "@"}, // a Unix socket
	} {
		if got := OwnerOf(&test.principal, test.address); got != test.want {
			t.Errorf("%s from %s is %q, want %q", test.principal.Key(), test.address, got, test.want)
		}
	}
	if got, want := OwnerOf(&anonymous, ""), anonymous.Key(); got != want {
		t.Errorf("a caller of whom nothing is known is %q, want %q", got, want)
	}
}
