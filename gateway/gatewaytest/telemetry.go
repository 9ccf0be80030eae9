package gatewaytest

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Log keeps log lines in memory. It may be read while a gateway writes it.
type Log = upstreamtest.Log

// RecordTelemetry replaces the global tracer and meter providers by recorders until the test ends.
// Tests that use it cannot run in parallel.
func RecordTelemetry(tb testing.TB) (*tracetest.SpanRecorder, *metric.ManualReader) {
	tb.Helper()
	spans, reader := tracetest.NewSpanRecorder(), metric.NewManualReader()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	tb.Cleanup(func() {
		// Not the providers from before: the global ones delegate to the first that is set,
		// forever.
		otel.SetTracerProvider(tracenoop.NewTracerProvider())
		otel.SetMeterProvider(metricnoop.NewMeterProvider())
	})
	return spans, reader
}

// TraceA and TraceB are values of the header traceparent.
const (
	TraceA = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01"
	TraceB = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-2222222222222222-01"
)

// AwaitSpan waits for the end of a span and returns it. The span has a name, and a trace ID that
// begins with traceID.
func AwaitSpan(tb testing.TB, spans *tracetest.SpanRecorder, name, traceID string) (found trace.ReadOnlySpan) {
	tb.Helper()
	upstreamtest.Eventually(tb, "span "+name, func() bool {
		for _, span := range spans.Ended() {
			if span.Name() == name && strings.HasPrefix(span.SpanContext().TraceID().String(), traceID) {
				found = span
			}
		}
		return found != nil
	})
	return found
}
