package admin_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	upstreamtest.Eventually(t, "it is so", ok)
}

// withToken is a configuration with an admin token.
func withToken(token string) string {
	return fmt.Sprintf("admin {\n token_sha256 = \"%x\"\n}\n", sha256.Sum256([]byte(token)))
}

// signIn signs in from an address, with further headers.
func signIn(t *testing.T, handler http.Handler, token, from string, headers gatewaytest.Headers) *signedIn {
	t.Helper()
	body := url.Values{"token": {token}, "next": {"/prompts?q=x"}}.Encode()
	headers = append(gatewaytest.Headers{"Content-Type", "application/x-www-form-urlencoded"}, headers...)
	r := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, "http://localhost/sign-in", body, headers)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	in := &signedIn{w.Code, w.Header().Get("Location"), nil}
	cookies, err := http.ParseSetCookie(w.Header().Get("Set-Cookie"))
	if err == nil {
		in.cookie = cookies
	}
	return in
}

// signedIn is the answer to somebody who signed in, or tried to.
type signedIn struct {
	status   int
	location string
	cookie   *http.Cookie
}

func TestSignIn_OpensTheConsoleForASession(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator")+gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a")))
	handler := s.Admin(http.NotFoundHandler())
	browse := func(path string, cookie *http.Cookie, accept string) *httptest.ResponseRecorder {
		r := gatewaytest.NewRequest(t.Context(), t, http.MethodGet, "http://localhost"+path, "", gatewaytest.Headers{"Accept", accept})
		r.RemoteAddr = "127.0.0.1:1"
		if cookie != nil {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	const html = "text/html,*/*"
	if w := browse("/prompts?q=x", nil, html); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in?next=%2Fprompts%3Fq%3Dx" {
		t.Errorf("without a session: %d to %q", w.Code, w.Header().Get("Location"))
	}
	form := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, "http://localhost/reload", "", gatewaytest.Headers{"Accept", html})
	form.RemoteAddr = "127.0.0.1:1"
	for referer, next := range map[string]string{
		"http://localhost/configuration?team=eng": "%2Fconfiguration%3Fteam%3Deng", "http://evil.example.com/x": "%2F", "": "%2F",
	} {
		form.Header.Set("Referer", referer)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in?next="+next {
			t.Errorf("a form of %q whose session has ended: %d to %q", referer, w.Code, w.Header().Get("Location"))
		}
	}
	if w := browse("/", nil, "*/*"); w.Code != http.StatusForbidden {
		t.Errorf("a program without the token: %d", w.Code)
	}
	if w := browse("/sign-in", nil, html); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "Overview") {
		t.Errorf("the entrance: %d\n%s", w.Code, w.Body)
	}

	wrong := signIn(t, handler, "wrong", "127.0.0.1:1", nil)
	if wrong.status != http.StatusForbidden || wrong.cookie != nil {
		t.Errorf("with a wrong token: %+v", wrong)
	}
	in := signIn(t, handler, "operator", "127.0.0.1:1", nil)
	cookie := in.cookie
	if in.status != http.StatusSeeOther || in.location != "/prompts?q=x" || cookie == nil {
		t.Fatalf("%+v", in)
	}
	if got, want := cookie.String(), "promptweir="+cookie.Value+"; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"; got != want {
		t.Errorf("cookie %q, want %q", got, want)
	}
	for _, path := range []string{"/", "/prompts", "/upstreams", "/prompt?name=up.a", "/api/catalog", "/changes"} {
		if w := browse(path, cookie, html); w.Code != http.StatusOK {
			t.Errorf("%s with a session: %d", path, w.Code)
		}
	}
	if w := browse("/sign-in?next=//evil.example.com/", cookie, html); w.Header().Get("Location") != "/" {
		t.Errorf("leads to %q", w.Header().Get("Location"))
	}
	if w := browse("/", &http.Cookie{Name: "promptweir", Value: "guessed"}, html); w.Code != http.StatusSeeOther {
		t.Errorf("with a guessed cookie: %d", w.Code)
	}

	out := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, "http://localhost/sign-out", "", nil)
	out.RemoteAddr = "127.0.0.1:1"
	out.AddCookie(cookie)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, out)
	if w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign out: %d, %v", w.Code, w.Header())
	}
	if w := browse("/", cookie, html); w.Code != http.StatusSeeOther {
		t.Errorf("after the session: %d", w.Code)
	}
}

