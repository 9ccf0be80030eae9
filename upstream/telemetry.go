package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Attributes of the OpenTelemetry semantic conventions for MCP, and the gateway's own, that have the
// same meaning on both sides.
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

// instruments are one upstream's metrics and spans. Attributes of metrics are names from the
// configuration only: the prompt's name is an attribute of spans, never of metrics.
type instruments struct {
	tracer trace.Tracer
	// silent says that spans are not collected, so that none need be started.
	silent bool
	// duration is how long a call took, in seconds (mcp.client.operation.duration).
	duration metric.Float64Histogram
	// transitions counts the breaker's changes of state.
	transitions metric.Int64Counter
	// connects counts attempts to connect.
	connects metric.Int64Counter
	common   []attribute.KeyValue
	// succeeded returns the attributes of a successful call, by method: making them again for each
	// call would cost more than the rest of the measurement, and having them for upstreams that are
	// never called a kilobyte each.
	succeeded func() map[string]metric.MeasurementOption
}

func newInstruments(u *config.Upstream) *instruments {
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
	// Only of invalid names, and beside an instrument that does nothing.
	if err := errors.Join(err1, err2, err3); err != nil {
		otel.Handle(err)
	}
	tracer := otel.Tracer(scope)
	_, silent := tracer.(noop.Tracer)
	common := []attribute.KeyValue{AttrUpstream.String(u.Name), AttrTeam.String(u.Team), attrTransport.String(network)}
	return &instruments{
		tracer: tracer, silent: silent, duration: duration, transitions: transitions, connects: connects, common: common,
		succeeded: sync.OnceValue(func() map[string]metric.MeasurementOption {
			all := map[string]metric.MeasurementOption{}
			for _, method := range []string{wire.PromptsGet, wire.Complete} {
				all[method] = metric.WithAttributeSet(attribute.NewSet(append(slices.Clip(common), AttrMethod.String(method))...))
			}
			return all
		}),
	}
}

// countTransition counts a change of the circuit breaker's state.
func (i *instruments) countTransition(to BreakerState) {
	i.transitions.Add(context.Background(), 1,
		metric.WithAttributes(i.common[0], attrState.String(to.String())))
}

// countConnect counts an attempt to connect, which failed unless err is nil.
func (i *instruments) countConnect(err error) {
	// Without room behind them: measurements of calls append to the same array at the same time.
	attributes := i.common[:2:2] // the upstream and its team
	if err != nil {
		attributes = append(attributes, AttrReason.String(string(outcomeOf(err).Reason)))
	}
	i.connects.Add(context.Background(), 1, metric.WithAttributes(attributes...))
}

// measurement is a call that is being measured.
type measurement struct {
	*instruments

	ctx            context.Context //nolint:containedctx // the span's, in which the duration is recorded; empty where none is
	span           trace.Span
	method, prompt string
	begun          time.Time
}

// clientSpan are the options of every span; making them each time would allocate.
var clientSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)} //nolint:gochecknoglobals // a constant

// sampled reports whether the span of a call in ctx may be sampled. It is not if that of the
// gateway's own request is not: so decides each sampler that OTEL_TRACES_SAMPLER can name, by the
// trace's id or by the parent. Such a call needs no span. The server then gets the id of the
// request's, and that it is not sampled.
func sampled(ctx context.Context) bool {
	parent := trace.SpanContextFromContext(ctx)
	return !parent.IsValid() || parent.IsSampled() || parent.IsRemote()
}

// start starts the client span of a call. [measurement.end] ends it and records the duration.
func (i *instruments) start(ctx context.Context, method, prompt string) (context.Context, measurement) {
	begun := time.Now()
	var span trace.Span = noop.Span{}
	if !i.silent && sampled(ctx) {
		name := method
		if prompt != "" {
			name += " " + prompt
		}
		ctx, span = i.tracer.Start(ctx, name, clientSpan...)
	}
	m := measurement{i, ctx, span, method, prompt, begun}
	if !span.IsRecording() {
		// A sampled span is looked for there, through all the contexts of the request.
		m.ctx = context.Background()
	}
	return ctx, m
}

// end ends the span of a call and records its duration. The revision is empty if the call brought
// no result.
func (m measurement) end(revision string, ended outcome) {
	failed := ended.attributes()
	attributes, ok := m.succeeded()[m.method]
	if ended.err != nil || !ok {
		attributes = metric.WithAttributes(append(append(slices.Clip(m.common), AttrMethod.String(m.method)), failed...)...)
	}
	if m.span.IsRecording() {
		m.describe(revision, failed)
		if ended.err != nil {
			m.span.SetStatus(codes.Error, ended.label())
		}
		m.span.End()
	}
	m.duration.Record(m.ctx, time.Since(m.begun).Seconds(), attributes)
}

// describe sets what the span says of the call, all at once: each time, the span makes room for
// what is added.
func (m measurement) describe(revision string, failed []attribute.KeyValue) {
	attributes := append(slices.Clip(m.common), AttrMethod.String(m.method))
	if m.prompt != "" {
		attributes = append(attributes, AttrPrompt.String(m.prompt))
	}
	if revision != "" {
		attributes = append(attributes, AttrRevision.String(revision))
	}
	m.span.SetAttributes(append(attributes, failed...)...)
}

// attributes say why there was no result: the server's error code, or the reason why it did not answer.
func (o outcome) attributes() []attribute.KeyValue {
	if o.err == nil {
		return nil
	}
	attributes := []attribute.KeyValue{AttrErrorType.String(o.label())}
	switch {
	case o.Answer != nil:
		attributes = append(attributes, AttrStatus.String(o.Answer.Label()))
	case !o.gone:
		attributes = append(attributes, AttrReason.String(string(o.Reason)))
	}
	return attributes
}
