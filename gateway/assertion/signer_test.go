package assertion_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/assertion"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func pemOf(tb testing.TB, key any) config.Secret {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return config.NewSecret(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func ed25519Key(tb testing.TB) config.Secret {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return pemOf(tb, key)
}

func p256Key(tb testing.TB) config.Secret {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return pemOf(tb, key)
}

func newSigner(tb testing.TB, auth *config.Auth, keys ...config.Secret) *assertion.Signer {
	tb.Helper()
	s, err := assertion.New(&config.Config{Gateway: config.Gateway{PublicURL: "https://p.example.com", SigningKeys: keys}, Auth: auth})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func upstreamWith(a config.Assertion) *config.Upstream {
	a.Audience = "https://docs.example.com/mcp"
	return &config.Upstream{Name: "docs", Assertion: &a}
}

// read verifies an assertion by the published keys, as a server does, and returns its claims.
func read(t *testing.T, s *assertion.Signer, text string) (claims map[string]any, keyID string) {
	t.Helper()
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(s.KeySet(), &set); err != nil {
		t.Fatal(err)
	}
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	keyID = token.Headers[0].KeyID
	keys := set.Key(keyID)
	if len(keys) != 1 || !keys[0].IsPublic() || keys[0].Use != "sig" || keys[0].Algorithm != token.Headers[0].Algorithm {
		t.Fatalf("%d keys with the id %q: %+v", len(keys), keyID, keys)
	}
	if err := token.Claims(keys[0], &claims); err != nil {
		t.Fatal(err)
	}
	return claims, keyID
}

func TestSigner_SaysWhoCallsAndNoMore(t *testing.T) {
	both := config.Assertion{Email: true, Groups: true}
	ann := policy.Principal{
		Subject: "user:corp/ann", Groups: []string{"group:corp/eng"}, Source: "x",
		Claims: `{"email":"ann@example.com","email_verified":true,"secret":"s"}`,
	}
	unverified := ann
	unverified.Claims = `{"email":"ann@example.com"}`
	behindProxy := &config.Auth{JWTs: []config.JWT{{Header: "Cf-Access-Jwt-Assertion"}}}
	for _, test := range []struct {
		name   string
		auth   *config.Auth
		key    config.Secret
		block  config.Assertion
		caller policy.Principal
		more   map[string]any
	}{
		{"by default", nil, ed25519Key(t), config.Assertion{}, ann, nil},
		{"P-256", nil, p256Key(t), config.Assertion{}, ann, nil},
		{"with claims", nil, ed25519Key(t), both, ann, map[string]any{"email": "ann@example.com", "groups": []any{"corp/eng"}}},
		{"with an address that is not verified", nil, ed25519Key(t), both, unverified, map[string]any{"groups": []any{"corp/eng"}}},
		{"with one that a proxy signed", behindProxy, ed25519Key(t), config.Assertion{Email: true}, unverified, map[string]any{"email": "ann@example.com"}},
		{"with claims that there are not", nil, ed25519Key(t), both, policy.Principal{Subject: "user:corp/ann"}, nil},
	} {
		s := newSigner(t, test.auth, test.key, ed25519Key(t))
		text, err := s.For(upstreamWith(test.block), &test.caller)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		got, _ := read(t, s, text)
		issued, _ := got["iat"].(float64)
		if age := time.Since(time.Unix(int64(issued), 0)); age < 0 || age > time.Minute || got["exp"] != issued+60 {
			t.Errorf("%s: iat %v, exp %v", test.name, got["iat"], got["exp"])
		}
		maps.DeleteFunc(got, func(name string, _ any) bool { return name == "iat" || name == "exp" })
		want := map[string]any{"iss": "https://p.example.com", "sub": "corp/ann", "aud": "https://docs.example.com/mcp"}
		maps.Copy(want, test.more)
		upstreamtest.Equal(t, want, got, "%s: claims", test.name)
	}
}

func TestSigner_NamesNobodyWhoIsNotKnown(t *testing.T) {
	s := newSigner(t, nil, ed25519Key(t))
	asserting := upstreamWith(config.Assertion{})
	ann := &policy.Principal{Subject: "user:ann"}
	for name, test := range map[string]struct {
		s      *assertion.Signer
		u      *config.Upstream
		caller *policy.Principal
	}{
		"anonymous":          {s, asserting, &policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}},
		"nobody":             {s, asserting, nil},
		"no assertion block": {s, &config.Upstream{Name: "docs"}, ann},
		"no keys":            {newSigner(t, nil), asserting, ann},
	} {
		if text, err := test.s.For(test.u, test.caller); text != "" || err != nil {
			t.Errorf("%s: For = %q, %v", name, text, err)
		}
	}
	if keys := newSigner(t, nil).KeySet(); keys != nil {
		t.Errorf("KeySet without keys = %s", keys)
	}
}