// The console behind a proxy with TLS, and without any.
func TestSignIn_KnowsWhetherTheConnectionIsEncrypted(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator")+"gateway {\n trusted_proxies = [\"192.0.2.7\"]\n}\n")
	handler := s.Admin(http.NotFoundHandler())
	for _, test := range []struct {
		name, from string
		headers    gatewaytest.Headers
		secure     bool
		exposed    bool
	}{
		{"on this machine", "127.0.0.1:1", nil, false, false},
		{"over the network", "192.0.2.1:1", nil, false, true},
		{"forged", "192.0.2.1:1", gatewaytest.Headers{"X-Forwarded-Proto", "https"}, false, true},
		{"proxy with TLS", "192.0.2.7:1", gatewaytest.Headers{"X-Forwarded-Proto", "https"}, true, false},
		{"proxy that does not say", "192.0.2.7:1", nil, false, false},
		{"unknown proxy on this machine", "127.0.0.1:1", gatewaytest.Headers{"X-Forwarded-Proto", "https"}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			cookie := signIn(t, handler, "operator", test.from, test.headers).cookie
			if secure := cookie.Secure && cookie.Name == "__Host-promptweir"; secure != test.secure || cookie.Secure != test.secure {
				t.Errorf("%s", cookie)
			}
			r := gatewaytest.NewRequest(t.Context(), t, http.MethodGet, "http://localhost/", "", test.headers)
			r.RemoteAddr = test.from
			r.AddCookie(cookie)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if warns := strings.Contains(w.Body.String(), "This connection is not encrypted."); w.Code != http.StatusOK || warns != test.exposed {
				t.Errorf("status %d, warns: %t, want %t", w.Code, warns, test.exposed)
			}
		})
	}
}

// Another port of the host can set cookies of the same name for any path, and a browser sends those
// of longer paths first.
func TestSignIn_IsNotEndedByCookiesOfOtherPorts(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator"))
	handler := s.Admin(http.NotFoundHandler())
	cookie := signIn(t, handler, "operator", "127.0.0.1:1", nil).cookie
	r := gatewaytest.NewRequest(t.Context(), t, http.MethodGet, "http://localhost/prompts", "", gatewaytest.Headers{"Cookie", "promptweir=made-up; __Host-promptweir=x; promptweir=" + cookie.Value})
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
}

func TestSignIn_EndsWithTheToken(t *testing.T) {
	r := gatewaytest.ServeReloadable(t, withToken("operator"), gateway.Options{})
	cookie := signIn(t, r.Admin(http.NotFoundHandler()), "operator", "127.0.0.1:1", nil).cookie
	handler := r.Admin(http.NotFoundHandler()) // another process has other sessions
	if code := statusWith(t, handler, cookie); code != http.StatusForbidden {
		t.Errorf("another process: %d", code)
	}
	cookie = signIn(t, handler, "operator", "127.0.0.1:1", nil).cookie
	if code := statusWith(t, handler, cookie); code != http.StatusOK {
		t.Errorf("signed in: %d", code)
	}
	r.MustReload(withToken("another"))
	if code := statusWith(t, handler, cookie); code != http.StatusForbidden {
		t.Errorf("with another token in the configuration: %d", code)
	}
}

func statusWith(t *testing.T, handler http.Handler, cookie *http.Cookie) int {
	t.Helper()
	r := gatewaytest.NewRequest(t.Context(), t, http.MethodGet, "http://localhost/", "", nil)
	r.RemoteAddr = "127.0.0.1:1"
	r.AddCookie(cookie)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code
}

// A browser sends a form with the session of its user whatever page it comes from.
func TestSignIn_RefusesOtherOrigins(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator"))
	handler := s.Admin(http.NotFoundHandler())
	for _, headers := range []gatewaytest.Headers{
		{"Origin", "http://localhost:1", "Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://evil.example.com"}, {"Origin", "null"},
	} {
		if r := signIn(t, handler, "operator", "127.0.0.1:1", headers); r.status != http.StatusForbidden || r.cookie != nil {
			t.Errorf("%v: %+v", headers, r)
		}
	}
}

