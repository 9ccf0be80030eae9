package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	record "go.opentelemetry.io/proto/otlp/logs/v1"
	measured "go.opentelemetry.io/proto/otlp/metrics/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// receiver is an OTLP receiver over HTTP, as tracing backends have one.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex // guards the fields below
	spans []*span.Span
	logs  []exportedRecord
	// metrics are the metrics of the last export, by name.
	metrics map[string][]*measured.Metric
}

// exportedRecord is a log record at the receiver.
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
	upstreamtest.Equal(t, 0, p.stop(t), "exit code")
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
		upstreamtest.Equal(t, 0, p.stop(t), "%s: exit code", variable)
		if len(r.logs) > 0 || !strings.Contains(p.logged(), "stopped") {
			t.Errorf("%s: %d records are exported", variable, len(r.logs))
		}
	}
}

// An unreachable collector is reported on standard error, but not exported: that would fail again and again.
func TestServe_SaysLocallyThatNothingIsExported(t *testing.T) {
	r := newReceiver(t)
	r.Close()
	p := serve(t, configure(t, map[string]string{}), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none",
		"OTEL_BLRP_SCHEDULE_DELAY=1")
	eventually(t, "the failure is logged", func() bool { return strings.Contains(p.logged(), "telemetry not exported") })
	upstreamtest.Equal(t, 0, p.stop(t), "exit code")
	records, failures := strings.Count(p.logged(), "\n"), strings.Count(p.logged(), "telemetry not exported")
	if failures > records-failures {
		t.Errorf("%d records that nothing is exported, for %d others:\n%s", failures, records-failures, p.logged())
	}
}

// Each measurement is exported once.
func TestServe_ExportsItsMetrics(t *testing.T) {
	r := newReceiver(t)
	p := serve(t, configure(t, map[string]string{}), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_TRACES_EXPORTER=none", "OTEL_LOGS_EXPORTER=none")
	const lists = 3
	for range lists {
		p.list(t, "")
	}
	if exit := p.stop(t); exit != 0 { // exports the rest
		t.Errorf("exit code %d", exit)
	}
	durations := r.metrics["mcp.server.operation.duration"]
	if len(durations) != 1 {
		t.Fatalf("got %v", r.metrics)
	}
	count := uint64(0)
	for _, point := range durations[0].GetHistogram().GetDataPoints() {
		if attributeOf(point.GetAttributes(), "mcp.method.name") == "prompts/list" {
			count += point.GetCount()
		}
		if len(point.GetExemplars()) > 0 {
			t.Error("exemplars of traces that are not exported")
		}
	}
	upstreamtest.Equal(t, lists, count, "lists")
}
