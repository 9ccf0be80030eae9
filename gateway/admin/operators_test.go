package admin_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	upstreamtest.Eventually(t, "it is so", ok)
}

// withToken is a configuration with an admin token.
func withToken(token string) string {
	return fmt.Sprintf("admin {\n token_sha256 = \"%x\"\n}\n", sha256.Sum256([]byte(token)))
}

// call sends a request to the admin listener from an address.
func call(t *testing.T, handler http.Handler, from, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := gatewaytest.NewRequest(t.Context(), t, method, "http://localhost"+path, body, headers)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

const here = "127.0.0.1:1"

// signIn signs in from an address, with further headers.
func signIn(t *testing.T, handler http.Handler, token, from string, headers ...string) *signedIn {
	t.Helper()
	body := url.Values{"token": {token}, "next": {"/prompts?q=x"}}.Encode()
	w := call(t, handler, from, http.MethodPost, "/sign-in", body,
		append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
	in := &signedIn{w.Code, w.Header().Get("Location"), nil}
	if cookie, err := http.ParseSetCookie(w.Header().Get("Set-Cookie")); err == nil {
		in.cookie = cookie
	}
	return in
}

// signedIn is the response to an attempt to sign in.
type signedIn struct {
	status   int
	location string
	cookie   *http.Cookie
}

// session is the header of a caller who signed in.
func (in *signedIn) session() []string {
	return []string{"Cookie", in.cookie.Name + "=" + in.cookie.Value}
}

func TestSignIn_OpensTheConsoleForASession(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator")+gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a")))
	handler := s.Admin(http.NotFoundHandler())
	browse := func(path, accept string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		return call(t, handler, here, http.MethodGet, path, "", append(headers, "Accept", accept)...)
	}
	const html = "text/html,*/*"
	if w := browse("/prompts?q=x", html); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in?next=%2Fprompts%3Fq%3Dx" {
		t.Errorf("without a session: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if w := call(t, handler, here, http.MethodPost, "/reload", "", "Accept", html); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in?next=%2F" {
		t.Errorf("a form whose session has ended: %d to %q", w.Code, w.Header().Get("Location"))
	}
	upstreamtest.Equal(t, http.StatusForbidden, browse("/", "*/*").Code, "status for a program without the token")
	if w := browse("/sign-in", html); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "Overview") {
		t.Errorf("the entrance: %d\n%s", w.Code, w.Body)
	}

	wrong := signIn(t, handler, "wrong", here)
	if wrong.status != http.StatusForbidden || wrong.cookie != nil {
		t.Errorf("with a wrong token: %+v", wrong)
	}
	in := signIn(t, handler, "operator", here)
	cookie := in.cookie
	if in.status != http.StatusSeeOther || in.location != "/prompts?q=x" || cookie == nil {
		t.Fatalf("%+v", in)
	}
	if got, want := cookie.String(), "promptweir="+cookie.Value+"; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"; got != want {
		t.Errorf("cookie %q, want %q", got, want)
	}
	for _, path := range []string{"/", "/prompts", "/upstreams", "/prompt?name=up.a", "/api/catalog", "/changes"} {
		upstreamtest.Equal(t, http.StatusOK, browse(path, html, in.session()...).Code, "status of %s with a session", path)
	}
	upstreamtest.Equal(t, "/", browse("/sign-in?next=//evil.example.com/", html, in.session()...).Header().Get("Location"), "Location")
	upstreamtest.Equal(t, http.StatusSeeOther, browse("/", html, "Cookie", "promptweir=guessed").Code, "status with a guessed cookie")

	w := call(t, handler, here, http.MethodPost, "/sign-out", "", in.session()...)
	if w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign out: %d, %v", w.Code, w.Header())
	}
	upstreamtest.Equal(t, http.StatusSeeOther, browse("/", html, in.session()...).Code, "status after the session")
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
			in := signIn(t, handler, "operator", test.from, test.headers...)
			if secure := in.cookie.Name == "__Host-promptweir"; secure != test.secure || in.cookie.Secure != test.secure {
				t.Errorf("%s", in.cookie)
			}
			w := call(t, handler, test.from, http.MethodGet, "/", "", append(in.session(), test.headers...)...)
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
	cookie := signIn(t, handler, "operator", here).cookie
	all := "promptweir=made-up; __Host-promptweir=x; promptweir=" + cookie.Value
	upstreamtest.Equal(t, http.StatusOK, call(t, handler, here, http.MethodGet, "/prompts", "", "Cookie", all).Code, "status")
}

