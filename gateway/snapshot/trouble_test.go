package snapshot_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream"
)

func TestTroubles_SayWhatWhereWhyAndWhatNext(t *testing.T) {
	up := gatewaytest.NewPeer(t, "billing", "ledger")
	gone := gatewaytest.NewDownPeer(t)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", up, gone))
	s.AwaitTrouble("gone")
	all := s.Snapshot().Troubles()
	if len(all) != 1 || all[0].Upstream != "gone" || all[0].Reason != upstream.Unreachable || all[0].Team != "eng" {
		t.Fatalf("got %+v, want the one that is down", all)
	}
	want := "gone (" + all[0].Place + ") is down: connection refused at " + strings.TrimSuffix(strings.TrimPrefix(gone.URL, "http://"), "/mcp") +
		"; start the server, or correct host and port in the URL"
	if got := all[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What operators are told names addresses and quotes servers: clients, members of the upstream's team included, hear the reason only.
func TestTroubles_AreForOperators(t *testing.T) {
	gone := gatewaytest.NewPeer(t, "gone", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gone, gatewaytest.NewPeer(t, "up", "b")))
	s.AwaitUpstreams()
	gone.Stop()
	s.AwaitTrouble("gone")
	address := strings.TrimPrefix(gone.URL, "http://")
	for method, params := range map[string]string{"prompts/list": "", "prompts/get": gatewaytest.GetParams("gone.a")} {
		r := s.Modern("").CallUnchecked(method, params)
		if !strings.Contains(r.Body, `"reason":"unreachable"`) || strings.Contains(r.Body, "refused") || strings.Contains(r.Body, address) {
			t.Errorf("%s: %s\nwant the reason, and neither cause nor address", method, r.Body)
		}
	}
}