// A flood of wrong tokens closes the form, does not fill the audit log, and keeps out nobody who
// has the token.
func TestOperators_BoundWrongTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(&config.Audit{Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	cfg := gatewaytest.Load(t, withToken("operator")+"gateway {\n trusted_proxies = [\"192.0.2.7\"]\n}\n")
	s := gatewaytest.StartConfig(t, cfg, gateway.Options{Audit: log})
	handler := s.Admin(http.NotFoundHandler())
	session := signIn(t, handler, "operator", "192.0.2.1:1", nil).cookie

	call := func(method, path, from string, headers ...string) *httptest.ResponseRecorder {
		r := gatewaytest.NewRequest(t.Context(), t, method, "http://localhost"+path, "", headers)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	statuses := map[int]int{}
	for i := range 1000 {
		wrong := fmt.Sprint("wrong", i)
		statuses[signIn(t, handler, wrong, "192.0.2.1:1", nil).status]++
		statuses[call(http.MethodGet, "/api/config", "192.0.2.1:1", gatewaytest.Bearer(wrong)...).Code]++
	}
	if statuses[http.StatusForbidden] > 1010 || statuses[http.StatusForbidden]+statuses[http.StatusTooManyRequests] != 2000 {
		t.Errorf("answers: %v", statuses)
	}
	for _, path := range []string{"/api/config", "/readyz", "/"} {
		if w := call(http.MethodGet, path, "192.0.2.1:1", gatewaytest.Bearer("operator")...); w.Code != http.StatusOK {
			t.Errorf("%s, with the token from an address that guesses: %d", path, w.Code)
		}
	}
	r := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, "http://localhost/sign-in", "token=operator",
		gatewaytest.Headers{"Content-Type", "application/x-www-form-urlencoded"})
	r.RemoteAddr = "192.0.2.1:1"
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "Too many wrong tokens came from here") {
		t.Errorf("the page: %d\n%s", w.Code, w.Body)
	}

	if w := call(http.MethodGet, "/api/config", "192.0.2.1:1", "Cookie", session.Name+"="+session.Value); w.Code != http.StatusOK {
		t.Errorf("the operator who is signed in: %d", w.Code)
	}
	if w := call(http.MethodGet, "/api/config", "192.0.2.2:1", gatewaytest.Bearer("operator")...); w.Code != http.StatusOK {
		t.Errorf("an operator elsewhere: %d", w.Code)
	}
	if w := call(http.MethodGet, "/metrics", "192.0.2.1:1", gatewaytest.Bearer("wrong")...); w.Code != http.StatusNotFound { // the handler of the test
		t.Errorf("metrics: %d", w.Code)
	}
	// Behind a proxy, each client is one.
	proxied := func(client, token string) int {
		return call(http.MethodGet, "/api/config", "192.0.2.7:1", append(gatewaytest.Bearer(token), "X-Forwarded-For", client)...).Code
	}
	for i := range 20 {
		proxied("198.51.100.1", fmt.Sprint("guess", i))
	}
	if code := proxied("198.51.100.2", "operator"); code != http.StatusOK {
		t.Errorf("an operator behind the same proxy: %d", code)
	}

	log.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	recorded := string(content)
	for line, most := range map[string]int{`"outcome":"refused","reason":"bad"`: 30, `"outcome":"refused","reason":"rate_limited"`: 10} {
		if n := strings.Count(recorded, line); n == 0 || n > most {
			t.Errorf("%d lines with %s, want up to %d", n, line, most)
		}
	}
	for _, line := range []string{`"client":"192.0.2.1","act":"sign-in","outcome":"ok"`, `"client":"198.51.100.1","act":"admin","outcome":"refused"`} {
		if !strings.Contains(recorded, line) {
			t.Errorf("no line with %s in\n%s", line, recorded)
		}
	}
}

// Without an admin token, there is nothing to sign in with.
func TestSignIn_SaysThatThereIsNoToken(t *testing.T) {
	s := gatewaytest.Serve(t, "")
	r := gatewaytest.NewRequest(t.Context(), t, http.MethodGet, "http://localhost/sign-in", "", nil)
	r.RemoteAddr = "192.0.2.1:1"
	w := httptest.NewRecorder()
	s.Admin(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "No admin token is configured") || strings.Contains(w.Body.String(), "<form") {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}
