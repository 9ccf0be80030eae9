package transport_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
	r := gatewaytest.ServeReloadable(t, team, gateway.Options{})
	server := httptest.NewUnstartedServer(r.Handler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		r.Drain()
		server.CloseClientConnections()
		server.Close()
	})
	s := &gatewaytest.Server{Gateway: r.Gateway, TB: t, URL: server.URL + "/mcp"}
	modern, legacy := s.Modern(""), s.Legacy("2025-11-25", "")
	listen, headers := modern.Encode("1", wire.Listen, `{"notifications":{"promptsListChanged":true}}`)
	// Each opens a stream, and returns when it is served.
	overHTTP := func(t *testing.T, major int, request *http.Request) {
		t.Helper()
		protocols := new(http.Protocols)
		protocols.SetHTTP1(major == 1)
		protocols.SetUnencryptedHTTP2(major == 2)
		response, err := (&http.Client{Transport: &http.Transport{Protocols: protocols}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.StatusCode != http.StatusOK || response.ProtoMajor != major {
			t.Fatalf("status %d over %s, want 200 over HTTP/%d", response.StatusCode, response.Proto, major)
		}
		if _, err := response.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	streams := map[string]func(t *testing.T){
		"subscription over stdio": func(*testing.T) {
			c := s.Stdio("")
			c.Send(listen)
			c.WantMessage(wire.Acknowledged)
		},
		"legacy session over stdio": func(*testing.T) {
			c := s.Stdio("")
			c.Request("1", wire.Initialize, `"protocolVersion":"2025-11-25"`)
			c.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			c.Request("2", wire.Ping, "")
			c.WantMessage(`"id":1`)
			c.WantMessage(`"id":2`)
		},
	}
	for _, major := range []int{1, 2} {
		over := fmt.Sprintf(" over HTTP/%d", major)
		streams["subscription"+over] = func(t *testing.T) {
			overHTTP(t, major, gatewaytest.NewRequest(t.Context(), t, http.MethodPost, s.URL, listen, headers))
		}
		streams["legacy stream"+over] = func(t *testing.T) {
			overHTTP(t, major, gatewaytest.NewRequest(t.Context(), t, http.MethodGet, s.URL, "", legacy.Headers))
		}
		streams["HTTP+SSE"+over] = func(t *testing.T) {
			overHTTP(t, major, gatewaytest.NewRequest(t.Context(), t, http.MethodGet, s.SSEURL(), "", nil))
		}
	}
	for name, open := range streams {
		t.Run(name, func(t *testing.T) {
			r.MustReload("# before the stream begins\n" + team)
			snapshot, generation := weak.Make(s.Snapshot()), weak.Make(s.Snapshot().Generation)
			open(t)
			r.MustReload("# after it has begun\n" + team)
			upstreamtest.Eventually(t, "the snapshot and the generation are gone", func() bool {
				runtime.GC()
				return snapshot.Value() == nil && generation.Value() == nil
			})
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
