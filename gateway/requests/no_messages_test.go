package requests_test

import (
	"net/http"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestGet_WithoutMessagesIsBadResponse(t *testing.T) {
	for _, peer := range []*gatewaytest.Peer{gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewModernPeer(t, "p", "a")} {
		peer.Settings = "breaker { failures = 2 }"
		s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", peer))
		clients := []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", ""), s.Legacy("2024-11-05", "")}
		for _, result := range []string{`{}`, `{"resultType":"complete"}`, `{"messages":null}`, `{"messages":{}}`} {
			peer.Answer("prompts/get", result)
			for _, c := range clients {
				c.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"code":-32603`, `"reason":"bad_response"`)
			}
		}
		peer.Answer("prompts/get", `{"messages":[]}`) // the circuit breaker has not opened
		for _, c := range clients {
			c.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"messages":[]`)
		}
	}
}
