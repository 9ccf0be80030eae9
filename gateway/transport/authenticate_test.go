package transport_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

type claims = identitytest.Claims

// jwtBlock returns the jwt block of a provider with further attributes.
func jwtBlock(p *identitytest.Provider, settings ...string) string {
	return fmt.Sprintf("jwt \"corp\" {\n issuer = %q\n audience = %q\n %s\n}\n", p.Issuer, identitytest.Audience, strings.Join(settings, "\n "))
}

func TestAuthenticate_TokensOfAnIssuerArePrincipals(t *testing.T) {
	idp := identitytest.Serve(t)
	ci := strings.Replace(gatewaytest.Token("ann"), "{\n", "{\n as = \"token\"\n", 1)
	s := gatewaytest.Serve(t, "auth {\n"+jwtBlock(idp, `as = "corp"`)+ci+"}\n"+
		gatewaytest.Team("eng", `"user:corp/ann", "group:corp/eng"`, "", gatewaytest.NewPeer(t, "p", "a"))+
		gatewaytest.Team("ops", `"user:token/ann"`, "", gatewaytest.NewPeer(t, "q", "b")))
	for who, want := range map[string][]string{
		idp.Token("ann"): {"p.a"},
		idp.Sign(idp.Claims("bob").With(claims{"groups": []string{"eng"}})): {"p.a"},
		idp.Token("bob"): {},
		"ann":            {"q.b"},
	} {
		upstreamtest.Equal(t, want, s.Modern(who).List(), "%.20s…", who)
		upstreamtest.Equal(t, want, s.Legacy("2025-11-25", who).List(), "%.20s… with a session", who)
	}
	// A session belongs to its principal: any other token of the same principal may use it, and no other principal.
	session := s.Legacy("2025-11-25", idp.Token("ann"))
	for who, status := range map[string]int{
		idp.Sign(idp.Claims("ann").With(claims{"jti": "2"})): http.StatusOK, idp.Token("bob"): http.StatusNotFound, "ann": http.StatusNotFound,
	} {
		other := *session
		other.Headers = append(append(gatewaytest.Headers{}, session.Headers...), gatewaytest.Bearer(who)...)
		other.Call("prompts/list", "").Want(t, status)
	}
}

func TestAuthenticate_ClaimsReachPolicyAndLimits(t *testing.T) {
	idp := identitytest.Serve(t)
	s := gatewaytest.Serve(t, "gateway {\n limit {\n  rate = 0.001\n  burst = 3\n }\n}\nauth {\n"+jwtBlock(idp)+"}\n"+gatewaytest.Team("eng", `"user:nobody"`, `
  expose "gold" {
    prompts = ["p.a"]
    to      = ["*"]
    when    = try(principal.claims.tier, "") == "gold" && contains(principal.groups, "group:eng")
  }
`, gatewaytest.NewPeer(t, "p", "a")))
	signed := func(subject string, more claims) *gatewaytest.Client {
		return s.Modern(idp.Sign(idp.Claims(subject).With(more)))
	}
	ann := signed("ann", claims{"tier": "gold", "groups": "eng"})
	ann.WantList("p.a")
	ann.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"from p"`)
	signed("bob", claims{"tier": "gold"}).Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"Unknown prompt: p.a"`)

	// Another token of ann is that of the same principal. Its claims decide what she sees; her limit goes on.
	other := signed("ann", claims{"tier": "silver", "groups": "eng"})
	other.Call("prompts/list", "").Want(t, http.StatusOK, `"prompts":[]`)
	other.Call("prompts/list", "").Want(t, http.StatusOK, `"reason":"rate_limited"`)
	ann.Call("prompts/list", "").Want(t, http.StatusOK, `"reason":"rate_limited"`)
	signed("bob", nil).Call("prompts/list", "").Want(t, http.StatusOK, `"prompts":[]`)
}

