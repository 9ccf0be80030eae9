package requests

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Scope is the instrumentation scope of the gateway's metrics and spans.
const Scope = "github.com/promptweir/promptweir/gateway"

// Attributes of OpenTelemetry's semantic conventions for MCP.
const (
	attrRequestID = attribute.Key("jsonrpc.request.id")
	attrClient    = attribute.Key("client.address")
)

// instruments record each request. Metric attributes have few values: methods and revisions.
type instruments struct {
	tracer trace.Tracer
	// traced is false where nobody receives spans, so that none need be started.
	traced bool
	// duration is mcp.server.operation.duration, in seconds.
	duration metric.Float64Histogram
	// kinds are those of nearly all requests, by method and revision.
	kinds map[methodOf]*operationKind
}

type methodOf struct{ revision, method string }

// operationKind is what requests of the same method and revision have in common on metrics and
// spans.
type operationKind struct {
	method string
	// success has the attributes of those that succeed; nil where it has to be made. Making it for
	// each request would cost more than everything else that is recorded.
	success []metric.RecordOption
}

// knownMethods may appear on metrics. A client can make up any number of others.
var knownMethods = map[string]bool{ //nolint:gochecknoglobals // a constant set
	wire.Initialize: true, wire.Ping: true, wire.Listen: true, wire.Discover: true,
	wire.PromptsList: true, wire.PromptsGet: true, wire.Complete: true, wire.ToolsList: true, wire.ToolsCall: true, wire.ResourcesList: true, wire.TemplatesList: true, wire.SetLogLevel: true,
	wire.SkillsList: true, wire.SkillsGet: true, wire.ResourcesRead: true, wire.DirectoryRead: true,
}

func newInstruments() *instruments {
	duration, err := otel.Meter(Scope).Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a client's request to the gateway's response."),
		metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
			1, 2, 5, 10, 30, 60, 120, 300))
	if err != nil {
		otel.Handle(err) // an invalid name; the instrument beside it works and records nothing
	}
	kinds := map[methodOf]*operationKind{}
	for method := range knownMethods {
		for _, revision := range wire.Revisions() {
			set := attribute.NewSet(upstream.AttrMethod.String(method), upstream.AttrRevision.String(revision))
			success := []metric.RecordOption{metric.WithAttributeSet(set)}
			kinds[methodOf{revision, method}] = &operationKind{method, success}
		}
	}
	tracer := otel.Tracer(Scope)
	_, silent := tracer.(noop.Tracer)
	return &instruments{tracer: tracer, traced: !silent, duration: duration, kinds: kinds}
}

// operation is one request's server span and duration.
type operation struct {
	ctx     context.Context //nolint:containedctx // ends with the request
	span    trace.Span
	metrics *instruments
	kind    *operationKind
}

// serverSpan are the options of every span; making them each time would allocate.
//
//nolint:gochecknoglobals // a constant
var serverSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// start starts the server span of a request, as a child of the trace that came with it.
// [Request.end] must follow.
func (i *instruments) start(ctx context.Context, r *Request) context.Context {
	kind := i.kinds[methodOf{r.Revision, r.Message.Method}]
	// Kinds of made-up methods are not kept, since a client can make up any number.
	if kind == nil {
		kind = &operationKind{method: metricMethod(r.Message.Method)}
	}
	method := kind.method
	var span trace.Span = noop.Span{}
	if i.traced && trace.SpanContextFromContext(ctx).IsValid() {
		ctx, span = i.tracer.Start(ctx, method, serverSpan...)
	} else if i.traced { // Start would look for a parent three times more, through all the contexts of the connection
		_, span = i.tracer.Start(context.Background(), method, serverSpan...)
		ctx = trace.ContextWithSpan(ctx, span)
	}
	r.operation = operation{ctx: ctx, span: span, metrics: i, kind: kind}
	return ctx
}

// metricMethod returns the method as metrics have it.
func metricMethod(method string) string {
	if knownMethods[method] {
		return method
	}
	return "_OTHER"
}

// errRefused stands for any reason why a transport refused a request: its headers, its credential
// or its session.
var errRefused = errors.New("refused")

// Record records a request that its transport answered by itself. Err is nil where it succeeded.
func (h *Handler) Record(ctx context.Context, r *Request, err error) {
	ctx = h.metrics.start(ctx, r)
	if h.audit.records(r) {
		r.took = time.Since(r.Received)
		wireErr, _ := errors.AsType[*wire.Error](err)
		// What cannot be recorded is counted, and a request like this gives nothing away.
		_ = h.audit.record(ctx, r, &Response{}, err, wireErr)
	}
	wireErr, _ := errors.AsType[*wire.Error](err)
	r.end(err, wireErr)
}

// RecordRefused records a request that its transport refused, unless it was recorded already.
// Header is that of the HTTP request.
func (h *Handler) RecordRefused(ctx context.Context, r *Request, header http.Header) {
	if r.Message.IsRequest() && r.operation.metrics == nil {
		h.Record(ExtractTrace(ctx, r.Meta, header), r, errRefused)
	}
}

// maxRequestID bounds how much of a request's id appears on its span, in bytes: a client may send
// one of any length.
const maxRequestID = 64

// requestID returns a JSON-RPC id as text, without the quotes of a string.
func requestID(id jsontext.Value) string {
	text, ok := wire.Text(id)
	if !ok {
		text = string(id)
	}
	// The cut may fall within a character.
	return strings.ToValidUTF8(text[:min(len(text), maxRequestID)], "")
}

