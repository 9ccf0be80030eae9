package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	prometheusclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// flushBound bounds the export of the last spans, metrics and log records, when the process ends.
const flushBound = 5 * time.Second

// telemetry is the OpenTelemetry SDK with its exporters. Other packages use the API only.
type telemetry struct {
	// metrics serves all metrics in the Prometheus format.
	metrics http.Handler
	// logs exports log records.
	logs  slog.Handler
	stops []func(context.Context) error
}

// exemptCollectors adds the collectors to NO_PROXY: otherwise the exporters would use the egress proxy, which
// is for upstreams.
func exemptCollectors() {
	hosts := []string{cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy"))}
	for _, signal := range []string{"", "TRACES_", "METRICS_", "LOGS_"} {
		if endpoint, err := url.Parse(os.Getenv("OTEL_EXPORTER_OTLP_" + signal + "ENDPOINT")); err == nil && endpoint.Hostname() != "" {
			hosts = append(hosts, endpoint.Hostname())
		}
	}
	if len(hosts) > 1 {
		_ = os.Setenv("NO_PROXY", strings.Join(hosts, ",")) // the name is valid
	}
}

// startTelemetry starts the exporters that the standard OTEL_* variables configure. Without these variables,
// it only provides metrics for Prometheus: a default exporter would log that this machine has no collector.
// logger must not export records, because it receives the exporters' errors.
func startTelemetry(ctx context.Context, version, commit string, logger *slog.Logger) (*telemetry, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.WarnContext(context.WithoutCancel(ctx), "telemetry not exported",
			slog.Any("error", err))
	}))
	exemptCollectors()
	registry := prometheusclient.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheusclient.NewGaugeFunc(prometheusclient.GaugeOpts{
			Name: "promptweir_build_info", Help: "1, by the version, commit and compiler of the program.",
			ConstLabels: prometheusclient.Labels{"version": version, "revision": commit, "goversion": runtime.Version()},
		}, func() float64 { return 1 }))
	t := &telemetry{
		metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), logs: slog.DiscardHandler,
	}
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return t, nil
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "promptweir"),
			attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil { // the resource then lacks only some attributes
		logger.WarnContext(ctx, "telemetry resource incomplete", slog.Any("error", err))
	}
	if err := t.startMetrics(ctx, described, registry); err != nil {
		return nil, err
	}
	if err := t.startTraces(ctx, described); err != nil {
		return nil, err
	}
	return t, t.startLogs(ctx, described)
}

// exported reports whether the environment configures an exporter or an endpoint for a signal: TRACES,
// METRICS or LOGS.
func exported(signal string) bool {
	if os.Getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return false
	}
	return cmp.Or(os.Getenv("OTEL_"+signal+"_EXPORTER"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
		os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT")) != ""
}

func (t *telemetry) startMetrics(
	ctx context.Context, described *resource.Resource, registry *prometheusclient.Registry,
) error {
	reader, err := prometheus.New(prometheus.WithRegisterer(registry),
		prometheus.WithoutScopeInfo())
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	options := []metric.Option{metric.WithResource(described), metric.WithReader(reader)}
	if !exported("TRACES") && os.Getenv("OTEL_METRICS_EXEMPLAR_FILTER") == "" {
		// Without traces, there are no exemplars to record.
		options = append(options, metric.WithExemplarFilter(exemplar.AlwaysOffFilter))
	}
	if exported("METRICS") {
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
	if !exported("TRACES") {
		// The no-op provider is cheaper than the default provider, which delegates to a provider that may be
		// set later.
		otel.SetTracerProvider(noop.NewTracerProvider())
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

func (t *telemetry) startLogs(ctx context.Context, described *resource.Resource) error {
	if !exported("LOGS") {
		return nil
	}
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	provider := log.NewLoggerProvider(log.WithResource(described),
		log.WithProcessor(log.NewBatchProcessor(exporter)))
	t.logs = otelslog.NewHandler("github.com/promptweir/promptweir",
		otelslog.WithLoggerProvider(provider))
	t.stops = append(t.stops, provider.Shutdown)
	return nil
}

// stop exports the last spans, metrics and log records within flushBound, and logs errors.
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

const (
	// blockSample is the total blocked time per sample of the block profile.
	blockSample = 10 * time.Millisecond
	// mutexSample is the number of contended locks per sample of the mutex profile.
	mutexSample = 100
)

// startProfiling turns on block and mutex profiles at a negligible rate, and returns the handler of
// /debug/pprof/.
func startProfiling() http.Handler {
	runtime.SetBlockProfileRate(int(blockSample))
	runtime.SetMutexProfileFraction(mutexSample)
	// Importing net/http/pprof also registers its handlers with http.DefaultServeMux, which no server uses.
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