func TestAuthenticate_RefusalNamesTheProvider(t *testing.T) {
	idp := identitytest.Serve(t)
	s := gatewaytest.Serve(t, "auth {\n"+jwtBlock(idp, `scopes = ["read", "list"]`)+"}")
	base := strings.TrimSuffix(s.URL, "/mcp")
	to := `Bearer resource_metadata="` + base + `/.well-known/oauth-protected-resource/mcp", scope="read list"`
	scoped := claims{"scope": "list read"}
	for _, test := range []struct {
		name, token string
		status      int
		challenge   string
	}{
		{"good", idp.Sign(idp.Claims("ann").With(scoped)), http.StatusOK, ""},
		{"none", "", http.StatusUnauthorized, to},
		{"expired", idp.Sign(idp.Claims("ann").With(scoped).With(claims{"exp": 1})), http.StatusUnauthorized, to + `, error="invalid_token"`},
		{"unknown", "eve", http.StatusUnauthorized, to + `, error="invalid_token"`},
		{"half the scopes", idp.Sign(idp.Claims("ann").With(claims{"scope": "read"})), http.StatusForbidden, to + `, error="insufficient_scope"`},
	} {
		for _, a := range []gatewaytest.Response{
			s.Modern(test.token).Call("prompts/list", ""),
			gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","id":5,"method":"initialize","params":`+gatewaytest.InitializeParams("2025-11-25")+`}`, gatewaytest.Bearer(test.token)),
		} {
			if got := a.Header.Get("WWW-Authenticate"); a.Status != test.status || got != test.challenge {
				t.Errorf("%s: status %d, WWW-Authenticate %s\nwant %d, %s", test.name, a.Status, got, test.status, test.challenge)
			}
		}
	}
	inQuery := idp.Sign(idp.Claims("ann").With(scoped))
	for _, h := range []gatewaytest.Headers{nil, gatewaytest.Bearer(inQuery)} {
		body, more := s.Modern("").Encode("1", "prompts/list", "")
		gatewaytest.Send(t, http.MethodPost, s.URL+"?access_token="+inQuery, body, append(more, h...)).Want(t, http.StatusBadRequest, "belongs in the Authorization header")
	}
}

func TestAuthenticate_UnreachableProviderIsNotARefusal(t *testing.T) {
	idp := identitytest.Serve(t)
	idp.Answer(http.StatusInternalServerError)
	s, log := gatewaytest.ServeLogged(t, "auth {\n"+jwtBlock(idp)+"}")
	a := s.Modern(idp.Token("ann")).Call("prompts/list", "")
	a.Want(t, http.StatusServiceUnavailable, "the identity provider did not answer")
	if a.Header.Get("Retry-After") == "" || a.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("headers %v, want Retry-After and no WWW-Authenticate", a.Header)
	}
	s.Modern("eve").Call("prompts/list", "").Want(t, http.StatusUnauthorized)
	s.Modern("").Call("prompts/list", "").Want(t, http.StatusUnauthorized)
	if got := log.String(); strings.Count(got, "credential refused") != 2 || !strings.Contains(got, "client=127.0.0.1") {
		t.Errorf("got the log %s\nwant the two bad credentials in it, with their clients' addresses", got)
	}
	if got := log.String(); !strings.Contains(got, "identity provider's keys not fetched") || !strings.Contains(got, "500 Internal Server Error") || strings.Contains(got, idp.Token("ann")[:40]) {
		t.Errorf("got the log %s\nwant the provider's status in it, and no part of the token", got)
	}
}

func TestMetadata_DescribesTheProtectedResource(t *testing.T) {
	idp := identitytest.Serve(t)
	s := gatewaytest.Serve(t, "gateway { public_url = \"https://prompts.example.com/team/mcp\" }\nauth {\n"+jwtBlock(idp, `scopes = ["read"]`)+"}\n")
	at := strings.TrimSuffix(s.URL, "/mcp") + "/.well-known/oauth-protected-resource"
	for _, path := range []string{"", "/mcp", "/team/mcp"} {
		// The metadata needs no credential, and a page of any origin may read it.
		a := gatewaytest.Send(t, http.MethodGet, at+path, "", gatewaytest.Headers{"Origin", "https://app.example.com"})
		a.Want(t, http.StatusOK)
		var got map[string]any
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"resource": "https://prompts.example.com/team/mcp", "resource_name": "promptweir", "authorization_servers": []any{idp.Issuer},
			"scopes_supported": []any{"read"}, "bearer_methods_supported": []any{"header"},
		}
		if diff := cmp.Diff(want, got); diff != "" || a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s%s: %v (-want +got):\n%s", at, path, a.Header, diff)
		}
		preflight := gatewaytest.Send(t, http.MethodOptions, at+path, "", gatewaytest.Headers{"Origin", "https://app.example.com", "Access-Control-Request-Headers", "mcp-protocol-version"})
		if preflight.Want(t, http.StatusNoContent); preflight.Header.Get("Access-Control-Allow-Headers") != "*" {
			t.Errorf("preflight: headers %v, want all headers to be allowed", preflight.Header)
		}
		gatewaytest.Send(t, http.MethodPost, at+path, "{}", nil).Want(t, http.StatusMethodNotAllowed)
		gatewaytest.Send(t, http.MethodGet, at+path, "", gatewaytest.Headers{"Host", "evil.example.com"}).Want(t, http.StatusForbidden, "Forbidden: host")
	}
	gatewaytest.Send(t, http.MethodGet, at+"/other", "", nil).Want(t, http.StatusNotFound)
	without := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+"}")
	gatewaytest.Send(t, http.MethodGet, strings.TrimSuffix(without.URL, "/mcp")+"/.well-known/oauth-protected-resource", "", nil).Want(t, http.StatusNotFound)
}

