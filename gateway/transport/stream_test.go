package transport_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A stream may be idle for hours, over many reloads and changes of the catalog.
func TestStream_KeepsNeitherSnapshotNorGeneration(t *testing.T) {
	team := gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a"))
	s := gatewaytest.ServeReloadable(t, team, gateway.Options{})
	modern, legacy := s.Modern(""), s.Legacy("2025-11-25", "")
	for name, open := range map[string]func(){ // each returns when its stream is served
		"subscription":  func() { modern.Listen("1") },
		"legacy stream": func() { legacy.Listen("").Next() },
		"HTTP+SSE":      func() { s.SSESession("2024-11-05", "") },
		"stdio": func() {
			c := s.Stdio("")
			c.Request("1", wire.Listen, `"notifications":{"promptsListChanged":true},`+gatewaytest.Meta)
			c.WantMessage(wire.Acknowledged)
		},
	} {
		s.MustReload("# before the stream begins\n" + team)
		snapshot, generation := weak.Make(s.Snapshot()), weak.Make(s.Snapshot().Generation)
		open()
		s.MustReload("# after it has begun\n" + team)
		upstreamtest.Eventually(t, name+" has let go of the snapshot and the generation", func() bool {
			runtime.GC()
			return snapshot.Value() == nil && generation.Value() == nil
		})
	}
}

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
	upstreamtest.Equal(t, "1", refused.Header.Get("Retry-After"), "Retry-After")
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
