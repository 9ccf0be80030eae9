package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestTelemetry_NamesOnlyVisiblePrompts(t *testing.T) {
	spans, reader := gatewaytest.RecordTelemetry(t)
	s, billing, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	billing.AwaitStream().Offer("ledger", "twice", "twice")
	upstreamtest.Eventually(t, "the duplicate is reported", func() bool { return len(s.Reports()) > 0 })
	c := s.Modern("bob")
	long := strings.Repeat("é", 1000)
	c.Call("prompts/get", gatewaytest.GetParams("billing.ledger")).Want(t, http.StatusOK, "-32602")
	c.Call("completion/complete", gatewaytest.CompleteParams("billing.ledger")).Want(t, http.StatusOK, "-32602")
	c.CallWithID(`"`+long+`"`, "no/"+long, "")
	c.CallWithID(`"x`+long+`"`, "prompts/list", "")
	s.Legacy("2025-11-25", "bob").Listen("").Next()
	c.Listen("1")
	names := map[string]bool{}
	for _, span := range spans.Ended() {
		if span.SpanKind() != api.SpanKindServer {
			continue
		}
		names[span.Name()] = true
		for _, a := range span.Attributes() {
			if text := a.Value.String(); strings.Contains(text, "ledger") || len(text) > 100 {
				t.Errorf("span %s has %s=%s", span.Name(), a.Key, text)
			}
		}
	}
	want := map[string]bool{"prompts/get": true, "completion/complete": true, "prompts/list": true, "initialize": true, "subscriptions/listen": true, "_OTHER": true}
	upstreamtest.Equal(t, want, names, "server spans")

	for _, name := range []string{"promptweir.catalog.entries", "promptweir.catalog.reports", "promptweir.upstream.healthy", "mcp.client.operation.duration"} {
		if len(collect(t, reader, name)) == 0 {
			t.Errorf("no metric %s", name)
		}
	}
	upstreamtest.Equal(t, 2, collect(t, reader, "promptweir.subscribers")[""], "subscribers")
	durations := collect(t, reader, "mcp.server.operation.duration")
	if !has(durations, "type=-32602") {
		t.Error("no duration has the error type of a refusal")
	}
	for labels := range durations {
		upstreamtest.Equal(t, 1, strings.Count(labels, "name="), "names in %s", labels)
		for label := range strings.FieldsSeq(labels) {
			if key, _, _ := strings.Cut(label, "="); !slices.Contains([]string{"name", "version", "type", "status_code"}, key) {
				t.Errorf("the metric has the attribute %s", label)
			}
		}
	}
}

func TestTelemetry_RefusedInitializeIsAnErrorOverEachTransport(t *testing.T) {
	const params = `"capabilities":{}` // without a protocolVersion
	for transport, send := range map[string]func(s *gatewaytest.Server){
		"Streamable HTTP": func(s *gatewaytest.Server) {
			s.Legacy("2025-11-25", "").CallUnchecked("initialize", "{"+params+"}")
		},
		"HTTP+SSE": func(s *gatewaytest.Server) { s.SSE("").Request("1", "initialize", params) },
		"stdio":    func(s *gatewaytest.Server) { s.Stdio("").Request("1", "initialize", params) },
	} {
		t.Run(transport, func(t *testing.T) {
			spans, _ := gatewaytest.RecordTelemetry(t)
			send(gatewaytest.Serve(t, ""))
			upstreamtest.Equal(t, codes.Error, gatewaytest.AwaitSpan(t, spans, "initialize", "").Status().Code, "status of the span")
		})
	}
}

func TestTelemetry_RequestIsOneTrace(t *testing.T) {
	spans, _ := gatewaytest.RecordTelemetry(t)
	p := gatewaytest.NewModernPeer(t, "p", "a")
	c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)).Modern("")
	inMeta := strings.Replace(`{"name":"p.a",`+gatewaytest.Meta+`}`, `"_meta":{`, `"_meta":{"traceparent":"`+gatewaytest.TraceA+`","tracestate":"k=v","baggage":"secret=1",`, 1)
	for params, want := range map[string]string{inMeta: "aaaa", gatewaytest.GetParams("p.a"): "bbbb"} {
		c.CallWithID(`"r1"`, "prompts/get", params, "Traceparent", gatewaytest.TraceB, "Baggage", "secret=2").Want(t, http.StatusOK)
		calls := p.Calls("prompts/get")
		last := calls[len(calls)-1]
		server := gatewaytest.AwaitSpan(t, spans, "prompts/get p.a", want)
		client := gatewaytest.AwaitSpan(t, spans, "prompts/get a", want)
		upstreamtest.Equal(t, server.SpanContext().SpanID(), client.Parent().SpanID(), "parent of the client span")
		if got := server.Parent().SpanID().String(); want == "aaaa" && got != "1111111111111111" {
			t.Errorf("the server span's parent is %s", got)
		}
		if server.SpanKind() != api.SpanKindServer || client.SpanKind() != api.SpanKindClient {
			t.Errorf("span kinds %v and %v", server.SpanKind(), client.SpanKind())
		}
		up := client.SpanContext().SpanID().String()
		if !strings.Contains(string(last.Params), up) || !strings.Contains(last.Header.Get("Traceparent"), up) {
			t.Errorf("the upstream got %s and header %q, want span %s in both", last.Params, last.Header.Get("Traceparent"), up)
		}
		if strings.Contains(string(last.Params), "secret") || last.Header.Get("Baggage") != "" {
			t.Errorf("baggage reached the upstream: %s", last.Params)
		}
		for key, value := range map[attribute.Key]string{"mcp.method.name": "prompts/get", "gen_ai.prompt.name": "p.a", "mcp.protocol.version": gatewaytest.Latest, "jsonrpc.request.id": "r1"} {
			if !slices.Contains(server.Attributes(), key.String(value)) {
				t.Errorf("the server span lacks %s=%s: %v", key, value, server.Attributes())
			}
		}
	}
}
