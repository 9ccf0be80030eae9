package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Attributes of the OpenTelemetry semantic conventions for MCP, and the gateway's own. They have
// the same meaning for servers and clients.
const (
	AttrMethod    = attribute.Key("mcp.method.name")
	AttrRevision  = attribute.Key("mcp.protocol.version")
	AttrPrompt    = attribute.Key("gen_ai.prompt.name")
	AttrStatus    = attribute.Key("rpc.response.status_code")
	AttrErrorType = attribute.Key("error.type")
	AttrUpstream  = attribute.Key("promptweir.upstream")
	AttrTeam      = attribute.Key("promptweir.team")
	AttrReason    = attribute.Key("promptweir.reason")

	attrTransport = attribute.Key("network.transport")
	attrState     = attribute.Key("promptweir.breaker.state")
)

// Metrics records the metrics and spans of one upstream. Attributes of metrics have few possible values, such as names
// from the configuration. So a prompt's name is an attribute of spans only.
type Metrics struct {
	tracer trace.Tracer
	// silent is true if spans are not collected. Then Start starts none.
	silent bool
	// duration is the duration of a call, in seconds (mcp.client.operation.duration).
	duration metric.Float64Histogram
	// transitions counts the state changes of the breaker.
	transitions metric.Int64Counter
	// connects counts attempts to connect to a server without a session.
	connects metric.Int64Counter
	common   []attribute.KeyValue
	// succeeded holds the attributes of a successful call by method. To make them for each call would cost more than the
	// rest of the measurement.
	succeeded map[string]metric.MeasurementOption
}

func newMetrics(u *config.Upstream) *Metrics {
	const scope = "github.com/promptweir/promptweir/upstream"
	meter := otel.Meter(scope)
	network := "tcp"
	if u.Transport == config.Stdio {
		network = "pipe"
	}
	duration, err1 := meter.Float64Histogram("mcp.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from sending a request to an upstream to its response."),
		metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300))
	transitions, err2 := meter.Int64Counter("promptweir.breaker.transitions", metric.WithUnit("{transition}"),
		metric.WithDescription("State changes of an upstream's breaker, by new state."))
	connects, err3 := meter.Int64Counter("promptweir.upstream.connects", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts to connect to an upstream, failed ones by reason."))
	// Only an invalid name causes an error. The instrument is then a no-op, so measurements can go
	// on.
	if err := errors.Join(err1, err2, err3); err != nil {
		otel.Handle(err)
	}
	tracer := otel.Tracer(scope)
	_, silent := tracer.(noop.Tracer)
	common := []attribute.KeyValue{AttrUpstream.String(u.Name), AttrTeam.String(u.Team), attrTransport.String(network)}
	succeeded := map[string]metric.MeasurementOption{}
	for _, method := range []string{wire.PromptsGet, wire.Complete} {
		succeeded[method] = metric.WithAttributeSet(attribute.NewSet(append(slices.Clip(common), AttrMethod.String(method))...))
	}
	return &Metrics{tracer, silent, duration, transitions, connects, common, succeeded}
}

// countConnect counts an attempt to connect. err is nil for a success.
func (i *Metrics) countConnect(err error) {
	// Cut off the spare capacity: concurrent measurements would append to the same array.
	attributes := i.common[:2:2] // the upstream and its team
	if err != nil {
		attributes = append(attributes, AttrReason.String(string(client.OutcomeOf(err).Reason)))
	}
	i.connects.Add(context.Background(), 1, metric.WithAttributes(attributes...))
}

// Measurement is a call in progress.
type Measurement struct {
	*Metrics

	ctx            context.Context //nolint:containedctx // the context of a recording span, or an empty context
	span           trace.Span
	method, prompt string
	Begun          time.Time
}

// clientSpan are the options of every span, shared to avoid an allocation for each span.
var clientSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)} //nolint:gochecknoglobals // a constant

// sampled reports whether the span of a call may be sampled. If the span of the gateway's own request is not sampled, the
// span of its call would not be either: all samplers of OTEL_TRACES_SAMPLER decide by the trace's id or the parent. Such a
// call needs no span. The server then receives the id of the request's span, marked as not sampled.
func sampled(ctx context.Context) bool {
	parent := trace.SpanContextFromContext(ctx)
	return !parent.IsValid() || parent.IsSampled() || parent.IsRemote()
}

// Start starts the client span of a call. [Measurement.End] ends it and records the duration.
func (i *Metrics) Start(ctx context.Context, method, prompt string) (context.Context, Measurement) {
	begun := time.Now()
	var span trace.Span = noop.Span{}
	if !i.silent && sampled(ctx) {
		name := method
		if prompt != "" {
			name += " " + prompt
		}
		ctx, span = i.tracer.Start(ctx, name, clientSpan...)
	}
	m := Measurement{i, ctx, span, method, prompt, begun}
	if !span.IsRecording() {
		// Record searches the context, and all its parents, for a sampled span. An empty context saves the search.
		m.ctx = context.Background()
	}
	return ctx, m
}

// End ends the span of a call and records its duration. revision is empty if there is no result. ended is the outcome of
// err, which wraps [context.Canceled] if the caller left.
func (m Measurement) End(revision string, ended client.Outcome, err error) {
	label, failed := failureOf(ended, err)
	attributes, ok := m.succeeded[m.method]
	if err != nil || !ok {
		attributes = metric.WithAttributes(append(append(slices.Clip(m.common), AttrMethod.String(m.method)), failed...)...)
	}
	if m.span.IsRecording() {
		m.describe(revision, failed)
		if err != nil {
			m.span.SetStatus(codes.Error, label)
		}
		m.span.End()
	}
	m.duration.Record(m.ctx, time.Since(m.Begun).Seconds(), attributes)
}

// describe sets all attributes of the span at once, because each call of SetAttributes allocates memory.
func (m Measurement) describe(revision string, failed []attribute.KeyValue) {
	attributes := append(slices.Clip(m.common), AttrMethod.String(m.method))
	if m.prompt != "" {
		attributes = append(attributes, AttrPrompt.String(m.prompt))
	}
	if revision != "" {
		attributes = append(attributes, AttrRevision.String(revision))
	}
	m.span.SetAttributes(append(attributes, failed...)...)
}

// failureOf returns the error.type of an error, and the attributes that describe the error in metrics and spans: the
// error.type, and the server's error code or the reason for the missing answer.
func failureOf(o client.Outcome, err error) (label string, attributes []attribute.KeyValue) {
	switch label = string(o.Reason); {
	case err == nil:
		return "", nil
	case o.Answer != nil:
		label = o.Answer.Label()
		return label, []attribute.KeyValue{AttrErrorType.String(label), AttrStatus.String(label)}
	case errors.Is(err, context.Canceled):
		return "cancelled", []attribute.KeyValue{AttrErrorType.String("cancelled")}
	case o.Lost:
		label = "error"
	}
	return label, []attribute.KeyValue{AttrErrorType.String(label), AttrReason.String(string(o.Reason))}
}
