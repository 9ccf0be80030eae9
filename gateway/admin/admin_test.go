package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		upstreamtest.Equal(t, status == http.StatusOK, r.Ready, "ready with status %d: %s", status, a.Body)
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
	if h := r.Upstreams[0]; h.Name != "up" || h.Team != "eng" || !h.Connected || !h.Listed || h.Prompts != 2 || h.Revision != "2025-11-25" || h.Problem != nil {
		t.Errorf("got %+v", h)
	}
	if h := r.Upstreams[1]; h.Name != "gone" || h.Connected || h.Listed || h.Problem == nil || h.Reason != "unreachable" {
		t.Errorf("got %+v", h)
	}
	for field := range reflect.TypeFor[admin.UpstreamHealth]().Fields() {
		isSet := func(h admin.UpstreamHealth) bool { return !reflect.ValueOf(h).FieldByIndex(field.Index).IsZero() }
		if field.Tag.Get("json") != "-" && !slices.ContainsFunc(r.Upstreams, isSet) {
			t.Errorf("no upstream has %s", field.Name)
		}
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
		upstreamtest.Equal(t, want, admin.IsReady(s.Snapshot(), running), "ready after %v", running)
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
		upstreamtest.Equal(t, http.StatusOK, w.Code, "status from %s", remote)
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
	upstreamtest.Equal(t, "metrics here", call(t, admin, here, http.MethodGet, "/metrics", "").Body.String(), "/metrics")
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

func TestCatalog_FindsPromptsByTheirTexts(t *testing.T) {
	docs := gatewaytest.NewPeer(t, "docs",
		`{"name":"review","title":"Code review","description":"Look for MISTAKES.","arguments":[{"name":"code"}]}`,
		`{"name":"summary","description":"A short review of a text`+strings.Repeat("ä", 3<<10)+` far"}`, "greet")
	other := gatewaytest.NewPeer(t, "other", "preview", "review")
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:ann"`, gatewaytest.Expose("all", `"docs.review"`, `"*"`), docs)+gatewaytest.Team("ops", `"user:bob"`, "", other))
	found := func(query string, names ...string) {
		t.Helper()
		r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?"+query, "", nil)
		r.Want(t, http.StatusOK)
		var page struct {
			Total   int
			Prompts []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(r.Body), &page); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range page.Prompts {
			got = append(got, p.Name)
		}
		if diff := cmp.Diff(names, got); diff != "" || page.Total != len(names) {
			t.Errorf("%s: %d, (-want +got):\n%s", query, page.Total, diff)
		}
	}
	found("", "docs.greet", "docs.review", "docs.summary", "other.preview", "other.review")
	found("q=review", "docs.review", "other.preview", "other.review", "docs.summary") // by name first
	found("q=Other.Rev", "other.review")
	found("q=mistakes+code", "docs.review")
	found("q=mistakes+short")
	found("q=ä", "docs.summary")
	found("q=far") // beyond what is searched
	found("team=ops", "other.preview", "other.review")
	found("as=user:bob", "docs.review", "other.preview", "other.review")
	found("as=user:bob&team=eng&q=code", "docs.review")
	found("as=user:anonymous", "docs.review")

	r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?q=code", "", nil)
	r.Want(t, http.StatusOK, `"title": "Code review"`, `"description": "Look for MISTAKES."`, `"team": "eng"`, `"docs"`, `"code"`)
	for query, want := range map[string]string{
		"team=non": "no team", "team=ehg": "eng", "as=bob": "neither a user nor a group", "page=0": "page", "page=x": "page",
	} {
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?"+query, "", nil).Want(t, http.StatusBadRequest, `"error"`, want)
	}
	docs.SetPrompts("new")
	docs.Announce()
	eventually(t, func() bool {
		return strings.Contains(gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?q=new", "", nil).Body, "docs.new")
	})
	found("q=mistakes")
}

func TestCatalog_HasPages(t *testing.T) {
	names := make([]string, 120)
	for i := range names {
		names[i] = fmt.Sprintf("p%03d", i)
	}
	for number, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 3, 4: 3} { // those that there are not are the first and the last
		shown, at, pages := admin.PageOf(names, number, admin.PageSize)
		if first := (want - 1) * admin.PageSize; at != want || pages != 3 || !slices.Equal(shown, names[first:min(first+admin.PageSize, 120)]) {
			t.Errorf("page %d is %d of %d with %q", number, at, pages, shown)
		}
	}
}

func TestExplain_AnswersAsTheCommandDoes(t *testing.T) {
	s, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}\n")
	get := func(query string, status int, parts ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/explain?"+query, "", nil).Want(t, status, parts...)
	}
	get("name=billing.review_pr&as=user:bob", http.StatusOK, `"visible": true`, `expose \"reviews\"`, `"decides": true`, "gateway.hcl:")
	get("name=billing.wip_x&as=user:ann,group:payments", http.StatusOK, `"visible": false`, `hide \"half-finished\"`)
	get("name=billing.ledger", http.StatusOK, `"visible": true`, `"who": "group:payments"`)
	get("name=nowhere", http.StatusOK, `"visible": false`)
	get("", http.StatusBadRequest, "name")
	get("name=a&as=alice", http.StatusBadRequest, "is neither a user nor a group")
	get("name=billing.ledger&as=group:payments", http.StatusOK, `"visible": true`, "somebody in group:payments")
}

func TestUpstreams_AreThoseOfATeam(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a"))+gatewaytest.Team("ops", "", "", gatewaytest.NewDownPeer(t)))
	r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/upstreams?team=ops", "", nil)
	r.Want(t, http.StatusOK, `"name": "gone"`, `"reason": "unreachable"`, `"remedy"`)
	if strings.Contains(r.Body, `"up"`) {
		t.Errorf("another team's upstream: %s", r.Body)
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/upstreams", "", nil).Want(t, http.StatusOK, `"up"`, `"gone"`)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/upstreams?team=none", "", nil).Want(t, http.StatusBadRequest, "no team")
}

// A token is for callers on this machine, too.
func TestAdmin_TokenIsForPagesAndAPI(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator"))
	for _, path := range []string{"/", "/api/catalog", "/api/upstreams", "/api/explain?name=a"} {
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+path, "", nil).Want(t, http.StatusForbidden)
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+path, "", gatewaytest.Bearer("wrong")).Want(t, http.StatusForbidden)
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+path, "", gatewaytest.Bearer("operator")).Want(t, http.StatusOK)
		gatewaytest.Send(t, http.MethodPost, s.AdminURL+path, "", gatewaytest.Bearer("operator")).Want(t, http.StatusMethodNotAllowed)
	}
	gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/-/reload", "", nil).Want(t, http.StatusForbidden)
}
