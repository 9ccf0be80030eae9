package gateway_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// collect returns the series of a metric, each as its attributes, sorted, with its value or count.
func collect(t *testing.T, reader *metric.ManualReader, name string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	series := map[string]int64{}
	add := func(set attribute.Set, n int64) {
		var labels []string
		for _, a := range set.ToSlice() {
			labels = append(labels, fmt.Sprintf("%s=%s", a.Key[strings.LastIndexByte(string(a.Key), '.')+1:], a.Value.String()))
		}
		series[strings.Join(labels, " ")] += n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, int64(p.Count))
					if bounds := p.Bounds; bounds[len(bounds)-1] != 300 {
						t.Errorf("%s: buckets %v, want them up to 300 s", name, bounds)
					}
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			}
		}
	}
	return series
}

// has reports whether there is a series with all of some labels.
func has(series map[string]int64, labels ...string) bool {
	for name := range series {
		all := strings.Fields(name)
		if !slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(all, label) }) {
			return true
		}
	}
	return false
}

// wantKnownReasons fails the test if a series of durations has a reason that alerts and dashboards cannot know.
func wantKnownReasons(t *testing.T, series map[string]int64) {
	t.Helper()
	known := strings.Fields("unreachable timeout denied rate_limited overloaded breaker_open bad_response screened starting shutting_down audit " +
		"malformed expired_key wrong_principal")
	for labels := range series {
		for label := range strings.FieldsSeq(labels) {
			if reason, ok := strings.CutPrefix(label, "reason="); ok && !slices.Contains(known, reason) {
				t.Errorf("the reason %s in %s", reason, labels)
			}
		}
	}
}

func TestMetrics_SayWhyGetsFail(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	p := gatewaytest.NewPeer(t, "up", "a", "hidden", "broken", "odd", `{"name":"strict","arguments":[{"name":"code","required":true}]}`)
	s := gatewaytest.Serve(t, "gateway {\n limit {\n rate = 0.001\n burst = 8\n }\n}\n"+
		gatewaytest.Team("eng", "", `hide "h" { prompts = ["*.hidden"] }`, p, gatewaytest.NewDownPeer(t)))
	s.AwaitTrouble("gone")
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		switch params := string(call.Params); {
		case strings.Contains(params, "broken"):
			p.Respond(w, call, `error:{"code":-32603,"message":"no","data":{"reason":"timeout"}}`)
		case strings.Contains(params, "odd"):
			w.WriteHeader(http.StatusForbidden)
		default:
			return false
		}
		return true
	})
	c := s.Modern("")
	get := func(name string) gatewaytest.Response {
		return c.CallUnchecked("prompts/get", gatewaytest.GetParams(name))
	}
	get("up.a").Want(t, http.StatusOK, `"from up"`)
	get("up.hidden").Want(t, http.StatusOK, "-32602")
	get("up.none").Want(t, http.StatusOK, "-32602")
	get("up.broken").Want(t, http.StatusOK, `"timeout"`) // the server's own word
	get("up.odd").Want(t, http.StatusOK, `"denied"`)
	get("up.strict").Want(t, http.StatusOK, `"missing"`) // no word of metrics: an argument that is missing is the client's business
	c.CallUnchecked("prompts/list", `{"cursor":"x"}`).Want(t, http.StatusOK, `"malformed"`)
	for range 7 {
		get("up.a")
	}
	get("up.a").Want(t, http.StatusOK, `"rate_limited"`)

	served := collect(t, reader, "mcp.server.operation.duration")
	wantKnownReasons(t, served)
	for _, labels := range [][]string{
		{"name=prompts/get", "reason=denied"},
		{"name=prompts/get", "reason=rate_limited"},
		{"name=prompts/list", "reason=malformed"},
	} {
		if !has(served, labels...) {
			t.Errorf("no request with %q in %v", labels, served)
		}
	}
	if has(served, "reason=timeout") {
		t.Errorf("a server's own error counts as one of the gateway's: %v", served)
	}
	if got := served["type=-32602 name=prompts/get version=2026-07-28 status_code=-32602"]; got != 3 {
		t.Errorf("%d gets of a hidden and an unknown prompt, and without an argument, look alike, want all: %v", got, served)
	}
	called := collect(t, reader, "mcp.client.operation.duration")
	wantKnownReasons(t, called)
	if !has(called, "upstream=up", "reason=denied") || has(called, "reason=timeout") {
		t.Errorf("calls: %v", called)
	}

	gets := collect(t, reader, "promptweir.prompt.gets")
	for labels, want := range map[string]int64{
		"name=up.a outcome=ok": 4, "name=up.a outcome=refused": 5, "outcome=unknown": 2, "name=up.broken outcome=upstream_error": 1, "name=up.odd outcome=failed": 1,
	} {
		upstreamtest.Equal(t, want, gets[labels], "gets with %s, of %v", labels, gets)
	}
	if has(gets, "name=up.hidden") || has(gets, "outcome=denied") {
		t.Errorf("a hidden prompt is told apart: %v", gets)
	}
	connects := collect(t, reader, "promptweir.upstream.connects")
	if !has(connects, "upstream=gone", "reason=unreachable") || connects["team=eng upstream=up"] != 1 {
		t.Errorf("connects: %v", connects)
	}
	since := collect(t, reader, "promptweir.upstream.problem.timestamp")
	if at := time.Unix(since["reason=unreachable team=eng upstream=gone"], 0); len(since) != 1 || time.Since(at) > gatewaytest.Timeout {
		t.Errorf("in trouble: %v", since)
	}
}

// What an operator tries is no client's get, or alerts and the use of a prompt would be those of the people who look after it. The
// server is asked all the same.
func TestMetrics_CountWhatOperatorsTryAtTheUpstreamOnly(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	s := gatewaytest.Serve(t, fmt.Sprintf("admin {\n token_sha256 = \"%x\"\n}\n", sha256.Sum256([]byte("operator")))+
		gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a")))
	headers := append(gatewaytest.Bearer("operator"), "Content-Type", "application/x-www-form-urlencoded")
	gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/try", "name=up.a", headers).Want(t, http.StatusOK, `"state": "done"`)
	if gets := collect(t, reader, "promptweir.prompt.gets"); len(gets) > 0 {
		t.Errorf("gets: %v", gets)
	}
	if served := collect(t, reader, "mcp.server.operation.duration"); has(served, "name=prompts/get") {
		t.Errorf("requests: %v", served)
	}
	if called := collect(t, reader, "mcp.client.operation.duration"); !has(called, "name=prompts/get", "upstream=up") {
		t.Errorf("calls: %v", called)
	}
}

func TestMetrics_SayHowSoonClientsHearOfChanges(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	p := gatewaytest.NewPeer(t, "up", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	p.AwaitStream()
	stream := s.Modern("").Listen("1")
	defer stream.Close()
	p.Offer("a", "b")
	stream.WantChange()
	upstreamtest.Eventually(t, "the notification is measured", func() bool {
		return collect(t, reader, "promptweir.notification.duration")[""] == 1
	})
}
