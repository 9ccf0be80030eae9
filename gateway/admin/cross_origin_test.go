package admin_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestAdmin_RefusesOtherSites(t *testing.T) {
	s := gatewaytest.StartWith(t, "", gateway.Options{Debug: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "profile") // a test's own client
	})})
	// Send what a browser sends; an address of the loopback passes the check of Host and Origin
	// with any port.
	post := func(status int, h ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/-/reload", "", h).Want(t, status)
	}
	otherPort := "http://localhost:1"
	post(http.StatusForbidden, "Origin", otherPort)
	post(http.StatusForbidden, "Origin", otherPort, "Sec-Fetch-Site", "same-site")
	post(http.StatusForbidden, "Sec-Fetch-Site", "cross-site")
	for _, h := range []gatewaytest.Headers{nil, {"Origin", s.AdminURL}, {"Origin", s.AdminURL, "Sec-Fetch-Site", "same-origin"}} {
		if r := gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/-/reload", "", h); r.Status == http.StatusForbidden {
			t.Errorf("%v: %s", h, r.Body)
		}
	}
	get := func(path string, status int, site string, more ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+path, "", append(more, "Sec-Fetch-Site", site)).Want(t, status)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		link := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
		get("/debug/pprof/profile", http.StatusForbidden, site, link...)
		get("/", http.StatusOK, site, link...) // and nothing happens
		for _, path := range []string{"/", "/api/catalog?q=a", "/changes", "/readyz", "/metrics"} {
			get(path, http.StatusForbidden, site, "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image")
			get(path, http.StatusForbidden, site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe")
		}
		get("/healthz", http.StatusOK, site)
	}
	for _, site := range []string{"same-origin", "none", "-"} {
		get("/debug/pprof/profile", http.StatusOK, site)
	}
}

// Text of a server or a client must not become a page of the admin listener's origin.
func TestAdmin_AnswersAreWhatTheySay(t *testing.T) {
	s := gatewaytest.Serve(t, "")
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/changes", "/api/catalog", "/api/catalog?team=<script>", "/static/console.js", "/none", "/prompt?name=<script>"} {
		if got := gatewaytest.Send(t, http.MethodGet, s.AdminURL+path, "", nil).Header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options is %q", path, got)
		}
	}
}

func TestAdmin_ForwardedRequestIsNotFromLoopback(t *testing.T) {
	s := gatewaytest.Serve(t, "")
	for _, header := range []string{"Via", "X-Real-IP", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server"} {
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", gatewaytest.Headers{header, "x"}).Want(t, http.StatusForbidden)
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Want(t, http.StatusOK)
}
