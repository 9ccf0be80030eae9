package gateway_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// Causes for operators name addresses and quote servers: clients, even members of the upstream's team, get the reason only.
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