// An assertion is reused only for the same caller and claims, and for half of its life.
func TestSigner_RemembersForHalfAMinute(t *testing.T) {
	first, second := p256Key(t), ed25519Key(t) // signatures of ECDSA differ each time
	synctest.Test(t, func(t *testing.T) {
		s, u := newSigner(t, nil, first, second), upstreamWith(config.Assertion{Groups: true, Email: true})
		sign := func(who policy.Principal) string {
			text, err := s.For(u, &who)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		ann := policy.Principal{Subject: "user:ann", Groups: []string{"group:a"}, Claims: "{}"}
		text := sign(ann)
		time.Sleep(29 * time.Second)
		upstreamtest.Equal(t, text, sign(ann), "the assertion within half a minute")
		for name, change := range map[string]func(*policy.Principal){
			"subject": func(p *policy.Principal) { p.Subject = "user:bob" },
			"source":  func(p *policy.Principal) { p.Source = "x" },
			"groups":  func(p *policy.Principal) { p.Groups = []string{"group:b"} },
			"claims":  func(p *policy.Principal) { p.Claims = `{"email":"a@example.com","email_verified":true}` },
		} {
			other := ann
			if change(&other); sign(other) == text {
				t.Errorf("another %s has the same assertion", name)
			}
		}
		time.Sleep(2 * time.Second)
		later := sign(ann)
		_, old := read(t, s, text)
		if _, id := read(t, s, later); later == text || id != old {
			t.Errorf("after half a minute: signed again: %t, by %q, want %q", later != text, id, old)
		}
		if _, id := read(t, newSigner(t, nil, second, first), func() string {
			text, _ := newSigner(t, nil, second, first).For(u, &ann)
			return text
		}()); id == old {
			t.Error("the first key does not sign")
		}
	})
}

func TestSigner_RefusesWhatDoesNotFitIntoAHeader(t *testing.T) {
	s := newSigner(t, nil, ed25519Key(t))
	many := policy.Principal{Subject: "user:ann"}
	for i := range 300 {
		many.Groups = append(many.Groups, fmt.Sprintf("group:a-group-with-a-name-%d", i))
	}
	if text, err := s.For(upstreamWith(config.Assertion{Groups: true}), &many); !errors.Is(err, assertion.ErrTooLarge) || text != "" {
		t.Errorf("For = %d bytes, %v, want ErrTooLarge", len(text), err)
	}
	if text, err := s.For(upstreamWith(config.Assertion{}), &many); err != nil || strings.Count(text, ".") != 2 {
		t.Errorf("without groups: %q, %v", text, err)
	}
}

func BenchmarkSigner_Cached(b *testing.B) {
	s, u := newSigner(b, nil, ed25519Key(b)), upstreamWith(config.Assertion{Groups: true, Email: true})
	ann := policy.Principal{Subject: "user:ann", Groups: []string{"group:eng"}, Claims: `{"email":"` + strings.Repeat("a", 500) + `"}`}
	b.ReportAllocs()
	for b.Loop() {
		if text, err := s.For(u, &ann); text == "" || err != nil {
			b.Fatal(err)
		}
	}
}