// Whatever public_url is, the challenge of each address leads to a document about a resource that a client
// takes for that address, and a token for that resource is accepted there.
func TestChallenge_LeadsToTheMetadataOfItsResource(t *testing.T) {
	idp := identitytest.Serve(t)
	for _, test := range []struct{ public, path, prefix string }{
		{"https://p.example.com", "/mcp", ""},
		{"https://p.example.com/", "/mcp", ""},
		{"https://p.example.com/mcp", "/mcp", ""},
		{"https://p.example.com/team", "/mcp", "/team"},
		{"https://p.example.com/team/mcp/", "/mcp", "/team"},
		{"https://p.example.com", "/prompts/mcp", ""},
		{"https://p.example.com/prompts/mcp", "/prompts/mcp", ""},
		{"https://p.example.com/a%2Fb", "/mcp", "/a%2Fb"},
	} {
		// The audience is the endpoint, as the documentation has it.
		endpoint := test.prefix + test.path
		s := gatewaytest.Serve(t, fmt.Sprintf("gateway {\n public_url = %q\n path = %q\n variants = [\"flat\", \"tools\"]\n}\nauth {\n jwt \"corp\" {\n issuer = %q\n audience = %q\n }\n}\n",
			test.public, test.path, idp.Issuer, "https://p.example.com"+endpoint))
		base, public := strings.TrimSuffix(s.URL, "/mcp"), "https://p.example.com"
		for _, target := range []struct{ method, path, resource string }{
			{http.MethodPost, test.path, endpoint},
			{http.MethodGet, test.path, endpoint},
			{http.MethodPost, test.path + "/flat", endpoint},
			{http.MethodPost, test.path + "/tools", endpoint},
			{http.MethodPost, "/sse", test.prefix + "/sse"},
			{http.MethodGet, "/sse", test.prefix + "/sse"},
		} {
			send := func(token string) gatewaytest.Response {
				h := append(gatewaytest.Headers{"Host", "p.example.com"}, gatewaytest.Bearer(token)...)
				if target.method == http.MethodGet {
					h = append(h, "Accept", "text/event-stream")
				}
				return gatewaytest.Send(t, target.method, base+target.path, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, h)
			}
			what := fmt.Sprintf("public_url %q, path %q: %s %s", test.public, test.path, target.method, target.path)
			challenge := send("").Header.Get("WWW-Authenticate")
			at, isQuoted := strings.CutPrefix(challenge, `Bearer resource_metadata="`+public)
			at, _, _ = strings.Cut(at, `"`)
			a := gatewaytest.Send(t, http.MethodGet, base+at, "", gatewaytest.Headers{"Host", "p.example.com"})
			var document struct{ Resource string }
			if err := json.Unmarshal([]byte(a.Body), &document); err != nil || !isQuoted || document.Resource != public+target.resource {
				t.Errorf("%s: challenge %s: status %d, resource %q, want %q", what, challenge, a.Status, document.Resource, public+target.resource)
				continue
			}
			if target.method == http.MethodGet {
				continue // a good token would open a stream
			}
			if got := send(idp.Sign(idp.Claims("ann").With(claims{"aud": document.Resource}))); got.Status == http.StatusUnauthorized {
				t.Errorf("%s: a token for %s: status %d", what, document.Resource, got.Status)
			}
		}
	}
}

