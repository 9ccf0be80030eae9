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
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

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
