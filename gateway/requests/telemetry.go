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

// InstrumentationScope is the OpenTelemetry scope of the gateway's metrics and spans.
const InstrumentationScope = "github.com/promptweir/promptweir/gateway"

// Attributes of OpenTelemetry's semantic conventions for MCP.
const (
	attrRequestID = attribute.Key("jsonrpc.request.id")
	attrClient    = attribute.Key("client.address")
)

// instruments record each request. Metric attributes have few values: methods and revisions.
type instruments struct {
	tracer trace.Tracer
	// traced is false if the tracer is a no-op. Then no spans are started.
	traced bool
	// duration is mcp.server.operation.duration, in seconds.
	duration metric.Float64Histogram
	// kinds contains the operation kinds of all methods and revisions of the protocol.
	kinds map[methodOf]*operationKind
}

type methodOf struct{ revision, method string }

// operationKind contains the parts of metrics and spans that requests of one method and revision
// share.
type operationKind struct {
	method string
	// success contains the attributes of successful requests. Making them for each request would
	// cost more than the rest of the recording. It is nil for methods and revisions outside of the
	// protocol.
	success []metric.RecordOption
}

// knownMethods contains the methods that may appear in metrics. Clients can invent others.
var knownMethods = map[string]bool{ //nolint:gochecknoglobals // a constant set
	wire.Initialize: true, wire.Ping: true, wire.Listen: true, wire.Discover: true,
	wire.PromptsList: true, wire.PromptsGet: true, wire.Complete: true, wire.ToolsList: true, wire.ToolsCall: true, wire.ResourcesList: true, wire.TemplatesList: true, wire.SetLogLevel: true,
	wire.SkillsList: true, wire.SkillsGet: true, wire.ResourcesRead: true, wire.DirectoryRead: true,
}

func newInstruments() *instruments {
	duration, err := otel.Meter(InstrumentationScope).Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a client's request to the gateway's response."),
		metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
			1, 2, 5, 10, 30, 60, 120, 300))
	if err != nil {
		otel.Handle(err) // the name is invalid, and the instrument is a no-op
	}
	kinds := map[methodOf]*operationKind{}
	for method := range knownMethods {
		for _, revision := range wire.Revisions() {
			set := attribute.NewSet(upstream.AttrMethod.String(method), upstream.AttrRevision.String(revision))
			success := []metric.RecordOption{metric.WithAttributeSet(set)}
			kinds[methodOf{revision, method}] = &operationKind{method, success}
		}
	}
	tracer := otel.Tracer(InstrumentationScope)
	_, silent := tracer.(noop.Tracer)
	return &instruments{tracer: tracer, traced: !silent, duration: duration, kinds: kinds}
}

// operation is a request's server span and its kind in metrics.
type operation struct {
	span trace.Span
	kind *operationKind
}

// serverSpan contains the options of every span. Making them each time would allocate.
//
//nolint:gochecknoglobals // a constant
var serverSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// start starts the server span of a request, as a child of the request's trace. Call
// [instruments.end] when the request ends.
func (i *instruments) start(ctx context.Context, x *run) context.Context {
	method := x.r.Message.Method
	kind := i.kinds[methodOf{x.r.Revision, method}]
	// A kind for an unknown method or revision is not cached, because clients can invent any
	// number.
	if kind == nil {
		kind = &operationKind{method: "_OTHER"}
		if knownMethods[method] {
			kind.method = method
		}
	}
	method = kind.method
	var span trace.Span = noop.Span{}
	if i.traced && trace.SpanContextFromContext(ctx).IsValid() {
		ctx, span = i.tracer.Start(ctx, method, serverSpan...)
	} else if i.traced { // Start would search all contexts of the connection for a parent
		_, span = i.tracer.Start(context.Background(), method, serverSpan...)
		ctx = trace.ContextWithSpan(ctx, span)
	}
	x.operation = operation{span, kind}
	return ctx
}

// errRefused stands for every reason for which a transport refuses a request: headers, credential or
// session.
var errRefused = errors.New("refused")

// Record records a request that its transport answered. err is nil for a success.
func (h *Handler) Record(ctx context.Context, r *Request, err error) {
	var scope Scope
	defer scope.Close()
	x := newRun(r, &scope)
	if x.snapshot == nil { // refused before it got a snapshot
		x.snapshot = h.source.Current()
	}
	ctx = h.metrics.start(ctx, x)
	wireErr, _ := errors.AsType[*wire.Error](err)
	// If the line cannot be written, the audit log counts the loss. A refused request reveals nothing.
	_ = h.audit.record(ctx, x, err, wireErr)
	h.metrics.end(ctx, x, err, wireErr)
}

// RecordRefused records a request that its transport refused. header contains the headers of the HTTP
// request.
func (h *Handler) RecordRefused(ctx context.Context, r *Request, header http.Header) {
	if r.Message.IsRequest() {
		h.Record(ExtractTrace(ctx, r.Meta, header), r, errRefused)
	}
}

