package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Attributes of OpenTelemetry's semantic conventions for MCP, and the gateway's own.
const (
	attrMethod    = attribute.Key("mcp.method.name")
	attrRevision  = attribute.Key("mcp.protocol.version")
	attrPrompt    = attribute.Key("gen_ai.prompt.name")
	attrRequestID = attribute.Key("jsonrpc.request.id")
	attrStatus    = attribute.Key("rpc.response.status_code")
	attrErrorType = attribute.Key("error.type")
	attrClient    = attribute.Key("client.address")
	attrReason    = attribute.Key("promptweir.reason")
	attrUpstream  = attribute.Key("promptweir.upstream")
	attrTeam      = attribute.Key("promptweir.team")
	attrKind      = attribute.Key("promptweir.report.kind")
)

const scope = "github.com/promptweir/promptweir/gateway"

// instruments are what is recorded of each request. What stands on a metric is low in number: methods, revisions and
// names of the configuration.
type instruments struct {
	tracer trace.Tracer
	// silent says that nobody takes spans, so that none need be begun.
	silent bool
	// duration is how long a request took, in seconds (mcp.server.operation.duration).
	duration metric.Float64Histogram
	// refused counts credentials that let nobody in.
	refused metric.Int64Counter
	// succeeded has the attributes of requests that went well: to make them for each would cost more than all else that
	// is measured.
	succeeded map[operationKind][]metric.RecordOption
}

// operationKind is what tells requests that went well from each other on metrics.
type operationKind struct{ method, revision string }

// knownMethods are those that may stand on metrics as they are: a client can make up any number of others.
var knownMethods = map[string]bool{ //nolint:gochecknoglobals // a constant set
	wire.Initialize: true, wire.Ping: true, wire.Listen: true, wire.Discover: true, wire.PromptsList: true, wire.PromptsGet: true, wire.Complete: true,
	wire.ToolsList: true, wire.ResourcesList: true, wire.TemplatesList: true, wire.SetLogLevel: true,
}

func newInstruments() *instruments {
	duration, err := otel.Meter(scope).Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a client's request to the gateway's response."),
		metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60))
	report(err)
	refused, err := otel.Meter(scope).Int64Counter("promptweir.identity.refused", metric.WithUnit("{credential}"),
		metric.WithDescription("Credentials that let nobody in, by reason: bad, scope or unavailable."))
	report(err)
	succeeded := map[operationKind][]metric.RecordOption{}
	for method := range knownMethods {
		for _, revision := range wire.Revisions() {
			attributes := attribute.NewSet(attrMethod.String(method), attrRevision.String(revision))
			succeeded[operationKind{method, revision}] = []metric.RecordOption{metric.WithAttributeSet(attributes)}
		}
	}
	tracer := otel.Tracer(scope)
	_, silent := tracer.(noop.Tracer)
	return &instruments{tracer: tracer, silent: silent, duration: duration, refused: refused, succeeded: succeeded}
}

// report takes errors about instruments: these are about invalid names only, and the API returns a working no-op
// beside them.
func report(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// gauges are the metrics that are read off a running gateway.
type gauges struct{ entries, reports, healthy, subscribers, loaded, loadedAt metric.Int64ObservableGauge }

// observe declares the gauges, until the function that it returns is called.
func (g *Gateway) observe() (stop func()) {
	meter := otel.Meter(scope)
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		declared, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		report(err)
		return declared
	}
	all := gauges{
		entries:     gauge("promptweir.catalog.entries", "{entry}", "Prompts in the merged catalog."),
		reports:     gauge("promptweir.catalog.reports", "{report}", "Names that somebody should put right, by kind."),
		healthy:     gauge("promptweir.upstream.healthy", "{upstream}", "1 while an upstream's list is fresh, else 0."),
		subscribers: gauge("promptweir.subscribers", "{stream}", "Open streams of clients that want to hear of changes."),
		loaded:      gauge("promptweir.config.loaded", "{configuration}", "1 while the configuration that was looked at last is at work, 0 while it was refused."),
		loadedAt:    gauge("promptweir.config.loaded.time", "s", "When the configuration at work was loaded, in seconds since 1970."),
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.read(o, all)
		return nil
	}, all.entries, all.reports, all.healthy, all.subscribers, all.loaded, all.loadedAt)
	if err != nil {
		report(err)
		return func() {}
	}
	return func() { report(registration.Unregister()) }
}

