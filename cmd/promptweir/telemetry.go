package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	prometheusclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// flushBound is how long the last spans and metrics may take to leave.
const flushBound = 5 * time.Second

// telemetry is the OpenTelemetry SDK at work. The packages know its API only.
type telemetry struct {
	// metrics serves what is counted, in Prometheus' format.
	metrics http.Handler
	stops   []func(context.Context) error
}

// startTelemetry starts what the standard OTEL_* variables ask for, and nothing that they do not: only metrics for
// Prometheus are always there.
func startTelemetry(ctx context.Context, version string, logger *slog.Logger) (*telemetry, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.WarnContext(context.WithoutCancel(ctx), "telemetry", slog.Any("error", err))
	}))
	registry := prometheusclient.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t := &telemetry{metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return t, nil
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "promptweir"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil { // it is usable all the same
		logger.WarnContext(ctx, "telemetry resource", slog.Any("error", err))
	}
	if err := t.startMetrics(ctx, described, registry); err != nil {
		return nil, err
	}
	return t, t.startTraces(ctx, described)
}

// asked reports whether the environment wants a signal exported: by naming an exporter, or a place to export to.
func asked(signal string) bool {
	for _, name := range []string{
		"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT",
	} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

func (t *telemetry) startMetrics(ctx context.Context, described *resource.Resource, registry *prometheusclient.Registry) error {
	reader, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	options := []metric.Option{metric.WithResource(described), metric.WithReader(reader)}
	if asked("METRICS") {
		exporter, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		options = append(options, metric.WithReader(exporter))
	}
	provider := metric.NewMeterProvider(options...)
	otel.SetMeterProvider(provider)
	t.stops = append(t.stops, provider.Shutdown)
	return nil
}

func (t *telemetry) startTraces(ctx context.Context, described *resource.Resource) error {
	if !asked("TRACES") {
		otel.SetTracerProvider(noop.NewTracerProvider()) // it costs less than the one that waits for another
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	provider := trace.NewTracerProvider(trace.WithResource(described), trace.WithBatcher(exporter))
	otel.SetTracerProvider(provider)
	t.stops = append(t.stops, provider.Shutdown)
	return nil
}

// stop sends what is left, within flushBound.
func (t *telemetry) stop(ctx context.Context, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushBound)
	defer cancel()
	var failed []error
	for _, stop := range slices.Backward(t.stops) {
		failed = append(failed, stop(ctx))
	}
	if err := errors.Join(failed...); err != nil {
		logger.WarnContext(ctx, "telemetry not flushed", slog.Any("error", err))
	}
}
