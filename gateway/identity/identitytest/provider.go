// Package identitytest answers: what can stand in for an identity provider in a test?
//
// A [Provider] has real keys, metadata and signatures, over real HTTP or in memory, and can be made
// to fail.
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

// Audience is the audience of the tokens of a [Provider].
const Audience = "https://prompts.example.com/mcp"

// Claims are the claims of a token.
type Claims map[string]any

// With returns the claims with others added; a nil value removes a claim.
func (c Claims) With(others Claims) Claims {
	all := maps.Clone(c)
	maps.Copy(all, others)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// Provider issues tokens. It is an http.Handler that serves its metadata and its keys.
type Provider struct {
	// Issuer is the iss of the tokens. It may be changed before the first request.
	Issuer string

	tb      testing.TB
	mu      sync.Mutex // guards the fields below
	keys    []jose.JSONWebKey
	made    int
	status  int
	fetches int
}

// New returns a provider for use as a handler in memory.
func New(tb testing.TB, issuer string) *Provider {
	p := &Provider{Issuer: issuer, tb: tb, status: http.StatusOK}
	p.Rotate()
	return p
}

// Serve returns a provider that listens on a free loopback port until the test ends.
func Serve(tb testing.TB) *Provider {
	p := New(tb, "")
	server := httptest.NewServer(p)
	tb.Cleanup(server.Close)
	p.Issuer = server.URL
	return p
}

// Rotate replaces all keys by a new key.
func (p *Provider) Rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.Add(key, string(jose.ES256), true)
}

// Add adds a key and signs with it from now on. If alone is true, it removes all other keys.
func (p *Provider) Add(key crypto.Signer, algorithm string, alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		p.keys = nil
	}
	p.made++
	p.keys = append([]jose.JSONWebKey{{
		Key: key, KeyID: "key-" + strconv.Itoa(p.made),
		Algorithm: algorithm, Use: "sig",
	}}, p.keys...)
}

// Answer makes the provider answer with a status from now on, without a document unless it is 200.
func (p *Provider) Answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// Fetches returns how often the keys were fetched.
func (p *Provider) Fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// Key returns the key that signs.
func (p *Provider) Key() jose.JSONWebKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[0]
}

// ServeHTTP serves the metadata and the public keys.
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

// Claims returns the claims of a token for a subject that is valid for an hour.
func (p *Provider) Claims(subject string) Claims {
	now := time.Now()
	return Claims{
		"iss": p.Issuer, "sub": subject, "aud": Audience, "iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix(),
	}
}

// Token returns a valid token for a subject.
func (p *Provider) Token(subject string) string { return p.Sign(p.Claims(subject)) }

// Sign returns a token with the claims, signed with the provider's key.
func (p *Provider) Sign(claims Claims) string {
	key := p.Key()
	return Sign(p.tb, jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key},
		"at+jwt", claims)
}

// Sign returns a token with the claims, signed with any key. An empty typ is left out.
func Sign(tb testing.TB, key jose.SigningKey, typ any, claims Claims) string {
	tb.Helper()
	options := &jose.SignerOptions{}
	if typ != "" {
		options.WithHeader(jose.HeaderType, typ)
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
