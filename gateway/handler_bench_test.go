package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// drain is a client that takes a response without looking at it.
type drain struct {
	header http.Header
	status int
	body   []byte
}

func (d *drain) Header() http.Header    { return d.header }
func (d *drain) WriteHeader(status int) { d.status = status }

// SetWriteDeadline is there because a connection has it.
func (d *drain) SetWriteDeadline(time.Time) error { return nil }

func (d *drain) Write(p []byte) (int, error) {
	d.body = append(d.body, p...)
	return len(p), nil
}

// handled returns a function that has a request handled, without a network before the gateway.
func handled(tb testing.TB, c *gatewaytest.Client, method, params string) (once func(), last *drain) {
	tb.Helper()
	body, h := c.Encode("1", method, params)
	r := gatewaytest.NewRequest(tb.Context(), tb, http.MethodPost, c.URL, body, h)
	handler, reader, d := c.Handler(), strings.NewReader(body), &drain{header: http.Header{}}
	return func() {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		clear(d.header)
		d.status, d.body = 0, d.body[:0]
		handler.ServeHTTP(d, r)
	}, d
}

// A list allocates what is known of its request: the body, the message's method and members, the request and its exchange. Its
// page goes into memory that an earlier response left behind.
func TestList_AllocatesItsRequestOnly(t *testing.T) {
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a", "b"))).Legacy("2025-11-25", "")
	c.WantList("up.a", "up.b")
	once, last := handled(t, c, "prompts/list", "")
	if got := upstreamtest.Allocs(t, once); got > 5 || last.status != http.StatusOK {
		t.Errorf("%v allocations, want 5 at most; status %d", got, last.status)
	}
}

// One request through all of the gateway but the HTTP server before it, metrics on and tracing off. A get and a completion
// include the upstream, over loopback.
func BenchmarkHandler(b *testing.B) {
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	b.Cleanup(func() { otel.SetMeterProvider(metricnoop.NewMeterProvider()) })
	prompts := make([]string, 10)
	for i := range prompts {
		prompts[i] = fmt.Sprintf("p%d", i)
	}
	s := gatewaytest.Serve(b, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(b, "up", prompts...)))
	legacy, modern := s.Legacy("2025-11-25", ""), s.Modern("")
	for _, test := range []struct {
		name   string
		c      *gatewaytest.Client
		method string
		params string
	}{
		{"initialize", legacy, "initialize", gatewaytest.InitializeParams("2025-11-25")},
		{"list/legacy", legacy, "prompts/list", ""},
		{"list/modern", modern, "prompts/list", ""},
		{"get/legacy", legacy, "prompts/get", gatewaytest.GetParams("up.p1")},
		{"get/modern", modern, "prompts/get", gatewaytest.GetParams("up.p1")},
		{"complete/legacy", legacy, "completion/complete", gatewaytest.CompleteParams("up.p1")},
		{"discover", modern, "server/discover", ""},
	} {
		b.Run(test.name, func(b *testing.B) {
			once, last := handled(b, test.c, test.method, test.params)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
			if last.status != http.StatusOK || !strings.Contains(string(last.body), `"result"`) {
				b.Fatalf("%d %s", last.status, last.body)
			}
		})
	}
}
