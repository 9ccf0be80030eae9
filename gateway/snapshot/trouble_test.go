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
		"; start the server, or correct host and port in url"
	if got := all[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
