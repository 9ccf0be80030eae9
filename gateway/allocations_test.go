package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	collected "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// forgetting is a client of a collector that sends nothing.
type forgetting struct{}

func (forgetting) Start(context.Context) error                                    { return nil }
func (forgetting) Stop(context.Context) error                                     { return nil }
func (forgetting) UploadTraces(context.Context, []*collected.ResourceSpans) error { return nil }

// tracedGet returns a function that gets a prompt from a server over HTTP, from a gateway with such a sampler; nil for one that does
// not trace.
func tracedGet(tb testing.TB, modern bool, sampler trace.Sampler) (once func(), last *recorder) {
	tb.Helper()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	if sampler != nil {
		exporter, err := otlptrace.New(tb.Context(), forgetting{})
		if err != nil {
			tb.Fatal(err)
		}
		otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSampler(sampler), trace.WithBatcher(exporter)))
	}
	tb.Cleanup(func() {
		otel.SetTracerProvider(tracenoop.NewTracerProvider())
		otel.SetMeterProvider(metricnoop.NewMeterProvider())
	})
	if modern {
		s := gatewaytest.Serve(tb, gatewaytest.Team("eng", "", "", answering(tb, gatewaytest.NewModernPeer(tb, "up", "a"))))
		return handled(tb, s.Modern(""), "prompts/get", gatewaytest.GetParams("up.a"))
	}
	s := gatewaytest.Serve(tb, gatewaytest.Team("eng", "", "", answering(tb, gatewaytest.NewPeer(tb, "up", "a"))))
	return handled(tb, s.Legacy("2025-11-25", ""), "prompts/get", gatewaytest.GetParams("up.a"))
}

// answering puts a server in front of a peer that answers gets itself. It looks at next to nothing, so that what is measured is the
// gateway's.
func answering(tb testing.TB, p *gatewaytest.Peer) *gatewaytest.Peer {
	tb.Helper()
	var result string
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(body)
		body.Reset()
		if _, err := body.ReadFrom(r.Body); err != nil {
			return
		}
		before, after, ok := bytes.Cut(body.Bytes(), []byte(`,"method":"prompts/get"`))
		if _, id, hasID := bytes.Cut(before, []byte(`"id":`)); ok && hasID && len(after) > 0 {
			w.Header()["Content-Type"] = []string{"application/json"}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(bytes.Clone(body.Bytes())))
		p.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	result, p.URL = p.Result("prompts/get"), server.URL
	return p
}

// A request that is not sampled passes its trace on, and costs little else. One that is has two spans, and their export.
func TestTrace_AllocatesLittle(t *testing.T) {
	for _, test := range []struct {
		name    string
		sampler trace.Sampler
		most    float64
	}{
		{"not sampled", trace.ParentBased(trace.NeverSample()), 28},
		{"sampled", trace.ParentBased(trace.AlwaysSample()), 38},
	} {
		for _, modern := range []bool{false, true} {
			allocs := func(sampler trace.Sampler) float64 {
				once, last := tracedGet(t, modern, sampler)
				n := upstreamtest.Allocs(t, once)
				wantGot(t, last)
				return n
			}
			without, with := allocs(nil), allocs(test.sampler)
			if with > without+test.most {
				t.Errorf("%s, modern %t: %v allocations for a get, want %v more at most than the %v of one without traces", test.name, modern, with, test.most, without)
			}
		}
	}
}
