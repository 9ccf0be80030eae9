package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestReadyz_ReportsUpstreams(t *testing.T) {
	ready := func(s *gatewaytest.Server, status int) admin.Readiness {
		t.Helper()
		a := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil)
		a.Want(t, status)
		var r admin.Readiness
		if err := json.Unmarshal([]byte(a.Body), &r); err != nil {
			t.Fatal(err)
		}
		if r.Ready != (status == http.StatusOK) {
			t.Errorf("status %d, but the body is %s", status, a.Body)
		}
		return r
	}
	ready(gatewaytest.Serve(t, ``), http.StatusOK)
	ready(gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewDownPeer(t))), http.StatusOK) // its errors say why
	up := gatewaytest.NewPeer(t, "up", "a", "a")
	up.Settings = `prefix = ""`
	r := ready(gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", up, gatewaytest.NewDownPeer(t), gatewaytest.NewPeer(t, "b"))), http.StatusOK)
	if len(r.Upstreams) != 3 || r.Entries != 1 || len(r.Reports) != 1 {
		t.Fatalf("got %+v", r)
	}
	if h := r.Upstreams[0]; h.Name != "up" || h.Team != "eng" || !h.Connected || !h.Listed || h.Prompts != 2 || h.Revision != "2025-11-25" || h.Reason != "" {
		t.Errorf("got %+v", h)
	}
	if h := r.Upstreams[1]; h.Name != "gone" || h.Connected || h.Listed || h.Reason != "unreachable" || h.Since == nil {
		t.Errorf("got %+v", h)
	}
}

// HAProxy's option httpchk sends HTTP/1.0 without a Host header unless it is told otherwise.
func TestAdmin_AnswersHealthChecksWithoutHost(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	address := strings.TrimPrefix(s.AdminURL, "http://")
	for request, want := range map[string]string{
		"GET /healthz HTTP/1.0\r\n\r\n":                                   "200",
		"GET /readyz HTTP/1.0\r\n\r\n":                                    "200",
		"GET /metrics HTTP/1.0\r\n\r\n":                                   "403",
		"GET / HTTP/1.0\r\n\r\n":                                          "403",
		"GET /readyz HTTP/1.0\r\nHost: evil.example.com\r\n\r\n":          "403",
		"GET /readyz HTTP/1.0\r\nOrigin: http://evil.example.com\r\n\r\n": "403",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		_ = conn.Close()
		if status := strings.Fields(string(answer)); err != nil || len(status) < 2 || status[1] != want {
			t.Errorf("%q is answered with %.80q, want status %s (%v)", request, answer, want, err)
		}
	}
}