// Behind an identity-aware proxy, its header alone is the credential.
func TestAuthenticate_HeaderOfAProxyIsTheOnlyCredential(t *testing.T) {
	idp, stranger := identitytest.Serve(t), identitytest.Serve(t)
	p := gatewaytest.NewPeer(t, "p", "a")
	s, log := gatewaytest.ServeLogged(t, "gateway { allowed_origins = [\"https://app.example.com\"] }\nauth {\n"+
		jwtBlock(idp, `header = "Cf-Access-Jwt-Assertion"`, `subject_claim = "email"`)+"}\n"+
		gatewaytest.Team("eng", `"user:ann@example.com"`, "", p))
	const header = "Cf-Access-Jwt-Assertion"
	ann := idp.Claims("x").With(claims{"email": "ann@example.com"}) // without email_verified, as proxies have it
	valid := idp.Sign(ann)
	stranger.Issuer = idp.Issuer
	send := func(method, params string, values ...string) gatewaytest.Response {
		body, h := s.Modern("").Encode("1", method, params)
		r := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, s.URL, body, h)
		for i := 0; i < len(values); i += 2 {
			r.Header.Add(values[i], values[i+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return gatewaytest.Response{Status: response.StatusCode, Header: response.Header, Body: string(got)}
	}
	for _, other := range []string{"", "Bearer " + valid, "Bearer eve", "Basic YTpi"} {
		send("prompts/get", gatewaytest.GetParams("p.a"), header, valid, "Authorization", other).Want(t, http.StatusOK, `"from p"`)
	}
	for name, values := range map[string][]string{
		"signed by a stranger": {header, stranger.Sign(ann)},
		"for another audience": {header, idp.Sign(ann.With(claims{"aud": "https://other.example.com"}))},
		"expired":              {header, idp.Sign(ann.With(claims{"exp": 1}))},
		"of two values":        {header, valid, header, valid},
		"one value and none":   {header, "", header, valid},
		"two in one":           {header, valid + ", " + valid},
		"with a scheme":        {header, "Bearer " + valid},
		"Authorization alone":  {"Authorization", "Bearer " + valid},
		"none":                 {},
	} {
		a := send("prompts/get", gatewaytest.GetParams("p.a"), values...)
		if got := a.Header.Values("WWW-Authenticate"); a.Status != http.StatusUnauthorized || !cmp.Equal(got, []string{"Bearer"}) {
			t.Errorf("%s: status %d, WWW-Authenticate %q; want 401 and Bearer alone", name, a.Status, got)
		}
	}
	base := strings.TrimSuffix(s.URL, "/mcp")
	for _, path := range []string{"", "/mcp", "/sse"} {
		gatewaytest.Send(t, http.MethodGet, base+"/.well-known/oauth-protected-resource"+path, "", nil).Want(t, http.StatusNotFound)
	}
	preflight := gatewaytest.Send(t, http.MethodOptions, s.URL, "", gatewaytest.Headers{
		"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", header,
	})
	if allowed := preflight.Header.Get("Access-Control-Allow-Headers"); allowed == "" || strings.Contains(strings.ToLower(allowed), "cf-access") {
		t.Errorf("a page may send %q", allowed)
	}
	for _, call := range append(p.Calls("prompts/get"), p.Calls("prompts/list")...) {
		if call.Header.Get(header) != "" || call.Header.Get("Authorization") != "" {
			t.Errorf("%s has a credential of the caller's: %v", call.Method, call.Header)
		}
	}
	if got := log.String(); strings.Contains(got, valid[:40]) || !strings.Contains(got, "credential refused") {
		t.Errorf("got the log %s\nwant refusals without tokens", got)
	}
}

func TestStream_EndsWhenItsCredentialExpires(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	bubble.Test(t, func(t *testing.T) {
		s := serveOverPipes(t, p, &config.Auth{ClientCertificates: &config.ClientCertificates{}})
		until := time.Now().Add(time.Hour)
		s.certificate = &x509.Certificate{Subject: pkix.Name{CommonName: "ann"}, NotAfter: until}
		modern, legacy := &gatewaytest.Client{TB: t, Revision: gatewaytest.Latest}, s.begin("2025-06-18")
		in, stillOpen := io.Pipe()
		defer stillOpen.Close()
		var streams sync.WaitGroup
		defer streams.Wait()
		ends := func(name string, run func() (last string), want string) {
			streams.Go(func() {
				last := run()
				if late := time.Since(until); late < 0 || late > time.Second || !strings.Contains(last, want) {
					t.Errorf("%s ends %v after its credential, and last says %q, want %q", name, late, last, want)
				}
			})
		}
		stream := func(method, path, body string, h gatewaytest.Headers) func() string {
			return func() string {
				_, stream := s.send(method, path, body, h)
				said, err := io.ReadAll(stream)
				if err != nil {
					t.Errorf("%s %s: %v", method, path, err)
				}
				return string(said)
			}
		}
		listen, h := modern.Encode("7", "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`)
		ends("a subscription", stream(http.MethodPost, "/mcp", listen, h), `"resultType":"complete"`)
		ends("a GET", stream(http.MethodGet, "/mcp", "", legacy.Headers), "")
		ends("HTTP+SSE", stream(http.MethodGet, "/sse", "", nil), "event: endpoint")
		ends("stdio", func() string {
			ann := policy.Principal{Subject: "user:ann", Expires: until}
			return fmt.Sprint(s.ServeStdio(t.Context(), identity.Vouched(ann), in, io.Discard))
		}, "expired")
		streams.Wait()
		list, h := modern.Encode("8", "prompts/list", "{}")
		if got := stream(http.MethodPost, "/mcp", list, h)(); !strings.Contains(got, "Unauthorized: the credential is not valid") {
			t.Errorf("after its end a list is answered %s", got)
		}
	})
}

func TestAuthenticate_RefusesMissingAndUnknownTokens(t *testing.T) {
	s, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+"}")
	for name, h := range map[string]gatewaytest.Headers{
		"none": nil, "unknown": gatewaytest.Bearer("eve"), "empty": {"Authorization", "Bearer "}, "basic": {"Authorization", "Basic YW5uOmFubg=="},
	} {
		for _, a := range []gatewaytest.Response{
			gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","id":5,"method":"initialize","params":`+gatewaytest.InitializeParams("2025-11-25")+`}`, h),
			gatewaytest.Send(t, http.MethodGet, s.URL, "", h),
			gatewaytest.Send(t, http.MethodDelete, s.URL, "", h),
			(&gatewaytest.Client{Server: s, TB: t, Revision: gatewaytest.Latest, Headers: h}).Call("prompts/list", ""),
			(&gatewaytest.Client{Server: s, TB: t, Revision: gatewaytest.Latest, Headers: h}).Call("subscriptions/listen", `{"notifications":{}}`),
			(&gatewaytest.Client{Server: s, TB: t, Revision: gatewaytest.Latest, Headers: h}).Call("server/discover", ""),
		} {
			a.Want(t, http.StatusUnauthorized)
			upstreamtest.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"), "%s: WWW-Authenticate", name)
		}
	}
	open, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann", "payments")+"}")
	open.Modern("").Call("prompts/list", "").Want(t, http.StatusOK)
	open.Modern("eve").Call("prompts/list", "").Want(t, http.StatusUnauthorized)
	// Without an auth block everybody is a member of every team, whatever credential they send.
	all, _, _ := gatewaytest.ServeTwoTeams(t, "")
	for _, token := range []string{"", "eve"} {
		all.Modern(token).WantList("billing.ledger", "billing.review_pr", "find.query")
	}
}

func TestAuthenticate_RefusesTwoCredentials(t *testing.T) {
	s := gatewaytest.Serve(t, "auth {\nanonymous = true\n"+gatewaytest.Token("ann")+"}\n")
	body, h := s.Modern("").Encode("1", "prompts/list", "{}")
	for _, two := range [][]string{{"", "Bearer nope"}, {"Bearer ann", "Bearer nope"}, {"Bearer nope", "Bearer ann"}, {"Bearer ann", "Bearer ann"}} {
		r := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, s.URL, body, h)
		r.Header["Authorization"] = two
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		upstreamtest.Equal(t, http.StatusUnauthorized, response.StatusCode, "credentials %q: status", two)
	}
}
