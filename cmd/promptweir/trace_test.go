package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	record "go.opentelemetry.io/proto/otlp/logs/v1"
	measured "go.opentelemetry.io/proto/otlp/metrics/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP receiver over HTTP, as tracing backends have one.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex // guards what follows
	spans []*span.Span
	logs  []exportedRecord
	// metrics are those of the last export, by name.
	metrics map[string][]*measured.Metric
}

// exportedRecord is a record of the log as a receiver has it.
type exportedRecord struct {
	*record.LogRecord

	service string
}

// attributeOf returns the text of an attribute.
func attributeOf(all []*common.KeyValue, key string) string {
	for _, a := range all {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch request.URL.Path {
		case "/v1/logs":
			err = r.addLogs(body)
		case "/v1/metrics":
			err = r.setMetrics(body)
		default:
			err = r.addSpans(body)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) addLogs(body []byte) error {
	var export logs.ExportLogsServiceRequest
	err := proto.Unmarshal(body, &export)
	for _, resource := range export.GetResourceLogs() {
		service := attributeOf(resource.GetResource().GetAttributes(), "service.name")
		for _, scope := range resource.GetScopeLogs() {
			for _, one := range scope.GetLogRecords() {
				r.logs = append(r.logs, exportedRecord{one, service})
			}
		}
	}
	return err
}

func (r *receiver) setMetrics(body []byte) error {
	var export metrics.ExportMetricsServiceRequest
	err := proto.Unmarshal(body, &export)
	r.metrics = map[string][]*measured.Metric{}
	for _, resource := range export.GetResourceMetrics() {
		if service := attributeOf(resource.GetResource().GetAttributes(), "service.name"); service != "promptweir" {
			err = fmt.Errorf("metrics of the service %q", service)
		}
		for _, scope := range resource.GetScopeMetrics() {
			for _, one := range scope.GetMetrics() {
				r.metrics[one.GetName()] = append(r.metrics[one.GetName()], one)
			}
		}
	}
	return err
}

func (r *receiver) addSpans(body []byte) error {
	var export collector.ExportTraceServiceRequest
	err := proto.Unmarshal(body, &export)
	for _, resource := range export.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return err
}

// find returns the span with a name and kind, or nil.
func (r *receiver) find(name string, kind span.Span_SpanKind) *span.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.GetName() == name && s.GetKind() == kind {
			return s
		}
	}
	return nil
}

// logged returns the first record with a message, or nil.
func (r *receiver) logged(message string) *exportedRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.logs {
		if r.logs[i].GetBody().GetStringValue() == message {
			return &r.logs[i]
		}
	}
	return nil
}

