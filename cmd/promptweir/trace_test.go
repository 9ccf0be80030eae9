package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP receiver over HTTP, as tracing backends have one.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex
	spans []*span.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var export collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &export) != nil {
			http.Error(w, "no spans", http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range export.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				r.spans = append(r.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
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
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	p := serve(t, configure(t, map[string]string{"team.hcl": fmt.Sprintf(`
team "greeters" {
  upstream "web" { url = %q }
}`, web.URL)}), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=50")

	eventually(t, "the upstream is listed", func() bool { return p.list(t, "").names() != "" })
	ctx, client := tracer.Start(t.Context(), "client")
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	meta := modernMeta[:len(modernMeta)-1] + fmt.Sprintf(`,"traceparent":%q}`, carrier["traceparent"])
	response := p.postMeta(t, meta, "prompts/get", "web.hello", `{"name":"web.hello","arguments":{"who":"you"}}`, "")
	_ = response.Body.Close()
	client.End()

	gatewayServer := span.Span_SPAN_KIND_SERVER
	gatewayClient := span.Span_SPAN_KIND_CLIENT
	internal := span.Span_SPAN_KIND_INTERNAL
	eventually(t, "four spans at the receiver", func() bool {
		return r.find("client", internal) != nil && r.find("prompts/get web.hello", gatewayServer) != nil &&
			r.find("prompts/get hello", gatewayClient) != nil && r.find("upstream", internal) != nil
	})
	chain := []*span.Span{
		r.find("client", internal), r.find("prompts/get web.hello", gatewayServer),
		r.find("prompts/get hello", gatewayClient), r.find("upstream", internal),
	}
	for i, s := range chain[1:] {
		parent := chain[i]
		if hex.EncodeToString(s.GetTraceId()) != hex.EncodeToString(parent.GetTraceId()) ||
			hex.EncodeToString(s.GetParentSpanId()) != hex.EncodeToString(parent.GetSpanId()) {
			t.Errorf("%q (trace %x, parent %x) is not a child of %q (trace %x, span %x)", s.GetName(), s.GetTraceId(),
				s.GetParentSpanId(), parent.GetName(), parent.GetTraceId(), parent.GetSpanId())
		}
	}
}
