package upstream_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// authorization is an authorization server with a token endpoint at /token; all other paths lead to
// a handler behind a check of its tokens. All secrets begin with hunter2.
type authorization struct {
	behind http.Handler

	mu sync.Mutex // guards what follows
	// life is the lifetime of tokens in seconds; 0 leaves it out.
	life int
	// valid are the tokens that are accepted.
	valid map[string]bool
	// deaf refuses every token.
	deaf bool
	// answer, if set, answers at the token endpoint instead.
	answer func(http.ResponseWriter, *http.Request)
	// forms are the requests for tokens.
	forms []url.Values
	given int
}

func newAuthorization(behind http.Handler) *authorization {
	return &authorization{behind: behind, valid: map[string]bool{}}
}

func (a *authorization) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		a.serveToken(w, r)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	let := a.valid[token] && !a.deaf
	a.mu.Unlock()
	if !let {
		http.Error(w, "not with "+token, http.StatusUnauthorized)
		return
	}
	a.behind.ServeHTTP(w, r)
}

func (a *authorization) serveToken(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // seen by the test
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forms = append(a.forms, r.PostForm)
	if a.answer != nil {
		a.answer(w, r)
		return
	}
	if id, secret, _ := r.BasicAuth(); id != "weir" || secret != "hunter2-secret" {
		refuseToken(w, http.StatusUnauthorized)
		return
	}
	a.give(w)
}

// give answers with a new token. The lock must be held.
func (a *authorization) give(w http.ResponseWriter) {
	a.given++
	token := fmt.Sprintf("hunter2-token-%d", a.given)
	a.valid[token] = true
	life := ""
	if a.life > 0 {
		life = fmt.Sprintf(`,"expires_in":%d`, a.life)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer"%s}`, token, life)
}

func refuseToken(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, `{"error":"invalid_client","error_description":"hunter2-secret is wrong","error_uri":"https://hunter2"}`)
}

// change sets how the server behaves from now on.
func (a *authorization) change(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// requests returns how many tokens were requested.
func (a *authorization) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.forms)
}

func (a *authorization) wantRequests(t *testing.T, want int) {
	t.Helper()
	upstreamtest.Equal(t, want, a.requests(), "requests for tokens")
}

// withOAuth returns an upstream that gets its tokens at address.
func withOAuth(u config.Upstream, address string) config.Upstream {
	u.OAuth = &config.OAuth{
		TokenURL: address + "/token", ClientID: "weir", ClientSecret: config.NewSecret("hunter2-secret"),
		Scopes: []string{"prompts:read", "prompts:list"}, Resource: "https://mcp.example.com",
	}
	return u
}

// inGuardedBubble runs a connector to a peer behind an authorization server, in a synctest bubble.
func inGuardedBubble(t *testing.T, test func(*testing.T, *authorization, *upstreamtest.Peer, *upstream.Connector)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		p := upstreamtest.NewModernPeer(t)
		a := newAuthorization(p)
		a.life = 3600
		c := start(t, withOAuth(anywhere(), "http://sso.example"), upstream.Options{Transport: upstreamtest.Memory{Handler: a}})
		synctest.Wait()
		test(t, a, p, c)
	})
}

func TestOAuth_RenewsTokenBeforeItExpires(t *testing.T) {
	inGuardedBubble(t, func(t *testing.T, a *authorization, _ *upstreamtest.Peer, c *upstream.Connector) {
		want := func(requests int) {
			t.Helper()
			mustGet(t, c, "p")
			a.wantRequests(t, requests)
		}
		want(1)
		form := []url.Values{{"grant_type": {"client_credentials"}, "scope": {"prompts:read prompts:list"}, "resource": {"https://mcp.example.com"}}}
		upstreamtest.Equal(t, form, a.forms, "requests for tokens")
		time.Sleep(3569 * time.Second)
		want(1)
		time.Sleep(time.Second)
		want(2)

		// While the token is valid, a failing token endpoint does not matter.
		time.Sleep(3569 * time.Second) // a second later a health check would renew it
		a.change(func() {
			a.answer = func(w http.ResponseWriter, _ *http.Request) { refuseToken(w, http.StatusBadRequest) }
		})
		time.Sleep(2 * time.Second)
		mustGet(t, c, "p")
		time.Sleep(15 * time.Second)
		mustGet(t, c, "p") // else the server, silent for long, would be asked for a health check, which takes a token, too
		time.Sleep(15 * time.Second)
		asked := a.requests()
		for range 10 {
			wantFailure(t, c, "p", upstream.Denied)
		}
		a.wantRequests(t, asked+1)

		// A short-lived token is used all the same.
		a.change(func() { a.answer, a.life = nil, 4 })
		time.Sleep(time.Second)
		before := a.requests()
		want(before + 1)
		time.Sleep(2 * time.Second)
		want(before + 1)
		time.Sleep(time.Second)
		want(before + 2)
	})
}

