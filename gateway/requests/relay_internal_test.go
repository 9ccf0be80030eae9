package requests

import (
	"testing"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestRelay_IsBounded(t *testing.T) {
	relay := NewRelayQueue()
	for range 10 * maxRelayed {
		relay.add([]byte("{}"), false)
	}
	if !relay.Send([]byte(`"question"`)) {
		t.Error("there is no room for a server request")
	}
	upstreamtest.Equal(t, maxRelayed+1, len(relay.Drain()), "messages kept")
	for range 10 {
		relay.add(make([]byte, maxRelayedBytes/4), false)
	}
	upstreamtest.Equal(t, 4, len(relay.Drain()), "large messages kept")
	if relay.Close(); relay.Send(nil) {
		t.Error("Send succeeds after Close")
	}
}

// Messages that a client does not read count for it, server requests too.
func TestRelay_CountsWhatItHolds(t *testing.T) {
	const quarter = 1 << 20
	ledger, relay := edge.New(edge.Options{}), NewRelayQueue()
	var scope Scope
	relay.Hold(&scope, ledger, "4194304", "user:ann")
	held := func(want int64) {
		t.Helper()
		upstreamtest.Equal(t, want, ledger.Held(), "bytes held")
	}
	half := make([]byte, quarter/2)
	for i := range 3 {
		upstreamtest.Equal(t, i < 2, relay.Send(half), "half %d of what a client may hold is accepted", i+1)
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
	scope.Close()
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
		upstreamtest.Equal(t, test.want, ownerOf(&test.principal, test.address),
			"%s from %s", test.principal.Key(), test.address)
	}
	upstreamtest.Equal(t, anonymous.Key(), ownerOf(&anonymous, ""), "a caller of whom nothing is known")
}