func TestSignIn_EndsWithTheToken(t *testing.T) {
	r := gatewaytest.ServeReloadable(t, withToken("operator"), gateway.Options{})
	before := gatewaytest.Serve(t, withToken("operator")) // the process before, whose sessions ended with it
	in := signIn(t, before.Admin(http.NotFoundHandler()), "operator", here)
	handler := r.Admin(http.NotFoundHandler())
	status := func(name string, want int) {
		t.Helper()
		upstreamtest.Equal(t, want, call(t, handler, here, http.MethodGet, "/", "", in.session()...).Code, "%s", name)
	}
	status("another process", http.StatusForbidden)
	in = signIn(t, handler, "operator", here)
	status("signed in", http.StatusOK)
	r.MustReload(withToken("another"))
	status("with another token in the configuration", http.StatusForbidden)
}

// A browser sends a form from any page with the session of its user.
func TestSignIn_RefusesOtherOrigins(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator"))
	handler := s.Admin(http.NotFoundHandler())
	for _, headers := range []gatewaytest.Headers{
		{"Origin", "http://localhost:1", "Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://evil.example.com"}, {"Origin", "null"},
	} {
		if r := signIn(t, handler, "operator", here, headers...); r.status != http.StatusForbidden || r.cookie != nil {
			t.Errorf("%v: %+v", headers, r)
		}
	}
}

// A flood of wrong tokens closes the form, but neither fills the audit log nor keeps out callers with the token.
func TestOperators_BoundWrongTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(&config.Audit{Path: path}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	cfg := gatewaytest.Load(t, withToken("operator")+"gateway {\n trusted_proxies = [\"192.0.2.7\"]\n}\n")
	s := gatewaytest.StartConfig(t, cfg, gateway.Options{Audit: log})
	handler := s.Admin(http.NotFoundHandler())
	const guesser = "192.0.2.1:1"
	operator := signIn(t, handler, "operator", guesser)
	get := func(path, from string, headers ...string) *httptest.ResponseRecorder {
		return call(t, handler, from, http.MethodGet, path, "", headers...)
	}
	statuses := map[int]int{}
	for i := range 1000 {
		wrong := fmt.Sprint("wrong", i)
		statuses[signIn(t, handler, wrong, guesser).status]++
		statuses[get("/api/config", guesser, gatewaytest.Bearer(wrong)...).Code]++
	}
	if statuses[http.StatusForbidden] > 1010 || statuses[http.StatusForbidden]+statuses[http.StatusTooManyRequests] != 2000 {
		t.Errorf("answers: %v", statuses)
	}
	for _, path := range []string{"/api/config", "/readyz", "/"} {
		if w := get(path, guesser, gatewaytest.Bearer("operator")...); w.Code != http.StatusOK {
			t.Errorf("%s, with the token from an address that guesses: %d", path, w.Code)
		}
	}
	w := call(t, handler, guesser, http.MethodPost, "/sign-in", "token=operator", "Content-Type", "application/x-www-form-urlencoded")
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "Too many tokens came from this address") {
		t.Errorf("the page: %d\n%s", w.Code, w.Body)
	}

	upstreamtest.Equal(t, http.StatusOK, get("/api/config", guesser, operator.session()...).Code, "status for the operator who is signed in")
	if w := get("/api/config", "192.0.2.2:1", gatewaytest.Bearer("operator")...); w.Code != http.StatusOK {
		t.Errorf("an operator at another address: %d", w.Code)
	}
	if w := get("/metrics", guesser, gatewaytest.Bearer("wrong")...); w.Code != http.StatusNotFound { // the handler of the test
		t.Errorf("metrics: %d", w.Code)
	}
	// Behind a proxy, each client is one.
	proxied := func(client, token string) int {
		return get("/api/config", "192.0.2.7:1", append(gatewaytest.Bearer(token), "X-Forwarded-For", client)...).Code
	}
	for i := range 20 {
		proxied("198.51.100.1", fmt.Sprint("guess", i))
	}
	upstreamtest.Equal(t, http.StatusOK, proxied("198.51.100.2", "operator"), "status for an operator behind the same proxy")

	log.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	recorded := string(content)
	if line := `"client":"192.0.2.1","act":"sign-in","outcome":"ok"`; !strings.Contains(recorded, line) || strings.Contains(recorded, "refused") {
		t.Errorf("no line with %s, or one of a refused token, in\n%s", line, recorded)
	}
}

