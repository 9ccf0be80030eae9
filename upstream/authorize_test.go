package upstream_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// signpost answers with documents by path, in which URL is its own address; everything else is refused.
type signpost struct {
	challenge string
	documents map[string]string
	url       string
}

func (s *signpost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fill := strings.NewReplacer("URL", s.url).Replace
	if document, ok := s.documents[r.URL.Path]; ok && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, fill(document))
		return
	}
	if r.URL.Path != "/team/mcp" {
		http.NotFound(w, r)
		return
	}
	if s.challenge != "" {
		w.Header().Set("WWW-Authenticate", fill(s.challenge))
	}
	w.WriteHeader(http.StatusUnauthorized)
}

func TestWhoAuthorizesIsFoundFromTheRefusal(t *testing.T) {
	t.Parallel()
	const (
		below    = "/.well-known/oauth-protected-resource/team/mcp"
		root     = "/.well-known/oauth-protected-resource"
		resource = `{"resource":"URL/team/mcp","authorization_servers":["URL/as"],"scopes_supported":["read","list"]}`
		server   = `{"issuer":"URL/as","token_endpoint":"URL/token"}`
		rfc8414  = "/.well-known/oauth-authorization-server/as"
	)
	tests := []struct {
		name, challenge string
		documents       map[string]string
		scopes, problem string
	}{
		{"where the refusal says", `Bearer realm="a, \"b\"", resource_metadata="URL/here", scope=mcp`, map[string]string{"/here": resource, rfc8414: server}, "mcp", ""},
		{"below its path", "Bearer", map[string]string{below: resource, root: `{}`, rfc8414: server}, "read list", ""},
		{"at its root, without a challenge", "", map[string]string{root: resource, rfc8414: server}, "read list", ""},
		{"OpenID with the path inserted", "", map[string]string{root: resource, "/.well-known/openid-configuration/as": server}, "read list", ""},
		{"OpenID with the path in front", "", map[string]string{root: resource, "/as/.well-known/openid-configuration": server}, "read list", ""},
		{"for the whole host", "", map[string]string{root: strings.Replace(resource, "/team/mcp", "", 1), rfc8414: server}, "read list", ""},
		{"of another resource", "", map[string]string{root: strings.Replace(resource, "/team/mcp", "/team/m", 1), rfc8414: server}, "", "another resource"},
		{"of another host", "", map[string]string{root: strings.Replace(resource, "URL/team", "https://mcp.example.com/team", 1), rfc8414: server}, "", "another resource"},
		{"of another issuer", "", map[string]string{root: resource, rfc8414: strings.Replace(server, "/as", "/", 1)}, "", "another issuer"},
		{"naming nobody", "", map[string]string{root: `{"resource":"URL/team/mcp"}`}, "", "names no authorization server"},
		{"without TLS", "", map[string]string{root: strings.Replace(resource, "URL/as", "http://sso.example.com", 1)}, "", "not at an https URL"},
		{"a token endpoint without TLS", "", map[string]string{root: resource, rfc8414: strings.Replace(server, "URL/token", "http://sso.example.com/token", 1)}, "", "token endpoint is not at an https URL"},
		{"nowhere", "", nil, "", "404 Not Found"},
		{"not JSON", "", map[string]string{root: "<html>"}, "", "invalid character"},
	}
	for _, test := range tests {
		post := &signpost{challenge: test.challenge, documents: test.documents}
		s := upstreamtest.Serve(t, post)
		post.url = s.URL
		got, err := upstream.DiscoverAuthorization(t.Context(), upstreamtest.HTTP("x", s.URL+"/team/mcp"), upstream.Options{})
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: %+v, %v, want an error with %q", test.name, got, err, test.problem)
			}
			continue
		}
		want := upstream.Authorization{Issuer: s.URL + "/as", TokenURL: s.URL + "/token", Scopes: strings.Fields(test.scopes), Resource: s.URL + "/team/mcp"}
		if test.name == "for the whole host" {
			want.Resource = s.URL
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
	open := upstreamtest.Serve(t, upstreamtest.NewPeer(t))
	if _, err := upstream.DiscoverAuthorization(t.Context(), upstreamtest.HTTP("x", open.URL), upstream.Options{}); err == nil || !strings.Contains(err.Error(), "without a token") {
		t.Errorf("a server that refuses nobody: %v", err)
	}
}

func TestAKeySignsForTheClient(t *testing.T) {
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
			if _, err := get(t.Context(), c, "p"); err != nil {
				t.Error(err)
			}
			if len(seen) < 2 {
				t.Errorf("%d assertions, want one for each token", len(seen))
			}
		})
	}
}

// checkAssertion is what an authorization server looks at (RFC 7523, section 3).
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

// TestTheTokenEndpointIsReachedAsTheUpstreamIs has both behind one private authority that wants client certificates, and
// the token endpoint under another name.
func TestTheTokenEndpointIsReachedAsTheUpstreamIs(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	a := newAuthorization(upstreamtest.NewPeer(t))
	serve := func(name string) string {
		pair, err := tls.X509KeyPair(pemPair(ours.pair(x509.ExtKeyUsageServerAuth, name)))
		if err != nil {
			t.Fatal(err)
		}
		clients := x509.NewCertPool()
		clients.AddCert(ours.root())
		server := httptest.NewUnstartedServer(a)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL
	}
	u := withOAuth(upstreamtest.HTTP("guarded", serve("mcp.example")), strings.Replace(serve("localhost"), "127.0.0.1", "localhost", 1))
	certificate, key := ours.pair(x509.ExtKeyUsageClientAuth, "gateway")
	u.TLS = &config.TLS{
		CAs: config.NewSecret(ours.pem), ServerName: "mcp.example", Certificate: config.NewSecret(certificate), Key: config.NewSecret(key),
	}
	waitForNames(t, start(t, u, upstream.Options{}), "p")
}