func TestOAuth_SendsSecretInBodyIfNeeded(t *testing.T) {
	t.Parallel()
	a := newAuthorization(upstreamtest.NewPeer(t))
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.PostForm.Get("client_id") != "weir" || r.PostForm.Get("client_secret") != "hunter2-secret" {
			refuseToken(w, http.StatusBadRequest)
			return
		}
		a.give(w)
	}
	s := upstreamtest.Serve(t, a)
	waitForNames(t, start(t, withOAuth(upstreamtest.HTTP("guarded", s.URL), s.URL), upstream.Options{}), "p")
}

func TestOAuth_ReplacesRefusedTokenOnce(t *testing.T) {
	inGuardedBubble(t, func(t *testing.T, a *authorization, p *upstreamtest.Peer, c *upstream.Connector) {
		a.change(func() { clear(a.valid) }) // revoked
		var gets sync.WaitGroup
		for range 20 {
			gets.Go(func() { mustGet(t, c, "p") })
		}
		gets.Wait()
		a.wantRequests(t, 2)
		for _, r := range p.Seen(wire.PromptsGet) {
			if name, _ := r.Params.Text("name"); name != "p" || r.Params.Get("arguments") == nil {
				t.Errorf("a request that was made again came as %s", r.Body)
			}
		}

		// A server that refuses the new token as well has answered, and no more tokens are fetched
		// for it.
		a.change(func() { a.deaf = true })
		for range 10 {
			wantFailure(t, c, "p", upstream.Denied)
		}
		a.wantRequests(t, 3)
		if !c.State().Connected {
			t.Error("a server that refuses is taken for one that is gone")
		}
		a.change(func() { a.deaf = false })
		mustGet(t, c, "p")
		a.change(func() { clear(a.valid) })
		time.Sleep(11 * time.Second)
		mustGet(t, c, "p")
		a.wantRequests(t, 4)
	})
}

func TestOAuth_DoesNotRepeatWithSameToken(t *testing.T) {
	inGuardedBubble(t, func(t *testing.T, a *authorization, p *upstreamtest.Peer, c *upstream.Connector) {
		a.change(func() {
			a.answer = func(w http.ResponseWriter, _ *http.Request) {
				a.given--
				a.give(w)
			}
			a.deaf = true
		})
		for range 5 {
			wantFailure(t, c, "p", upstream.Denied)
		}
		a.wantRequests(t, 2)
		wantSeen(t, p, wire.PromptsGet, 0)
	})
}

func TestOAuth_ReportsTokenEndpointFailure(t *testing.T) {
	t.Parallel()
	type answer = func(http.ResponseWriter, *http.Request)
	status := func(status int) answer {
		return func(w http.ResponseWriter, _ *http.Request) { refuseToken(w, status) }
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}
	pause := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		refuseToken(w, http.StatusServiceUnavailable)
	}
	body := func(body string) answer {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		}
	}
	answers := map[string]struct {
		answer answer
		want   upstream.Reason
		says   string
	}{
		"400":                   {status(400), upstream.Denied, "token endpoint: HTTP status 400 Bad Request: invalid_client"},
		"401":                   {status(401), upstream.Denied, "401"},
		"404":                   {status(404), upstream.Denied, "404"},
		"429":                   {status(429), upstream.RateLimited, "429"},
		"500":                   {status(500), upstream.Unreachable, "token endpoint: HTTP status 500 Internal Server Error"},
		"503":                   {status(503), upstream.Unreachable, "503"},
		"503 with a pause":      {pause, upstream.Unreachable, "503"},
		"a redirect":            {elsewhere, upstream.Unreachable, "redirects are not followed"},
		"an error in a 200":     {status(200), upstream.Denied, "invalid_client"},
		"an odd error code":     {body(`{"error":"hunter2 is\nthe secret"}`), upstream.Denied, "token endpoint: HTTP status 200 OK"},
		"no token":              {body(`{"token_type":"bearer"}`), upstream.BadResponse, "returned no access token"},
		"no JSON":               {body(`hunter2`), upstream.BadResponse, "returned no access token"},
		"another kind of token": {body(`{"access_token":"hunter2","token_type":"mac"}`), upstream.BadResponse, `token type "mac", want Bearer`},
		"broken off":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, upstream.Unreachable, "token endpoint: "},
	}
	for name, test := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := upstreamtest.NewPeer(t)
			a := newAuthorization(p)
			a.answer = test.answer
			s := upstreamtest.Serve(t, a)
			var log upstreamtest.Log
			opts := upstream.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			c := start(t, withOAuth(upstreamtest.HTTP("guarded", s.URL), s.URL), opts)
			upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })
			problem := c.State().Problem
			if problem == nil || problem.Reason != test.want || !strings.Contains(problem.Err.Error(), test.says) {
				t.Errorf("the problem is %+v, want %s and %q", problem, test.want, test.says)
			}
			wantSeen(t, p, wire.Discover, 0) // not without a token
			a.change(func() { a.answer = nil })
			waitForNames(t, c, "p")
			a.change(func() { a.answer, a.deaf = test.answer, true })
			_, err := get(t.Context(), c, "p")
			wantUnavailable(t, err, upstream.Denied) // the server's own refusal
			for what, said := range map[string]string{"the log": log.String(), "the problem": fmt.Sprint(problem.Err), "the error": fmt.Sprint(err)} {
				if strings.Contains(said, "hunter2") {
					t.Errorf("%s has a secret in it: %s", what, said)
				}
			}
		})
	}
}

