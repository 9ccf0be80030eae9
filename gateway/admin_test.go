package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/admin"

	"github.com/promptweir/promptweir/gateway"
)

func TestReadiness(t *testing.T) {
	ready := func(s *server, status int) admin.Readiness {
		t.Helper()
		a := send(t, http.MethodGet, s.admin+"/readyz", "", nil)
		a.is(t, status)
		var r admin.Readiness
		if err := json.Unmarshal([]byte(a.body), &r); err != nil {
			t.Fatal(err)
		}
		if r.Ready != (status == http.StatusOK) {
			t.Errorf("status %d with %s", status, a.body)
		}
		return r
	}
	ready(serve(t, ``), http.StatusOK)
	ready(serve(t, team("eng", "", "", dead(t))), http.StatusServiceUnavailable)
	ready(begin(t, team("eng", "", "", newPeer(t, "up", "a"), mute(t, "slow"))), http.StatusServiceUnavailable)
	up := newPeer(t, "up", "a", "a")
	up.settings = `prefix = ""`
	r := ready(serve(t, team("eng", "", "", up, dead(t), newPeer(t, "b"))), http.StatusOK)
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

func TestAdmin(t *testing.T) {
	s := serve(t, team("eng", "", "", newPeer(t, "up", "a")))
	send(t, http.MethodGet, s.admin+"/healthz", "", nil).is(t, http.StatusOK, "ok")
	send(t, http.MethodPost, s.admin+"/healthz", "", nil).is(t, http.StatusMethodNotAllowed)
	send(t, http.MethodGet, s.admin+"/none", "", nil).is(t, http.StatusNotFound)
	send(t, http.MethodGet, s.admin+"/readyz", "", headers{"Host", "evil.example.com"}).is(t, http.StatusForbidden)
	send(t, http.MethodGet, s.admin+"/readyz", "", headers{"Origin", "http://evil.example.com"}).is(t, http.StatusForbidden)

	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics here") }) //nolint:errcheck // a recorder
	admin := s.Admin(metrics)
	from := func(remote string, h headers) string {
		t.Helper()
		r := newHTTPRequest(t.Context(), t, http.MethodGet, "http://localhost/readyz", "", h)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("from %s: status %d", remote, w.Code)
		}
		return w.Body.String()
	}
	for _, loopback := range []string{"127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
		if got := from(loopback, nil); !strings.Contains(got, `"up"`) {
			t.Errorf("no detail for %s: %s", loopback, got)
		}
	}
	for _, got := range []string{from("192.0.2.1:1", nil), from("127.0.0.1:1", headers{"X-Forwarded-For", "192.0.2.1"}), from("", nil)} {
		if strings.Contains(got, "up") || !strings.Contains(got, `"ready": true`) {
			t.Errorf("detail for callers from elsewhere: %s", got)
		}
	}
	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil))
	if got := w.Body.String(); got != "metrics here" {
		t.Errorf("/metrics: %s", got)
	}
}

func TestDebuggingIsForOperatorsAndOnlyWhereItIsServed(t *testing.T) {
	send(t, http.MethodGet, serve(t, "").admin+"/debug/x", "", nil).is(t, http.StatusNotFound)
	s := beginWith(t, "", gateway.Options{Debug: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "debugging "+r.URL.Path) // a test's own client
	})})
	send(t, http.MethodGet, s.admin+"/debug/x", "", nil).is(t, http.StatusOK, "debugging /debug/x")
	for _, refused := range []headers{{"X-Forwarded-For", "192.0.2.1"}, {"Host", "evil.example.com"}, {"Origin", "http://evil.example.com"}} {
		send(t, http.MethodGet, s.admin+"/debug/x", "", refused).is(t, http.StatusForbidden, "forbidden")
	}
}

func TestNoUpstreamIsTheGatewayItself(t *testing.T) {
	own := httptest.NewServer(http.NotFoundHandler())
	defer own.Close()
	address := netip.MustParseAddrPort(own.Listener.Addr().String())
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), address.Port())
	for host, bound := range map[string]netip.AddrPort{
		"127.0.0.1": address, "localhost": address, "0.0.0.0": address, "127.0.0.2": everywhere, "[::ffff:127.0.0.1]": everywhere,
	} {
		p := &peer{name: "self", url: strings.Replace(own.URL, "127.0.0.1", host, 1)}
		g, err := gateway.New(load(t, team("eng", "", "", p)), gateway.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g.Own(bound)
		run(t, g)
		eventually(t, host+" is refused", func() bool { return g.Ready().Upstreams[0].Reason == "unreachable" })
	}
}
