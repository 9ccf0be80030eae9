package gateway_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// record puts a recorder in the place of the global providers until the test ends. Such tests run one at a time.
func record(t *testing.T) (*tracetest.SpanRecorder, *metric.ManualReader) {
	t.Helper()
	spans, reader := tracetest.NewSpanRecorder(), metric.NewManualReader()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	t.Cleanup(func() {
		otel.SetTracerProvider(tracenoop.NewTracerProvider()) // what was there has handed itself over to the recorder
		otel.SetMeterProvider(metricnoop.NewMeterProvider())
	})
	return spans, reader
}

const (
	traceA = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01"
	traceB = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-2222222222222222-01"
)

func TestOneRequestIsOneTrace(t *testing.T) {
	spans, _ := record(t)
	p := newModernPeer(t, "p", "a")
	c := serve(t, team("eng", "", "", p)).modern("")
	inMeta := strings.Replace(`{"name":"p.a",`+meta+`}`, `"_meta":{`, `"_meta":{"traceparent":"`+traceA+`","tracestate":"k=v","baggage":"secret=1",`, 1)
	for params, want := range map[string]string{inMeta: "aaaa", get("p.a"): "bbbb"} {
		c.callAs(`"r1"`, "prompts/get", params, "Traceparent", traceB, "Baggage", "secret=2").is(t, http.StatusOK)
		calls := p.heard("prompts/get")
		last := calls[len(calls)-1]
		server := find(t, spans, "prompts/get p.a", want)
		client := find(t, spans, "prompts/get a", want)
		if client.Parent().SpanID() != server.SpanContext().SpanID() {
			t.Errorf("the client span is not the server span's child")
		}
		if got := server.Parent().SpanID().String(); want == "aaaa" && got != "1111111111111111" {
			t.Errorf("the server span's parent is %s", got)
		}
		if server.SpanKind() != api.SpanKindServer || client.SpanKind() != api.SpanKindClient {
			t.Errorf("span kinds %v and %v", server.SpanKind(), client.SpanKind())
		}
		up := client.SpanContext().SpanID().String()
		if !strings.Contains(string(last.Params), up) || !strings.Contains(last.header.Get("Traceparent"), up) {
			t.Errorf("the upstream got %s and header %q, want span %s in both", last.Params, last.header.Get("Traceparent"), up)
		}
		if strings.Contains(string(last.Params), "secret") || last.header.Get("Baggage") != "" {
			t.Errorf("baggage went up: %s", last.Params)
		}
		for key, value := range map[attribute.Key]string{"mcp.method.name": "prompts/get", "gen_ai.prompt.name": "p.a", "mcp.protocol.version": latest, "jsonrpc.request.id": "r1"} {
			if !slices.Contains(server.Attributes(), key.String(value)) {
				t.Errorf("the server span lacks %s=%s: %v", key, value, server.Attributes())
			}
		}
	}
}

// find returns the ended span with a name and the beginning of a trace id.
func find(t *testing.T, spans *tracetest.SpanRecorder, name, traceID string) (found trace.ReadOnlySpan) {
	t.Helper()
	eventually(t, "span "+name, func() bool {
		for _, span := range spans.Ended() {
			if span.Name() == name && strings.HasPrefix(span.SpanContext().TraceID().String(), traceID) {
				found = span
			}
		}
		return found != nil
	})
	return found
}

func TestTelemetryNamesNoPromptThatTheCallerMayNotSee(t *testing.T) {
	spans, reader := record(t)
	s, billing, _ := twoTeams(t, "auth {\n"+token("ann", "payments")+token("bob")+"}")
	billing.watched().offer("ledger", "twice", "twice")
	eventually(t, "it is reported", func() bool { return len(s.Reports()) > 0 })
	c := s.modern("bob")
	long := strings.Repeat("é", 1000)
	c.call("prompts/get", get("billing.ledger")).is(t, http.StatusOK, "-32602")
	c.call("completion/complete", complete("billing.ledger")).is(t, http.StatusOK, "-32602")
	c.callAs(`"`+long+`"`, "no/"+long, "")
	c.callAs(`"x`+long+`"`, "prompts/list", "")
	s.legacy("2025-11-25", "bob").open("").next()
	c.open("1")
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
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("server spans (-want +got):\n%s", diff)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]metricdata.Aggregation{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			got[m.Name] = m.Data
		}
	}
	for _, name := range []string{"mcp.server.operation.duration", "promptweir.catalog.entries", "promptweir.catalog.reports", "promptweir.upstream.healthy", "promptweir.subscribers", "mcp.client.operation.duration"} {
		if got[name] == nil {
			t.Errorf("no metric %s", name)
		}
	}
	if streams, ok := got["promptweir.subscribers"].(metricdata.Gauge[int64]); !ok || streams.DataPoints[0].Value != 2 {
		t.Errorf("promptweir.subscribers: %+v", got["promptweir.subscribers"])
	}
	durations, ok := got["mcp.server.operation.duration"].(metricdata.Histogram[float64])
	if !ok {
		t.Fatalf("got %T", got["mcp.server.operation.duration"])
	}
	failed := false
	for _, point := range durations.DataPoints {
		for _, a := range point.Attributes.ToSlice() {
			if !slices.Contains([]attribute.Key{"mcp.method.name", "mcp.protocol.version", "error.type", "rpc.response.status_code"}, a.Key) {
				t.Errorf("attribute %s on a metric", a.Key)
			}
			failed = failed || a == attribute.String("error.type", "-32602")
		}
	}
	if !failed {
		t.Error("no refusal among the durations")
	}
}

func TestEachRequestHasOneServerSpan(t *testing.T) {
	spans, _ := record(t)
	s := serve(t, "auth {\n"+token("ann")+"}\n")
	ann, nobody := s.modern("ann"), s.modern("bob")
	one := func(what string, send func()) {
		t.Helper()
		before := len(spans.Ended())
		send()
		eventually(t, "a span for "+what, func() bool { return len(spans.Ended()) == before+1 })
	}
	one("a list", func() { ann.call("prompts/list", "{}") })
	one("a bad credential", func() { nobody.callRaw("prompts/list", "{}") })
	one("a wrong header", func() { ann.callAs("1", "prompts/list", "{}", "Mcp-Method", "prompts/get") })
	legacy := s.legacy("2025-11-25", "ann")
	one("no session", func() { legacy.callAs("1", "ping", "{}", "Mcp-Session-Id", "made-up") })
	one("a ping", func() { legacy.call("ping", "{}") })
}