func TestOAuth_GuardsDialOfTokenEndpoint(t *testing.T) {
	t.Parallel()
	a := newAuthorization(upstreamtest.NewPeer(t))
	server, sso := upstreamtest.Serve(t, a), upstreamtest.Serve(t, a)
	forbidden := func(address string) error {
		if "http://"+address == sso.URL {
			return errors.New("not there")
		}
		return nil
	}
	c := start(t, withOAuth(upstreamtest.HTTP("guarded", server.URL), sso.URL), upstream.Options{DialGuard: forbidden})
	upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })
	problem := c.State().Problem
	if problem == nil || !strings.Contains(problem.Err.Error(), "not there") || a.requests() > 0 {
		t.Errorf("the problem is %+v after %d requests", problem, a.requests())
	}
}

func TestOAuth_SignsAssertionWithPrivateKey(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve := func(c elliptic.Curve) crypto.Signer {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for algorithm, key := range map[jose.SignatureAlgorithm]crypto.Signer{
		jose.RS256: rsaKey, jose.EdDSA: edKey, jose.ES256: curve(elliptic.P256()), jose.ES384: curve(elliptic.P384()), jose.ES512: curve(elliptic.P521()),
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			a := newAuthorization(upstreamtest.NewPeer(t))
			s := upstreamtest.Serve(t, a)
			seen := map[string]bool{}
			a.answer = func(w http.ResponseWriter, r *http.Request) {
				if err := checkAssertion(r, key.Public(), algorithm, s.URL+"/token", seen); err != nil {
					t.Error(err)
					refuseToken(w, http.StatusUnauthorized)
					return
				}
				a.give(w)
			}
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			u := withOAuth(upstreamtest.HTTP("guarded", s.URL), s.URL)
			u.OAuth.ClientSecret = config.Secret{}
			u.OAuth.PrivateKey = config.NewSecret(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
			c := start(t, u, upstream.Options{})
			waitForNames(t, c, "p")
			a.change(func() { clear(a.valid) }) // the next request needs another token, and so another assertion
			mustGet(t, c, "p")
			if len(seen) < 2 {
				t.Errorf("%d assertions, want one for each token", len(seen))
			}
		})
	}
}

// checkAssertion checks an assertion as an authorization server does (RFC 7523, section 3).
func checkAssertion(r *http.Request, key crypto.PublicKey, algorithm jose.SignatureAlgorithm, audience string, seen map[string]bool) error {
	if _, _, basic := r.BasicAuth(); basic || r.PostForm.Has("client_secret") {
		return errors.New("a secret beside the assertion")
	}
	if got := r.PostForm.Get("client_assertion_type"); got != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return fmt.Errorf("client_assertion_type %q", got)
	}
	token, err := jwt.ParseSigned(r.PostForm.Get("client_assertion"), []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return err
	}
	var claims jwt.Claims
	if err := token.Claims(key, &claims); err != nil {
		return err
	}
	if claims.ID == "" || seen[claims.ID] || claims.Expiry == nil || claims.Expiry.Time().After(time.Now().Add(5*time.Minute)) {
		return fmt.Errorf("claims %+v", claims)
	}
	seen[claims.ID] = true
	return claims.ValidateWithLeeway(jwt.Expected{Issuer: "weir", Subject: "weir", AnyAudience: jwt.Audience{audience}}, 0)
}

// Server and token endpoint have certificates of one private authority, which wants client
// certificates, but the token endpoint has another name.
func TestOAuth_UsesTLSBlockForTokenEndpoint(t *testing.T) {
	t.Parallel()
	ours := upstreamtest.NewAuthority(t, "test")
	a := newAuthorization(upstreamtest.NewPeer(t))
	serve := func(name string) string { return ours.Serve(name, a, nil) }
	u := withOAuth(upstreamtest.HTTP("guarded", serve("mcp.example")), strings.Replace(serve("localhost"), "127.0.0.1", "localhost", 1))
	u.TLS = trusting(t, ours, ours, "mcp.example")
	waitForNames(t, start(t, u, upstream.Options{}), "p")
}