func TestIsReady_WaitsForUpstreamsThatNeitherAnswerNorFail(t *testing.T) {
	s := gatewaytest.Start(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a"), gatewaytest.NewSilentPeer(t, "slow")))
	for running, want := range map[time.Duration]bool{0: false, 4 * time.Second: false, 5 * time.Second: true, time.Hour: true} {
		if ready := admin.IsReady(s.Snapshot(), running); ready != want {
			t.Errorf("after %v: ready %t, want %t", running, ready, want)
		}
	}
}

func TestReadyz_IsReadyAtOnceWithKeptLists(t *testing.T) {
	state := t.TempDir()
	text := func(p *gatewaytest.Peer) string { return gatewaytest.Team("eng", "", "", p) }
	p := gatewaytest.NewPeer(t, "up", "a")
	s := gatewaytest.StartWith(t, text(p), gateway.Options{StateDir: state})
	s.AwaitUpstreams()
	s.Stop()
	p.Intercept(func(w http.ResponseWriter, r *http.Request, _ gatewaytest.Call) bool { // from now on it does not answer
		<-r.Context().Done()
		return true
	})
	s = gatewaytest.StartWith(t, text(p), gateway.Options{StateDir: state})
	if !admin.IsReady(s.Snapshot(), 0) {
		t.Error("it is not ready with the list of the earlier process")
	}
}

// Load balancers ask several times a second. What they may not see, why each of ten thousand
// upstreams is down, is not worked out.
func TestReadyz_CostsTheSameForAnyNumberOfUpstreams(t *testing.T) {
	allocs := func(upstreams int) float64 {
		var text strings.Builder
		for i := range upstreams {
			fmt.Fprintf(&text, "upstream \"u%d\" { url = \"http://127.0.0.1:1\" }\n", i)
		}
		g, err := gateway.New(gatewaytest.Load(t, "team \"eng\" {\n"+text.String()+"}\n"), gateway.Options{})
		if err != nil {
			t.Fatal(err)
		}
		handler := g.Admin(http.NotFoundHandler())
		return upstreamtest.Allocs(t, func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/readyz", http.NoBody)
			r.RemoteAddr = "192.0.2.1:1234"
			handler.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	if few, many := allocs(1), allocs(100); many > few+5 {
		t.Errorf("/readyz allocates %.0f times with one upstream, and %.0f with a hundred", few, many)
	}
}

func TestAdmin_ShowsDetailToThisMachineOnly(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a")))
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/healthz", "", nil).Want(t, http.StatusOK, "ok")
	gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/healthz", "", nil).Want(t, http.StatusMethodNotAllowed)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/none", "", nil).Want(t, http.StatusNotFound)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", gatewaytest.Headers{"Host", "evil.example.com"}).Want(t, http.StatusForbidden)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", gatewaytest.Headers{"Origin", "http://evil.example.com"}).Want(t, http.StatusForbidden)

	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics here") }) //nolint:errcheck // a recorder
	admin := s.Admin(metrics)
	from := func(remote string, headers ...string) string {
		t.Helper()
		w := call(t, admin, remote, http.MethodGet, "/readyz", "", headers...)
		if w.Code != http.StatusOK {
			t.Errorf("from %s: status %d", remote, w.Code)
		}
		return w.Body.String()
	}
	for _, loopback := range []string{"127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
		if got := from(loopback); !strings.Contains(got, `"up"`) {
			t.Errorf("no detail for %s: %s", loopback, got)
		}
	}
	for _, got := range []string{from("192.0.2.1:1"), from(here, "X-Forwarded-For", "192.0.2.1"), from("")} {
		if strings.Contains(got, "up") || !strings.Contains(got, `"ready": true`) {
			t.Errorf("detail for a caller from another machine: %s", got)
		}
	}
	if got := call(t, admin, here, http.MethodGet, "/metrics", "").Body.String(); got != "metrics here" {
		t.Errorf("/metrics: %s", got)
	}
}

func TestDebug_IsForOperatorsWhereItIsServed(t *testing.T) {
	gatewaytest.Send(t, http.MethodGet, gatewaytest.Serve(t, "").AdminURL+"/debug/x", "", nil).Want(t, http.StatusNotFound)
	s := gatewaytest.StartWith(t, "", gateway.Options{Debug: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "debugging "+r.URL.Path) // a test's own client
	})})
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/debug/x", "", nil).Want(t, http.StatusOK, "debugging /debug/x")
	for _, refused := range []gatewaytest.Headers{{"X-Forwarded-For", "192.0.2.1"}, {"Host", "evil.example.com"}, {"Origin", "http://evil.example.com"}} {
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/debug/x", "", refused).Want(t, http.StatusForbidden, "forbidden")
	}
}

func TestAdmin_ShowsDetailToTheAdminToken(t *testing.T) {
	detail := func(s *gatewaytest.Server, headers ...string) bool {
		w := call(t, s.Admin(http.NotFoundHandler()), "192.0.2.1:1", http.MethodGet, "/readyz", "", headers...)
		return strings.Contains(w.Body.String(), `"upstreams"`)
	}
	teams := gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a"))
	with, without := gatewaytest.Serve(t, withToken("open")+teams), gatewaytest.Serve(t, teams)
	if !detail(with, gatewaytest.Bearer("open")...) {
		t.Error("no detail for a caller with the token")
	}
	for _, h := range []gatewaytest.Headers{nil, gatewaytest.Bearer("wrong"), {"Authorization", "open"}, {"Authorization", "Bearer "}} {
		if detail(with, h...) {
			t.Errorf("detail for a caller with the headers %v", h)
		}
	}
	if detail(without, gatewaytest.Bearer("open")...) || detail(without, gatewaytest.Bearer("")...) {
		t.Error("detail for a caller with a token although none is configured")
	}
}