func TestServe_ExportsItsLogWithTheTracesOfRequests(t *testing.T) {
	r := newReceiver(t)
	p := serve(t, configure(t, map[string]string{"team.hcl": webTeam(refusingGets(t))}),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50")
	eventually(t, "the upstream is listed", func() bool { return p.list(t, "").names() != "" })
	const trace = "0123456789abcdef0123456789abcdef"
	meta := modernMeta[:len(modernMeta)-1] + `,"traceparent":"00-` + trace + `-00f067aa0ba902b7-01"}`
	response := p.postMeta(t, meta, "prompts/get", "web.hello", `{"name":"web.hello","arguments":{"who":"you"}}`, "")
	_ = response.Body.Close()
	eventually(t, "record and span at the receiver", func() bool {
		return r.logged("upstream unavailable") != nil && r.find("prompts/get web.hello", span.Span_SPAN_KIND_SERVER) != nil
	})
	failed, request := r.logged("upstream unavailable"), r.find("prompts/get web.hello", span.Span_SPAN_KIND_SERVER)
	if got := hex.EncodeToString(failed.GetTraceId()); got != trace || !bytes.Equal(failed.GetSpanId(), request.GetSpanId()) {
		t.Errorf("the record has the trace %s and span %x, want %s and %x", got, failed.GetSpanId(), trace, request.GetSpanId())
	}
	if failed.service != "promptweir" || failed.GetSeverityText() != "WARN" || attributeOf(failed.GetAttributes(), "upstream") != "web" ||
		attributeOf(failed.GetAttributes(), "reason") != "bad_response" {
		t.Errorf("got %+v", failed)
	}
	if local := p.logged(); !strings.Contains(local, `"msg":"upstream unavailable"`) || !strings.Contains(local, `"trace_id":"`+trace+`"`) {
		t.Errorf("standard error has %s", local)
	}
	if exit := p.stop(t); exit != 0 {
		t.Errorf("exit code %d", exit)
	}
	for _, message := range []string{"starting", "listening", "upstream connected", "stopped"} { // the last one as well
		if one := r.logged(message); one == nil || len(one.GetTraceId()) > 0 {
			t.Errorf("%s: %+v", message, one)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.logs {
		if one.GetSeverityNumber() < record.SeverityNumber_SEVERITY_NUMBER_INFO {
			t.Errorf("a record below --log-level is exported: %+v", one)
		}
	}
}

func TestServe_ExportsNoLogWhereTheVariablesSaySo(t *testing.T) {
	for _, variable := range []string{"OTEL_LOGS_EXPORTER=none", "OTEL_SDK_DISABLED=true"} {
		r := newReceiver(t)
		p := serve(t, configure(t, map[string]string{}), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, variable)
		if exit := p.stop(t); exit != 0 {
			t.Errorf("%s: exit code %d", variable, exit)
		}
		if len(r.logs) > 0 || !strings.Contains(p.logged(), "stopped") {
			t.Errorf("%s: %d records are exported", variable, len(r.logs))
		}
	}
}

// A collector that is down is said on standard error. If that were exported as well, it would be
// said for ever.
func TestServe_SaysLocallyThatNothingIsExported(t *testing.T) {
	r := newReceiver(t)
	r.Close()
	p := serve(t, configure(t, map[string]string{}), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none",
		"OTEL_BLRP_SCHEDULE_DELAY=1")
	eventually(t, "the failure is logged", func() bool { return strings.Contains(p.logged(), "telemetry not exported") })
	if exit := p.stop(t); exit != 0 {
		t.Errorf("exit code %d", exit)
	}
	records, failures := strings.Count(p.logged(), "\n"), strings.Count(p.logged(), "telemetry not exported")
	if failures > records-failures {
		t.Errorf("%d records that nothing is exported, for %d others:\n%s", failures, records-failures, p.logged())
	}
}

// Each measurement is exported once, in the temporality that the environment asks for.
func TestServe_ExportsItsMetrics(t *testing.T) {
	for preference, want := range map[string]measured.AggregationTemporality{
		"":           measured.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
		"Cumulative": measured.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
		"delta":      measured.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
	} {
		r := newReceiver(t)
		p := serve(t, configure(t, map[string]string{}), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_TRACES_EXPORTER=none", "OTEL_LOGS_EXPORTER=none",
			"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="+preference)
		const lists = 3
		for range lists {
			p.list(t, "")
		}
		if exit := p.stop(t); exit != 0 { // exports what is left
			t.Errorf("exit code %d", exit)
		}
		durations := r.metrics["mcp.server.operation.duration"]
		if len(durations) != 1 {
			t.Fatalf("temporality %q: got %v", preference, r.metrics)
		}
		histogram := durations[0].GetHistogram()
		count := uint64(0)
		for _, point := range histogram.GetDataPoints() {
			if attributeOf(point.GetAttributes(), "mcp.method.name") == "prompts/list" {
				count += point.GetCount()
			}
		}
		if len(histogram.GetDataPoints()[0].GetExemplars()) > 0 {
			t.Errorf("temporality %q: exemplars of traces that are not exported", preference)
		}
		if count != lists || histogram.GetAggregationTemporality() != want {
			t.Errorf("temporality %q: %d lists with %v, want %d with %v", preference, count, histogram.GetAggregationTemporality(), lists, want)
		}
	}
}

func TestServe_OneRequestIsOneTrace(t *testing.T) {
	r := newReceiver(t)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(r.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	defer func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) }()
	tracer := provider.Tracer("test")

	server := newGreeter()
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			if method != "prompts/get" {
				return next(ctx, method, request)
			}
			carrier := propagation.MapCarrier{}
			if parent, ok := request.GetParams().GetMeta()["traceparent"].(string); ok {
				carrier["traceparent"] = parent
			}
			ctx, s := tracer.Start(propagation.TraceContext{}.Extract(ctx, carrier), "upstream")
			defer s.End()
			return next(ctx, method, request)
		}
	})
	p := serve(t, configure(t, map[string]string{"team.hcl": webTeam(serveOverHTTP(t, server))}),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=50")

	eventually(t, "the upstream is listed", func() bool { return p.list(t, "").names() != "" })
	ctx, client := tracer.Start(t.Context(), "client")
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	meta := modernMeta[:len(modernMeta)-1] + fmt.Sprintf(`,"traceparent":%q}`, carrier["traceparent"])
	response := p.postMeta(t, meta, "prompts/get", "web.hello", `{"name":"web.hello","arguments":{"who":"you"}}`, "")
	_ = response.Body.Close()
	client.End()

	var chain []*span.Span
	eventually(t, "four spans at the receiver", func() bool {
		chain = []*span.Span{
			r.find("client", span.Span_SPAN_KIND_INTERNAL), r.find("prompts/get web.hello", span.Span_SPAN_KIND_SERVER),
			r.find("prompts/get hello", span.Span_SPAN_KIND_CLIENT), r.find("upstream", span.Span_SPAN_KIND_INTERNAL),
		}
		return !slices.Contains(chain, nil)
	})
	for i, s := range chain[1:] {
		parent := chain[i]
		if hex.EncodeToString(s.GetTraceId()) != hex.EncodeToString(parent.GetTraceId()) ||
			hex.EncodeToString(s.GetParentSpanId()) != hex.EncodeToString(parent.GetSpanId()) {
			t.Errorf("%q (trace %x, parent %x) is not a child of %q (trace %x, span %x)", s.GetName(), s.GetTraceId(),
				s.GetParentSpanId(), parent.GetName(), parent.GetTraceId(), parent.GetSpanId())
		}
	}
}