// maxRequestID bounds the part of a request's id in its span, in bytes. Clients may send ids of any
// length.
const maxRequestID = 64

// requestID returns a JSON-RPC id as text, without the quotes of a string.
func requestID(id jsontext.Value) string {
	text, ok := wire.Text(id)
	if !ok {
		text = string(id)
	}
	// The cut may fall within a character, so drop a partial character.
	return strings.ToValidUTF8(text[:min(len(text), maxRequestID)], "")
}

// end records the request's duration and ends its span. wireErr is the error for the client. It is nil
// if the request succeeded, or if a transport has refused it.
func (i *instruments) end(ctx context.Context, x *run, err error, wireErr *wire.Error) {
	o := &x.operation
	options := o.kind.success
	var failed []attribute.KeyValue
	if err != nil {
		failed = failure(err)
		if wireErr != nil && knownReasons[ownReason(wireErr)] {
			failed = append(failed, upstream.AttrReason.String(ownReason(wireErr)))
		}
	}
	if err != nil || options == nil {
		named := []attribute.KeyValue{upstream.AttrMethod.String(o.kind.method), upstream.AttrRevision.String(x.r.Revision)}
		options = []metric.RecordOption{metric.WithAttributes(append(named, failed...)...)}
	}
	if o.span.IsRecording() {
		x.describe(o.span, failed)
		if err != nil {
			o.span.SetStatus(codes.Error, errorType(err))
		}
		o.span.End()
	}
	x.took = time.Since(x.r.Received)
	i.duration.Record(ctx, x.took.Seconds(), options...)
}

// maxSpanAttributes bounds the attributes of a span.
const maxSpanAttributes = 8

// describe sets all attributes of a span at once, because each addition would allocate.
func (x *run) describe(span trace.Span, failed []attribute.KeyValue) {
	r, method := x.r, x.operation.kind.method
	attributes := append(make([]attribute.KeyValue, 0, maxSpanAttributes), upstream.AttrMethod.String(method), upstream.AttrRevision.String(r.Revision),
		attrRequestID.String(requestID(r.Message.ID)))
	if r.Client != "" {
		attributes = append(attributes, attrClient.String(r.Client))
	}
	if name := x.target.seen(); name != "" {
		span.SetName(method + " " + name)
		attributes = append(attributes, upstream.AttrPrompt.String(name))
	}
	span.SetAttributes(append(attributes, failed...)...)
}

// knownReasons contains the values of data.reason that may appear in metrics. They are reasons of
// the gateway's own errors, and more specific than the error code.
var knownReasons = map[string]bool{ //nolint:gochecknoglobals // a constant set
	string(upstream.Unreachable): true, string(upstream.Timeout): true, string(upstream.Denied): true,
	string(upstream.RateLimited): true, string(upstream.Overloaded): true, string(upstream.BreakerOpen): true,
	string(upstream.BadResponse): true, "screened": true, string(snapshot.Starting): true,
	string(reasonShuttingDown): true, string(reasonAudit): true,
	"malformed": true, "expired_key": true, "wrong_principal": true,
}

func failure(err error) []attribute.KeyValue {
	attributes := []attribute.KeyValue{upstream.AttrErrorType.String(errorType(err))}
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		attributes = append(attributes, upstream.AttrStatus.String(wireErr.Label()))
	}
	return attributes
}

// errorType returns the JSON-RPC code of an error response, or the reason for a missing answer.
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
	// maxCounted bounds the prompts with their own counts: the first ones that clients get.
	maxCounted = 1000
	// otherPrompts is the name for the counts of all other prompts.
	otherPrompts = "_OTHER"
)

// promptGets counts gets by prompt and outcome, for metrics and for the console's last hour. The
// zero value is ready.
type promptGets struct {
	mu     sync.Mutex // guards counts
	counts map[string]map[audit.Outcome]int64
}

// count counts a get. name is empty if the caller sees no such prompt.
func (g *promptGets) count(name string, outcome audit.Outcome) {
	if outcome == audit.Hidden { // metrics are public
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

// PromptGets calls observe with the number of gets per prompt and outcome. The name is empty for
// gets of prompts that the caller does not see. After 1000 names, further prompts are counted as
// "_OTHER".
func (h *Handler) PromptGets(observe func(prompt, outcome string, n int64)) {
	h.gets.mu.Lock()
	defer h.gets.mu.Unlock()
	for name, counts := range h.gets.counts {
		for outcome, n := range counts {
			observe(name, string(outcome), n)
		}
	}
}

// headerTraceParent is the header of a trace (W3C Trace Context), in Go's canonical spelling.
const headerTraceParent = "Traceparent"

// ExtractTrace returns ctx with the caller's trace context. It prefers _meta, which is nearer to
// the caller, to the headers. header may be nil.
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