func (g *Gateway) read(o metric.Observer, all gauges) {
	e := g.edition.Load()
	o.ObserveInt64(all.subscribers, int64(g.streams()))
	o.ObserveInt64(all.entries, int64(len(e.snapshot.Entries())))
	last, good := g.loading.Load(), int64(1)
	if last.problem != nil {
		good = 0
	}
	o.ObserveInt64(all.loaded, good)
	o.ObserveInt64(all.loadedAt, last.since.Unix())
	kinds := map[catalog.Kind]int64{}
	for _, r := range e.reports() {
		kinds[r.Kind]++
	}
	for kind, n := range kinds {
		o.ObserveInt64(all.reports, n, metric.WithAttributes(attrKind.String(string(kind))))
	}
	for i, state := range e.states {
		u, healthy := e.upstreams[i], int64(0)
		if state.Listed && state.Problem == nil {
			healthy = 1
		}
		o.ObserveInt64(all.healthy, healthy, metric.WithAttributes(attrUpstream.String(u.Name), attrTeam.String(u.Team)))
	}
}

// operation is one request's server span and duration.
type operation struct {
	ctx     context.Context //nolint:containedctx // ends with the request
	span    trace.Span
	metrics *instruments
	method  string
	success []metric.RecordOption // nil where it was not made before
}

// serverSpan is made once: each would be an allocation.
var serverSpan = trace.WithSpanKind(trace.SpanKindServer) //nolint:gochecknoglobals // a constant

// start begins the server span of a request, as a child of the trace that came with it. The request's end is to be called.
func (i *instruments) start(ctx context.Context, r *request) context.Context {
	method := r.message.Method
	success, known := i.succeeded[operationKind{method, r.revision}]
	if !known && !knownMethods[method] {
		method = "_OTHER"
	}
	var span trace.Span = noop.Span{}
	if !i.silent {
		ctx, span = i.tracer.Start(ctx, method, serverSpan)
	}
	if span.IsRecording() {
		span.SetAttributes(attrMethod.String(method), attrRevision.String(r.revision), attrRequestID.String(requestID(r.message.ID)))
		if r.client != nil {
			span.SetAttributes(attrClient.String(r.client()))
		}
	}
	r.operation = operation{ctx: ctx, span: span, metrics: i, method: method, success: success}
	return ctx
}

// errRefused stands for whatever kept a request from being begun: its headers, its credential, its session.
var errRefused = errors.New("refused")

// measure makes the span and the duration of a request that was answered on the spot.
func (i *instruments) measure(ctx context.Context, r *request, err error) {
	i.start(ctx, r)
	r.end(err)
}

// maxRequestID bounds what of a request's id stands on its span, in bytes: a client may send one of any length.
const maxRequestID = 64

// requestID is a JSON-RPC id as text, without the quotes of a string.
func requestID(id jsontext.Value) string {
	text, ok := wire.Text(id)
	if !ok {
		text = string(id)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxRequestID)], "")
}

// target names the prompt that the request is about, once it is known that the caller may see it.
func (o *operation) target(name string) {
	if o.span.IsRecording() {
		o.span.SetName(o.method + " " + name)
		o.span.SetAttributes(attrPrompt.String(name))
	}
}

// begun reports whether the request's operation has.
func (o *operation) begun() bool { return o.metrics != nil }

// end ends the request's operation.
func (r *request) end(err error) {
	o := &r.operation
	options := o.success
	if err != nil || options == nil {
		attributes := []attribute.KeyValue{attrMethod.String(o.method), attrRevision.String(r.revision)}
		if err != nil {
			attributes = append(attributes, failure(err)...)
			o.span.SetAttributes(attributes...)
			o.span.SetStatus(codes.Error, errorType(err))
		}
		options = []metric.RecordOption{metric.WithAttributes(attributes...)}
	}
	o.span.End()
	r.answered = time.Now()
	o.metrics.duration.Record(o.ctx, r.answered.Sub(r.begun).Seconds(), options...)
}

func failure(err error) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attrErrorType.String(errorType(err))}
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		attributes = append(attributes, attrStatus.String(wireErr.Label()))
	}
	return attributes
}

// errorType names a failure: the JSON-RPC code, or why there was no answer.
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

// headerTraceParent is the header without which there is no trace (W3C Trace Context), in Go's canonical spelling.
const headerTraceParent = "Traceparent"

// extractTrace returns ctx with the caller's trace context: from _meta, which is nearer to the caller, else from
// headers, which may be nil.
func extractTrace(ctx context.Context, meta wire.Object, header http.Header) context.Context {
	if parent, ok := meta.Text(wire.MetaTraceParent); ok {
		carrier := propagation.MapCarrier{wire.MetaTraceParent: parent}
		if state, ok := meta.Text(wire.MetaTraceState); ok {
			carrier[wire.MetaTraceState] = state
		}
		if inMeta := (propagation.TraceContext{}).Extract(ctx, carrier); trace.SpanContextFromContext(inMeta).IsValid() {
			return inMeta
		}
	}
	if header[headerTraceParent] == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}