// Without an admin token, there is nothing to sign in with.
func TestSignIn_SaysThatThereIsNoToken(t *testing.T) {
	s := gatewaytest.Serve(t, "")
	w := call(t, s.Admin(http.NotFoundHandler()), "192.0.2.1:1", http.MethodGet, "/sign-in", "")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Without an admin token") || strings.Contains(w.Body.String(), "<form") {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}

// Without an admin token, the person who started the gateway signs in with the printed link.
func TestSignIn_ByALinkOnce(t *testing.T) {
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a")), gateway.Options{})
	handler := r.Admin(http.NotFoundHandler())
	code := r.LinkCode()
	tries := func(cookie ...string) bool {
		t.Helper()
		w := call(t, handler, here, http.MethodGet, "/prompt?name=up.a", "", cookie...)
		return strings.Contains(w.Body.String(), `action="/try"`)
	}
	redeem := func(from string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		return call(t, handler, from, http.MethodPost, "/sign-in", url.Values{"code": {code}}.Encode(),
			append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
	}
	for range 2 { // loading the link in advance does not use it up
		w := call(t, handler, here, http.MethodGet, "/sign-in?code="+code, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `name="code" value="`+code+`"`) || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("the link itself: %d\n%s", w.Code, w.Body)
		}
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"another machine": redeem("192.0.2.1:1"), "a proxy": redeem(here, "X-Forwarded-For", "192.0.2.1"),
		"another port": redeem(here, "Origin", "http://localhost:1", "Sec-Fetch-Site", "same-site"),
	} {
		if w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, %v", name, w.Code, w.Header())
		}
	}
	if tries() {
		t.Error("whoever is on this machine tries prompts without the link")
	}
	w := redeem(here)
	cookie, err := http.ParseSetCookie(w.Header().Get("Set-Cookie"))
	if err != nil || w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		t.Fatalf("%v: %d\n%s", err, w.Code, w.Body)
	}
	session := []string{"Cookie", cookie.Name + "=" + cookie.Value}
	if !tries(session...) {
		t.Error("who opened the link cannot try prompts")
	}
	if w := redeem(here); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `<a href="/">open the console</a>`) {
		t.Errorf("again: %d\n%s", w.Code, w.Body)
	}

	ask := func(from string, headers ...string) (status int, file string) {
		t.Helper()
		w := call(t, handler, from, http.MethodPost, "/-/link", "", headers...)
		file, _ = wire.Members(w.Body.Bytes()).Text("file")
		return w.Code, file
	}
	t.Setenv("TMPDIR", t.TempDir())
	status, file := ask(here)
	content, err := os.ReadFile(filepath.Join(os.TempDir(), file))
	if code = string(content); status != http.StatusOK || err != nil || redeem(here).Code != http.StatusSeeOther {
		t.Errorf("a new link: %d, %q, %v", status, code, err)
	}
	if info, err := os.Stat(filepath.Join(os.TempDir(), file)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the new link: %v, %v", info, err)
	}
	for name, from := range map[string][]string{
		"another machine": {"192.0.2.1:1"}, "a proxy": {here, "X-Forwarded-For", "192.0.2.1"}, "another port": {here, "Sec-Fetch-Site", "same-site"},
	} {
		if status, file := ask(from[0], from[1:]...); status != http.StatusForbidden || file != "" {
			t.Errorf("%s gets a link: %d, %s", name, status, file)
		}
	}
	for range 20 { // otherwise callers on this machine could fill the disk
		status, _ = ask(here)
	}
	if files, err := os.ReadDir(os.TempDir()); err != nil || len(files) > 10 || status != http.StatusBadRequest {
		t.Errorf("%d files with links, %v, the last answer has the status %d", len(files), err, status)
	}

	code = r.LinkCode()
	r.MustReload(withToken("operator"))
	if status, _ := ask(here); status != http.StatusForbidden {
		t.Errorf("without the admin token: %d", status)
	}
	if status, file := ask(here, gatewaytest.Bearer("operator")...); status != http.StatusOK || file != admin.LinkPrefix {
		t.Errorf("with an admin token: %d, %s", status, file)
	}
	if w := redeem(here); w.Code != http.StatusForbidden || r.LinkCode() != "" {
		t.Errorf("with an admin token: %d", w.Code)
	}
	if tries(session...) {
		t.Error("the session outlives the change to an admin token")
	}
}
