package transport_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestLimit_BoundsStreamsOfEachKind(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, "gateway {\n limit { streams = 3 }\n}\n"+ofAnn("", p))
	ann, old := s.Modern("ann"), s.Legacy("2025-11-25", "ann")
	first := ann.Listen("1")
	old.Listen("")
	s.SSE("ann")

	want := []string{`"code":-32603`, `"reason":"rate_limited"`, `"retryAfterMs":1000`}
	body, h := ann.Encode("2", "subscriptions/listen", `{"notifications":{}}`)
	refused := gatewaytest.Send(t, http.MethodPost, s.URL, body, h)
	refused.Want(t, http.StatusTooManyRequests, append(want, `"id":2`)...)
	if got := refused.Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After: %q, want 1", got)
	}
	asStream := gatewaytest.Headers{"Accept", "text/event-stream"}
	gatewaytest.Send(t, http.MethodGet, s.URL, "", append(append(asStream, old.Headers...), asStream...)).Want(t, http.StatusTooManyRequests, want...)
	gatewaytest.Send(t, http.MethodGet, s.SSEURL(), "", append(asStream, gatewaytest.Bearer("ann")...)).Want(t, http.StatusTooManyRequests, want...)
	c := s.Stdio("user:ann")
	c.Request(`3`, "subscriptions/listen", `"notifications":{},`+gatewaytest.Meta)
	c.WantMessage(append(want, `"id":3`)...)

	ann.WantList("p.a") // requests are not streams
	s.Modern("bob").Listen("1")
	first.Close()
	upstreamtest.Eventually(t, "another stream is allowed once one is closed", func() bool {
		c.Request(`4`, "subscriptions/listen", `"notifications":{},`+gatewaytest.Meta)
		return strings.Contains(c.Next(), "acknowledged")
	})
}
