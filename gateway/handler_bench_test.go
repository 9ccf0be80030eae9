package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
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

// recorder is a client that keeps the last response.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

func (d *recorder) Header() http.Header    { return d.header }
func (d *recorder) WriteHeader(status int) { d.status = status }

// SetWriteDeadline is called because connections have it.
func (d *recorder) SetWriteDeadline(time.Time) error { return nil }

func (d *recorder) Write(p []byte) (int, error) {
	d.body = append(d.body, p...)
	return len(p), nil
}

// handled returns a function that makes a request, without a network in front of the gateway.
func handled(tb testing.TB, c *gatewaytest.Client, method, params string) (once func(), last *recorder) {
	tb.Helper()
	body, h := c.Encode("1", method, params)
	r := gatewaytest.NewRequest(tb.Context(), tb, http.MethodPost, c.URL, body, h)
	r.RemoteAddr = "192.0.2.1:4711"
	handler, reader, d := c.Handler(), strings.NewReader(body), &recorder{header: http.Header{}}
	return func() {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		clear(d.header)
		d.status, d.body = 0, d.body[:0]
		handler.ServeHTTP(d, r)
	}, d
}

func wantGot(tb testing.TB, last *recorder) {
	tb.Helper()
	if last.status != http.StatusOK || !strings.Contains(string(last.body), `"messages"`) {
		tb.Fatalf("%d %s", last.status, last.body)
	}
}

// A list costs its exchange and its body: its page is that of the view.
func TestList_AllocatesNextToNothing(t *testing.T) {
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a", "b")))
	for most, c := range map[float64]*gatewaytest.Client{3: s.Legacy("2025-11-25", ""), 5: s.Modern("")} {
		c.WantList("up.a", "up.b")
		once, last := handled(t, c, "prompts/list", "")
		if got := upstreamtest.Allocs(t, once); got > most || last.status != http.StatusOK { // one of them is this test's
			t.Errorf("%v allocations, want %v at most; status %d", got, most, last.status)
		}
	}
}

// BenchmarkHandler measures one request without the HTTP server in front of the gateway, with metrics and without tracing.
// Gets and completions include the upstream, over loopback.
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
	legacy.WantList("up.p0", "up.p1", "up.p2", "up.p3", "up.p4", "up.p5", "up.p6", "up.p7", "up.p8", "up.p9")
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

// BenchmarkList makes lists of so many prompts without the HTTP server in front of the gateway. This client copies each response.
func BenchmarkList(b *testing.B) {
	otel.SetTracerProvider(tracenoop.NewTracerProvider())
	for _, prompts := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(prompts), func(b *testing.B) {
			peer := gatewaytest.NewPeer(b, "up", upstreamtest.Prompts(prompts)...)
			once, last := handled(b, gatewaytest.Serve(b, gatewaytest.Team("eng", "", "", peer)).Modern(""), "prompts/list", "")
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
			if want := fmt.Sprintf(`"up.p%05d"`, prompts-1); !strings.Contains(string(last.body), want) {
				b.Fatalf("no prompt %s: %d %.200s", want, last.status, last.body)
			}
		})
	}
}
