// Package identitytest has an identity provider for tests: real keys, documents and signatures, over real HTTP or in
// memory, which can be made to do what no provider should.
package identitytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Audience is whom the tokens of a [Provider] are for.
const Audience = "https://prompts.example.com/mcp"

// Claims are what a token says.
type Claims map[string]any

// With returns the claims with others added or, where the value is nil, taken away.
func (c Claims) With(others Claims) Claims {
	all := maps.Clone(c)
	maps.Copy(all, others)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// Provider issues tokens. It is an http.Handler that serves its metadata and its keys.
type Provider struct {
	// Issuer is what the tokens say. It may be changed before the first request.
	Issuer string

	tb      testing.TB
	mu      sync.Mutex // guards what follows
	keys    []jose.JSONWebKey
	made    int
	status  int
	fetches int
}

// New returns a provider in memory, of an issuer.
func New(tb testing.TB, issuer string) *Provider {
	p := &Provider{Issuer: issuer, tb: tb, status: http.StatusOK}
	p.Rotate()
	return p
}

// Serve returns a provider on a free port of loopback, until the test ends.
func Serve(tb testing.TB) *Provider {
	p := New(tb, "")
	server := httptest.NewServer(p)
	tb.Cleanup(server.Close)
	p.Issuer = server.URL
	return p
}

// Rotate puts a new key in the place of all others.
func (p *Provider) Rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.Add(key, string(jose.ES256), true)
}

// Add makes a key the one that signs, instead of the others or beside them.
func (p *Provider) Add(key crypto.Signer, algorithm string, alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		p.keys = nil
	}
	p.made++
	p.keys = append([]jose.JSONWebKey{{Key: key, KeyID: "key-" + strconv.Itoa(p.made), Algorithm: algorithm, Use: "sig"}}, p.keys...)
}

// Answer makes the provider answer with a status from now on; only 200 comes with what was asked for.
func (p *Provider) Answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// Fetches is how often the keys were asked for.
func (p *Provider) Fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// Key is the key that signs.
func (p *Provider) Key() jose.JSONWebKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[0]
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var document any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		document = map[string]string{"issuer": p.Issuer, "jwks_uri": p.Issuer + "/keys"}
	case "/keys":
		p.fetches++
		var set jose.JSONWebKeySet
		for _, key := range p.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		document = set
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	if p.status == http.StatusOK {
		_ = json.NewEncoder(w).Encode(document) // the client has gone
	}
}

// Claims are those of a good token of a subject, for the next hour.
func (p *Provider) Claims(subject string) Claims {
	now := time.Now()
	return Claims{"iss": p.Issuer, "sub": subject, "aud": Audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
}

// Token returns a good token of a subject.
func (p *Provider) Token(subject string) string { return p.Sign(p.Claims(subject)) }

// Sign returns a token with the claims.
func (p *Provider) Sign(claims Claims) string {
	key := p.Key()
	return Sign(p.tb, jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, "at+jwt", claims)
}

// Sign returns a token with the claims, signed with any key. An empty typ is left out.
func Sign(tb testing.TB, key jose.SigningKey, typ string, claims Claims) string {
	tb.Helper()
	options := &jose.SignerOptions{}
	if typ != "" {
		options.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		tb.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		tb.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		tb.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		tb.Fatal(err)
	}
	return token
}
