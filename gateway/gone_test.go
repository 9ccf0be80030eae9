package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A get whose client has gone is not sent to a server.
func TestGateway_SendsNothingForAClientThatHasGone(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "x")
	sent := make(chan string, 100)
	p.OnGet(func(_ http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		sent <- call.Method
		return false
	})
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+"}\n"+gatewaytest.Team("eng", `"user:ann"`, "", p))
	c := s.Legacy("2025-11-25", "ann")
	get := func(ctx context.Context) {
		body, headers := c.Encode("1", wire.PromptsGet, gatewaytest.GetParams("up.x"))
		s.Handler().ServeHTTP(httptest.NewRecorder(), gatewaytest.NewRequest(ctx, t, http.MethodPost, s.URL, body, headers))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		get(gone)
	}
	get(t.Context())
	// Those that were sent would have been before this one, which is.
	if <-sent; len(sent) > 0 {
		t.Errorf("%d of 50 gets were sent whose clients had gone", len(sent))
	}
}