// end ends the request's operation. The client gets the error as wireErr, which is nil where a
// transport refuses by itself.
func (r *Request) end(err error, wireErr *wire.Error) {
	o := &r.operation
	options := o.kind.success
	var failed []attribute.KeyValue
	if err != nil {
		failed = failure(err)
		if reason := knownReason(wireErr); reason != "" {
			failed = append(failed, upstream.AttrReason.String(reason))
		}
	}
	if err != nil || options == nil {
		named := []attribute.KeyValue{upstream.AttrMethod.String(o.kind.method), upstream.AttrRevision.String(r.Revision)}
		options = []metric.RecordOption{metric.WithAttributes(append(named, failed...)...)}
	}
	if o.span.IsRecording() {
		r.describe(o.span, failed)
		if err != nil {
			o.span.SetStatus(codes.Error, errorType(err))
		}
		o.span.End()
	}
	r.took = time.Since(r.Received)
	o.metrics.duration.Record(o.ctx, r.took.Seconds(), options...)
}

// maxSpanAttributes is how many attributes a span has at most.
const maxSpanAttributes = 8

// describe sets what a span says of its request, all at once: a span that gets more later grows for
// what is added.
func (r *Request) describe(span trace.Span, failed []attribute.KeyValue) {
	method := r.operation.kind.method
	attributes := append(make([]attribute.KeyValue, 0, maxSpanAttributes), upstream.AttrMethod.String(method), upstream.AttrRevision.String(r.Revision),
		attrRequestID.String(requestID(r.Message.ID)))
	if r.Client != "" {
		attributes = append(attributes, attrClient.String(r.Client))
	}
	if name := r.target.seen(); name != "" {
		span.SetName(method + " " + name)
		attributes = append(attributes, upstream.AttrPrompt.String(name))
	}
	span.SetAttributes(append(attributes, failed...)...)
}

// knownReasons may appear on metrics. They are those of the gateway's own errors which say more
// than the code.
var knownReasons = map[string]bool{ //nolint:gochecknoglobals // a constant set
	string(upstream.Unreachable): true, string(upstream.Timeout): true, string(upstream.Denied): true,
	string(upstream.RateLimited): true, string(upstream.Overloaded): true, string(upstream.BreakerOpen): true,
	string(upstream.BadResponse): true, "screened": true, string(snapshot.Starting): true,
	string(reasonShuttingDown): true, string(reasonAudit): true,
	"malformed": true, "expired_key": true, "wrong_principal": true,
}

// knownReason returns the reason of an error of the gateway's own, "" where it has none that may
// appear on metrics.
func knownReason(err *wire.Error) string {
	if err == nil {
		return ""
	}
	if reason := ownReason(err); knownReasons[reason] {
		return reason
	}
	return ""
}

func failure(err error) []attribute.KeyValue {
	attributes := []attribute.KeyValue{upstream.AttrErrorType.String(errorType(err))}
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		attributes = append(attributes, upstream.AttrStatus.String(wireErr.Label()))
	}
	return attributes
}

// errorType names a failure by its JSON-RPC code, or by the reason why there was no answer.
func errorType(err error) string {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr.Label()
	}
	if unavailable, ok := errors.AsType[*upstream.Unavailable](err); ok {
		return string(unavailable.Reason)
	}
	if errors.Is(err, errRefused) {
		return errRefused.Error()
	}
	if errors.Is(err, context.Canceled) {
		return "cancelled"
	}
	return "_OTHER"
}

const (
	// maxCounted bounds the prompts whose gets are counted apart, to those that are got first.
	maxCounted = 1000
	// otherPrompts is what the gets of all others are counted under.
	otherPrompts = "_OTHER"
)

// promptGets counts gets by prompt and outcome, for metrics and for the console's last hour. The
// zero value is ready.
type promptGets struct {
	mu     sync.Mutex // guards counts
	counts map[string]map[audit.Outcome]int64
}

// count counts a get. Name is empty where the caller sees no such prompt.
func (g *promptGets) count(name string, outcome audit.Outcome) {
	if outcome == audit.Hidden { // metrics are not secret
		outcome = audit.Unknown
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.counts == nil {
		g.counts = map[string]map[audit.Outcome]int64{}
	}
	counts := g.counts[name]
	if counts == nil && len(g.counts) >= maxCounted {
		name = otherPrompts
		counts = g.counts[name]
	}
	if counts == nil {
		counts = map[audit.Outcome]int64{}
		g.counts[name] = counts
	}
	counts[outcome]++
}

// PromptGets calls observe with how many gets of each prompt had each outcome. The name is empty
// for gets whose caller sees no such prompt, and "_OTHER" for those of further prompts once there
// are 1000.
func (h *Handler) PromptGets(observe func(prompt, outcome string, n int64)) {
	h.gets.mu.Lock()
	defer h.gets.mu.Unlock()
	for name, counts := range h.gets.counts {
		for outcome, n := range counts {
			observe(name, string(outcome), n)
		}
	}
}

// headerTraceParent is the header without which there is no trace (W3C Trace Context), in Go's
// canonical spelling.
const headerTraceParent = "Traceparent"

// ExtractTrace returns ctx with the caller's trace context: that in _meta, which is nearer to the
// caller, or else that in the headers, which may be nil.
func ExtractTrace(ctx context.Context, meta wire.Object, header http.Header) context.Context {
	if parent, ok := meta.Text(wire.MetaTraceParent); ok {
		carrier := propagation.MapCarrier{wire.MetaTraceParent: parent}
		if state, ok := meta.Text(wire.MetaTraceState); ok {
			carrier[wire.MetaTraceState] = state
		}
		inMeta := propagation.TraceContext{}.Extract(ctx, carrier)
		if trace.SpanContextFromContext(inMeta).IsValid() {
			return inMeta
		}
	}
	if header[headerTraceParent] == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}
