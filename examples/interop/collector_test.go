package interop_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	record "go.opentelemetry.io/proto/otlp/logs/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// backend has what a collector passes on.
type backend struct {
	mu      sync.Mutex // guards what follows
	spans   []*span.Span
	records []*record.LogRecord
}

// ServeHTTP receives OTLP over HTTP.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var (
		gotTraces traces.ExportTraceServiceRequest
		gotLogs   logs.ExportLogsServiceRequest
	)
	isTraces := r.URL.Path == "/v1/traces"
	if err == nil && isTraces {
		err = proto.Unmarshal(body, &gotTraces)
	} else if err == nil {
		err = proto.Unmarshal(body, &gotLogs)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, resource := range gotTraces.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			b.spans = append(b.spans, scope.GetSpans()...)
		}
	}
	for _, resource := range gotLogs.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			b.records = append(b.records, scope.GetLogRecords()...)
		}
	}
}

// span returns the span with a name and kind, once it is there.
func (b *backend) span(t *testing.T, name string, kind span.Span_SpanKind) (found *span.Span) {
	t.Helper()
	b.await(t, "the span "+name, func() bool {
		for _, s := range b.spans {
			if s.GetName() == name && s.GetKind() == kind {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// record returns the record of the log with a message, once it is there.
func (b *backend) record(t *testing.T, message string) (found *record.LogRecord) {
	t.Helper()
	b.await(t, "the record "+message, func() bool {
		for _, r := range b.records {
			if r.GetBody().GetStringValue() == message {
				found = r
			}
		}
		return found != nil
	})
	return found
}

// await waits until check returns true.
func (b *backend) await(t *testing.T, what string, check func() bool) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		ok := check()
		b.mu.Unlock()
		switch {
		case ok:
			return
		case time.Since(begun) > patience:
			t.Fatalf("the collector did not pass on %s", what)
		}
	}
}

const collectorConfig = `
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "127.0.0.1:0"}
      http: {endpoint: "127.0.0.1:0"}
exporters:
  otlp_http: {endpoint: %q, compression: none}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_http]}
    logs: {receivers: [otlp], exporters: [otlp_http]}
`

// startCollector runs a collector in front of a backend, and returns the addresses at which it receives OTLP.
func startCollector(t *testing.T, b *backend) (overGRPC, overHTTP string) {
	t.Helper()
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, collectorConfig, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	p := proctest.Start(t, dir, buildHere(t, "collector"), "--config", file)
	p.Logged(t, `("Everything is ready)`)
	address := func(protocol string) string {
		return "http://" + p.Logged(t, `"Starting `+protocol+` server".*"endpoint":"([^"]+)"`)
	}
	return address("GRPC"), address("HTTP")
}

// newTracer returns what makes the spans of the client and the server, which are programs of their own.
func newTracer(t *testing.T, collector string) api.Tracer {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(collector+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return provider.Tracer("test")
}

// serveTraced runs a server that traces gets of the prompt hello, and fails those of the prompt broken with HTTP 500.
func serveTraced(t *testing.T, tracer api.Tracer) (url string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "traced", Version: "1"}, nil)
	for _, name := range []string{"hello", "broken"} {
		server.AddPrompt(&mcp.Prompt{Name: name}, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			carrier := propagation.MapCarrier{}
			if parent, ok := r.Params.Meta["traceparent"].(string); ok {
				carrier["traceparent"] = parent
			}
			_, s := tracer.Start(propagation.TraceContext{}.Extract(ctx, carrier), "server")
			defer s.End()
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello"}}}}, nil
		})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(`"prompts/get"`)) && bytes.Contains(body, []byte(`"broken"`)) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestInterop_CollectorHasOneTraceAndItsLog sends the telemetry of a client, the gateway and a server to an OpenTelemetry collector:
// the gateway over gRPC, the others over HTTP.
func TestInterop_CollectorHasOneTraceAndItsLog(t *testing.T) {
	takesLong(t) // to compile a collector
	b := &backend{}
	overGRPC, overHTTP := startCollector(t, b)
	tracer := newTracer(t, overHTTP)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": overGRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_METRICS_EXPORTER": "none",
		"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_BLRP_SCHEDULE_DELAY": "50",
	} {
		t.Setenv(name, value)
	}
	endpoint := startGateway(t, defaultPages, fmt.Sprintf("upstream \"web\" { url = %q }", serveTraced(t, tracer)))
	waitUntilListed(t, endpoint, []string{"web.broken", "web.hello"})

	client := mcp.NewClient(&mcp.Implementation{Name: "traced", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, root := tracer.Start(t.Context(), "client")
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for name, works := range map[string]bool{"web.hello": true, "web.broken": false} {
		_, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Meta: mcp.Meta{"traceparent": carrier["traceparent"]}})
		if (err == nil) != works {
			t.Errorf("%s: %v", name, err)
		}
	}
	root.End()

	const internal, server, caller = span.Span_SPAN_KIND_INTERNAL, span.Span_SPAN_KIND_SERVER, span.Span_SPAN_KIND_CLIENT
	chain := []*span.Span{
		b.span(t, "client", internal), b.span(t, "prompts/get web.hello", server), b.span(t, "prompts/get hello", caller), b.span(t, "server", internal),
	}
	want := root.SpanContext().TraceID().String()
	for i, s := range chain {
		if got := hex.EncodeToString(s.GetTraceId()); got != want {
			t.Errorf("the span %s has the trace %s, want %s", s.GetName(), got, want)
		}
		if i > 0 && !bytes.Equal(s.GetParentSpanId(), chain[i-1].GetSpanId()) {
			t.Errorf("the span %s is no child of %s", s.GetName(), chain[i-1].GetName())
		}
	}
	failed, request := b.record(t, "upstream unavailable"), b.span(t, "prompts/get web.broken", server)
	if got := hex.EncodeToString(failed.GetTraceId()); got != want || !bytes.Equal(failed.GetSpanId(), request.GetSpanId()) {
		t.Errorf("the record has the trace %s and the span %x, want %s and %x", got, failed.GetSpanId(), want, request.GetSpanId())
	}
	if started := b.record(t, "listening"); len(started.GetTraceId()) != 0 {
		t.Errorf("a record of no request has the trace %x", started.GetTraceId())
	}
}
