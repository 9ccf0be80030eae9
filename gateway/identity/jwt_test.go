package identity_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

type claims = identitytest.Claims

// jwtBlock returns a jwt block with the default settings.
func jwtBlock(p *identitytest.Provider) config.JWT {
	return config.JWT{
		Name: "corp", Issuer: p.Issuer, Audience: identitytest.Audience, SubjectClaim: config.DefaultSubjectClaim,
		GroupsClaim: config.DefaultGroupsClaim, Algorithms: []string{"RS256", "ES256", "EdDSA"}, Leeway: config.DefaultLeeway,
	}
}

func issuers(blocks ...config.JWT) *identity.Authenticator {
	return identity.New(&config.Config{Auth: &config.Auth{JWTs: blocks}}, slog.New(slog.DiscardHandler))
}

func from(t testing.TB, a *identity.Authenticator, token string) (policy.Principal, error) {
	t.Helper()
	who, err := a.FromHeader(t.Context(), "Authorization", "Bearer "+token)
	if err != nil && !cmp.Equal(who, policy.Principal{}) {
		t.Errorf("%+v beside %v", who, err)
	}
	if err != nil && strings.Contains(err.Error(), token[len(token)/2:]) {
		t.Errorf("the error shows the token: %v", err)
	}
	return who, err
}

func accepted(t testing.TB, a *identity.Authenticator, token string) policy.Principal {
	t.Helper()
	who, err := from(t, a, token)
	if err != nil {
		t.Errorf("a good token: %v", err)
	}
	return who
}

func refused(t testing.TB, a *identity.Authenticator, token string, want error) {
	t.Helper()
	if who, err := from(t, a, token); !errors.Is(err, want) {
		t.Errorf("%+v, %v, want %v", who, err, want)
	}
}

func TestJWT_MapsClaimsToAPrincipal(t *testing.T) {
	p := identitytest.Serve(t)
	exp := time.Now().Add(time.Hour).Truncate(time.Second)
	tests := []struct {
		name  string
		block func(*config.JWT)
		more  claims
		want  policy.Principal
	}{
		{"subject alone", nil, nil, policy.Principal{Subject: "user:alice"}},
		{"groups", nil, claims{"groups": []string{"a", "b c"}}, policy.Principal{Subject: "user:alice", Groups: []string{"group:a", "group:b c"}}},
		{"one group", nil, claims{"groups": "a"}, policy.Principal{Subject: "user:alice", Groups: []string{"group:a"}}},
		{"as", func(j *config.JWT) { j.As = "corp" }, claims{"groups": "a"}, policy.Principal{Subject: "user:corp/alice", Groups: []string{"group:corp/a"}}},
		{"anonymous of a source", func(j *config.JWT) { j.As = "corp" }, claims{"sub": "anonymous"}, policy.Principal{Subject: "user:corp/anonymous"}},
		{
			"other claims", func(j *config.JWT) { j.SubjectClaim, j.GroupsClaim = "oid", "https://x/roles" },
			claims{"oid": "42", "https://x/roles": []string{"r"}, "groups": "no"},
			policy.Principal{Subject: "user:42", Groups: []string{"group:r"}},
		},
		{"verified e-mail", func(j *config.JWT) { j.SubjectClaim = "email" }, claims{"email": "a@example.com", "email_verified": true}, policy.Principal{Subject: "user:a@example.com"}},
		{"audience among others", nil, claims{"aud": []string{"x", identitytest.Audience}}, policy.Principal{Subject: "user:alice"}},
		{"scopes as a string", func(j *config.JWT) { j.Scopes = []string{"a", "b"} }, claims{"scope": "b a c"}, policy.Principal{Subject: "user:alice"}},
		{"scopes as a list", func(j *config.JWT) { j.Scopes = []string{"a"} }, claims{"scp": []string{"a"}}, policy.Principal{Subject: "user:alice"}},
		{"expired within the leeway", nil, claims{"exp": time.Now().Add(-20 * time.Second).Unix()}, policy.Principal{Subject: "user:alice"}},
		{"valid in a moment", nil, claims{"nbf": time.Now().Add(20 * time.Second).Unix()}, policy.Principal{Subject: "user:alice"}},
	}
	for _, test := range tests {
		block := jwtBlock(p)
		if test.block != nil {
			test.block(&block)
		}
		said := p.Claims("alice").With(claims{"exp": exp.Unix()}).With(test.more)
		got := accepted(t, issuers(block), p.Sign(said))
		if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(policy.Principal{}, "Source", "Claims", "Expires")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		var kept claims
		if err := json.Unmarshal([]byte(got.Claims), &kept); err != nil || len(kept) != len(said) {
			t.Errorf("%s: claims %s, want %v", test.name, got.Claims, said)
		}
		if want := time.Unix(said["exp"].(int64), 0).Add(config.DefaultLeeway); !got.Expires.Equal(want) {
			t.Errorf("%s: expires %v, want %v", test.name, got.Expires, want)
		}
	}
}

func TestJWT_RefusesBadTokens(t *testing.T) {
	p := identitytest.Serve(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.Add(rsaKey, "RS256", false)
	other := identitytest.New(t, p.Issuer) // the same issuer, it says, and the same kid
	emails := jwtBlock(p)
	emails.SubjectClaim = "email"
	strict := jwtBlock(p)
	a, byEmail := issuers(strict), issuers(emails)
	good := p.Claims("alice")
	sign := func(key any, alg jose.SignatureAlgorithm, kid string, typ any) string {
		return identitytest.Sign(t, jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, typ, good)
	}
	public, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	publicJWK, err := json.Marshal(jose.JSONWebKey{Key: &rsaKey.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(p.Sign(good), ".")
	encode := base64.RawURLEncoding.EncodeToString
	forged, _ := json.Marshal(good.With(claims{"sub": "root"}))

	accepted(t, a, p.Sign(good))
	accepted(t, a, sign(rsaKey, "RS256", "", "")) // no kid: all keys are tried
	for name, token := range map[string]string{
		"wrong audience":        p.Sign(good.With(claims{"aud": "https://other.example.com"})),
		"no audience":           p.Sign(good.With(claims{"aud": nil})),
		"wrong issuer":          p.Sign(good.With(claims{"iss": p.Issuer + "/"})),
		"no issuer":             p.Sign(good.With(claims{"iss": nil})),
		"expired":               p.Sign(good.With(claims{"exp": time.Now().Add(-time.Minute).Unix()})),
		"without an end":        p.Sign(good.With(claims{"exp": nil})),
		"an end that is none":   p.Sign(good.With(claims{"exp": "tomorrow"})),
		"not yet valid":         p.Sign(good.With(claims{"nbf": time.Now().Add(time.Minute).Unix()})),
		"no subject":            p.Sign(good.With(claims{"sub": nil})),
		"an empty subject":      p.Sign(good.With(claims{"sub": ""})),
		"a subject in two":      p.Sign(good.With(claims{"sub": "alice bob"})),
		"a subject of 597":      p.Sign(good.With(claims{"sub": strings.Repeat("x", 597)})),
		"a number as subject":   p.Sign(good.With(claims{"sub": 7})),
		"anonymous":             p.Sign(good.With(claims{"sub": "anonymous"})),
		"groups of numbers":     p.Sign(good.With(claims{"groups": []any{"a", 7}})),
		"groups in an object":   p.Sign(good.With(claims{"groups": claims{"a": true}})),
		"alg none":              encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"alg None":              encode([]byte(`{"alg":"None"}`)) + "." + parts[1] + ".",
		"alg none, signed":      encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + "." + parts[2],
		"HS256 with the PEM":    sign(publicPEM, "HS256", p.Key().KeyID, "JWT"),
		"HS256 with the DER":    sign(public, "HS256", p.Key().KeyID, "JWT"),
		"HS256 with the JWK":    sign(publicJWK, "HS256", p.Key().KeyID, "JWT"),
		"an algorithm not ours": sign(rsaKey, "PS256", p.Key().KeyID, "JWT"),
		"an algorithm not its":  sign(rsaKey, "RS384", p.Key().KeyID, "JWT"),
		"somebody else's key":   sign(other.Key().Key, "ES256", other.Key().KeyID, "JWT"),
		"unknown kid":           sign(rsaKey, "RS256", "key-99", "JWT"),
		"a logout token":        sign(rsaKey, "RS256", p.Key().KeyID, "logout+jwt"),
		"a type of null":        sign(rsaKey, "RS256", p.Key().KeyID, nil),
		"a type of 7":           sign(rsaKey, "RS256", p.Key().KeyID, 7),
		"a type of true":        sign(rsaKey, "RS256", p.Key().KeyID, true),
		"a list of types":       sign(rsaKey, "RS256", p.Key().KeyID, []string{"at+jwt"}),
		"a type in an object":   sign(rsaKey, "RS256", p.Key().KeyID, claims{"at+jwt": "at+jwt"}),
		"other claims":          parts[0] + "." + encode(forged) + "." + parts[2],
		"no signature":          parts[0] + "." + parts[1] + ".",
		"half a signature":      parts[0] + "." + parts[1] + "." + parts[2][:len(parts[2])/2],
		"not JSON":              "a.b.c",
		"empty parts":           "..",
		"too long":              p.Sign(good.With(claims{"x": strings.Repeat("x", 16<<10)})),
	} {
		t.Run(name, func(t *testing.T) { refused(t, a, token, identity.ErrBadCredential) })
	}
	accepted(t, a, p.Sign(good.With(claims{"sub": strings.Repeat("x", 595)})))
	all := jwtBlock(p)
	all.Algorithms = []string{"RS256", "RS384", "PS256"}
	accepted(t, issuers(all), sign(rsaKey, "RS256", p.Key().KeyID, ""))
	for _, algorithm := range []jose.SignatureAlgorithm{"RS384", "PS256"} { // the key says that it is for RS256
		refused(t, issuers(all), sign(rsaKey, algorithm, p.Key().KeyID, ""), identity.ErrBadCredential)
	}

	for name, more := range map[string]claims{
		"unverified e-mail":       {"email": "a@example.com"},
		"e-mail not verified":     {"email": "a@example.com", "email_verified": false},
		"e-mail verified in text": {"email": "a@example.com", "email_verified": "true"},
		"no e-mail":               {"email_verified": true},
	} {
		t.Run(name, func(t *testing.T) { refused(t, byEmail, p.Sign(good.With(more)), identity.ErrBadCredential) })
	}
}

// An operator can tell from the log what to correct, in the configuration or at the issuer.
func TestJWT_RefusalsNameBothValues(t *testing.T) {
	p, other := identitytest.Serve(t), identitytest.Serve(t)
	block := jwtBlock(p)
	block.Scopes = []string{"prompts.read"}
	a, good := issuers(block), p.Claims("alice")
	for want, token := range map[string]string{
		`no jwt block has the issuer of the token, "` + other.Issuer + `"`:                                             other.Sign(other.Claims("alice")),
		`its audience (aud) is ["https://prompts.example.com"], and the block accepts ["` + identitytest.Audience:      p.Sign(good.With(claims{"aud": "https://prompts.example.com"})),
		`it has expired (exp), at 2001-09-09T01:46:40Z`:                                                                p.Sign(good.With(claims{"exp": 1_000_000_000})),
		`the token lacks one of the required scopes: prompts.read`:                                                     p.Sign(good),
		`its audience (aud) is ["` + strings.Repeat("x", 200) + `" "b" "c" "d" "e"], and the block accepts ["https://`: p.Sign(good.With(claims{"aud": []string{strings.Repeat("x", 900), "b", "c", "d", "e", "f"}})),
	} {
		if _, err := from(t, a, token); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), token) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestJWT_ReportsMissingScopes(t *testing.T) {
	p := identitytest.Serve(t)
	block := jwtBlock(p)
	block.Scopes, block.RequestScopes = []string{"read", "list"}, []string{"full/read", "full/list"}
	a := issuers(block)
	for _, more := range []claims{nil, {"scope": ""}, {"scope": "read"}, {"scope": "readlist"}, {"scp": []any{"read", 7}}, {"scope": "", "scp": "read list"}} {
		_, err := from(t, a, p.Sign(p.Claims("alice").With(more)))
		scope, ok := errors.AsType[*identity.ScopeError](err)
		if !ok || !cmp.Equal(scope.Required, block.Scopes) || !cmp.Equal(scope.Request, block.RequestScopes) || errors.Is(err, identity.ErrBadCredential) {
			t.Errorf("scopes %v: %v, want a ScopeError with %v", more, err, block.Scopes)
		}
	}
}

func TestJWT_SelectsTheIssuerByIss(t *testing.T) {
	corp, partner := identitytest.Serve(t), identitytest.Serve(t)
	blocks := []config.JWT{jwtBlock(corp), jwtBlock(corp), jwtBlock(partner)}
	blocks[0].As, blocks[0].Audience = "old", "https://old.example.com"
	blocks[1].As, blocks[2].As, blocks[2].Algorithms = "corp", "partner", []string{"RS256", "ES256"}
	a := issuers(blocks...)
	one, two := accepted(t, a, corp.Token("alice")), accepted(t, a, partner.Token("alice"))
	if one.Subject != "user:corp/alice" || two.Subject != "user:partner/alice" || one.Key() == two.Key() {
		t.Errorf("%q and %q, with the keys %q and %q", one.Subject, two.Subject, one.Key(), two.Key())
	}
	old := accepted(t, a, corp.Sign(corp.Claims("alice").With(claims{"aud": "https://old.example.com"})))
	upstreamtest.Equal(t, "user:old/alice", old.Subject, "subject")
	refused(t, a, partner.Sign(corp.Claims("alice")), identity.ErrBadCredential) // signed by another issuer than it names
	if got := a.Issuers(); !cmp.Equal(got, []string{corp.Issuer, partner.Issuer}) {
		t.Errorf("Issuers() = %v", got)
	}
	for source, want := range map[string]string{one.Source: corp.Issuer, two.Source: partner.Issuer, "certificate": "certificate"} {
		upstreamtest.Equal(t, want, a.Issuer(source), "Issuer(%q)", source)
	}

	// An issuer that is down does not affect the tokens of another, and its own are neither good
	// nor bad.
	corp.Rotate()
	corp.Answer(http.StatusBadGateway)
	deaf := jwtBlock(partner)
	deaf.As, deaf.Algorithms = "deaf", []string{"EdDSA"}
	fresh := issuers(append(blocks, deaf)...)
	accepted(t, fresh, partner.Token("bob"))
	refused(t, fresh, corp.Token("bob"), identity.ErrUnavailable)
}

func TestJWT_SameSubjectOfTwoIssuersIsTwoCallers(t *testing.T) {
	one, two := identitytest.Serve(t), identitytest.Serve(t)
	a, b := accepted(t, issuers(jwtBlock(one)), one.Token("alice")), accepted(t, issuers(jwtBlock(two)), two.Token("alice"))
	if a.Subject != b.Subject || a.Key() == b.Key() {
		t.Errorf("subjects %q and %q, keys %q and %q: want the keys to differ", a.Subject, b.Subject, a.Key(), b.Key())
	}
}

// inMemory carries requests to a provider without a network, as synctest requires.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	if w.Code == http.StatusBadGateway {
		return nil, errors.New("connection refused")
	}
	return w.Result(), nil
}

// inBubble runs a test with a provider and its authenticator in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, log *bytes.Buffer)) {
	bubble.Test(t, func(t *testing.T) {
		p := identitytest.New(t, "https://idp.example.com")
		var log bytes.Buffer
		a := identity.New(&config.Config{Auth: &config.Auth{JWTs: []config.JWT{jwtBlock(p)}}}, slog.New(slog.NewTextHandler(&log, nil)))
		test(t, p, a.Through(inMemory{p}), &log)
	})
}

func TestKeyring_FetchesOnTheFirstJWT(t *testing.T) {
	inBubble(t, func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, _ *bytes.Buffer) {
		refused(t, a, "not-a-jwt", identity.ErrBadCredential)
		refused(t, a, p.Sign(p.Claims("alice").With(claims{"iss": "https://other.example.com"})), identity.ErrBadCredential)
		upstreamtest.Equal(t, 0, p.Fetches(), "fetches")
		for range 5 {
			accepted(t, a, p.Token("alice"))
		}
		upstreamtest.Equal(t, 1, p.Fetches(), "fetches")
	})
}

func TestKeyring_FollowsRotation(t *testing.T) {
	inBubble(t, func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, _ *bytes.Buffer) {
		old := p.Token("alice")
		accepted(t, a, old)
		time.Sleep(time.Minute)
		p.Rotate()
		accepted(t, a, old) // the rotation is not known yet
		accepted(t, a, p.Token("alice"))
		refused(t, a, old, identity.ErrBadCredential) // its key is gone, and with the key the cached result
		upstreamtest.Equal(t, 2, p.Fetches(), "fetches")
	})
}

func TestKeyring_KeysLastForFifteenMinutes(t *testing.T) {
	inBubble(t, func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, _ *bytes.Buffer) {
		old := p.Token("alice")
		accepted(t, a, old)
		fetches := func(want int) {
			t.Helper()
			accepted(t, a, old)
			accepted(t, a, p.Token("bob"))
			upstreamtest.Equal(t, want, p.Fetches(), "fetches")
		}
		time.Sleep(15 * time.Minute)
		fetches(1)
		time.Sleep(time.Nanosecond)
		fetches(2)
	})
}

// Where the key is known by its ID, a forged signature is no reason to look for newer keys; without
// an ID it may be one by a new key.
func TestKeyring_AsksAgainOnlyIfAKeyMayBeNew(t *testing.T) {
	inBubble(t, func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, _ *bytes.Buffer) {
		anonymous := func(p *identitytest.Provider) string {
			key := jose.SigningKey{Algorithm: jose.SignatureAlgorithm(p.Key().Algorithm), Key: p.Key().Key}
			return identitytest.Sign(t, key, "at+jwt", p.Claims("alice"))
		}
		forger := identitytest.New(t, p.Issuer) // its key has the same ID
		for range 3 {
			accepted(t, a, anonymous(p))
			refused(t, a, forger.Token("alice"), identity.ErrBadCredential)
			time.Sleep(time.Minute)
		}
		upstreamtest.Equal(t, 1, p.Fetches(), "fetches")
		p.Rotate()
		accepted(t, a, anonymous(p))
	})
}

func TestKeyring_InheritsTheKeysOfTheSameIssuerAndPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := identitytest.New(t, "https://idp.example.com")
		block := jwtBlock(p)
		block.JWKSURL = "https://idp.example.com/keys"
		before := issuers(block).Through(inMemory{p})
		accepted(t, before, p.Token("alice"))
		p.Answer(http.StatusBadGateway)
		after := func(issuer, keys string) *identity.Authenticator {
			changed := block
			changed.Issuer, changed.JWKSURL = issuer, keys
			a := issuers(changed).Through(inMemory{p})
			a.InheritKeys(before)
			return a
		}
		accepted(t, after(p.Issuer, block.JWKSURL), p.Token("bob"))
		refused(t, after(p.Issuer, "https://idp.example.com/others"), p.Token("bob"), identity.ErrUnavailable)
		const other = "https://other.example.com"
		token := p.Sign(p.Claims("bob").With(claims{"iss": other}))
		refused(t, after(other, block.JWKSURL), token, identity.ErrUnavailable)
	})
}

// The two ways to find an issuer's metadata differ where the issuer has a path.
func TestKeyring_FindsMetadata(t *testing.T) {
	for _, at := range []string{
		"/realm/.well-known/openid-configuration",
		"/.well-known/oauth-authorization-server/realm",
	} {
		p := identitytest.New(t, "https://idp.example.com/realm")
		mux := http.NewServeMux()
		mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/.well-known/openid-configuration"
			p.ServeHTTP(w, r)
		})
		mux.Handle("/realm/keys", http.StripPrefix("/realm", p))
		accepted(t, issuers(jwtBlock(p)).Through(inMemory{mux}), p.Token("alice"))
	}
}

func TestKeyring_UnknownKeysDoNotFloodTheProvider(t *testing.T) {
	inBubble(t, func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, _ *bytes.Buffer) {
		accepted(t, a, p.Token("alice"))
		stranger := identitytest.New(t, p.Issuer)
		stranger.Rotate()
		for range 100 { // 50 seconds
			refused(t, a, stranger.Token("mallory"), identity.ErrBadCredential)
			time.Sleep(500 * time.Millisecond)
		}
		if n := p.Fetches(); n > 6 {
			t.Errorf("%d fetches in 50 seconds, want at most six", n)
		}
		p.Rotate()
		p.Rotate()
		time.Sleep(10 * time.Second)
		accepted(t, a, p.Token("alice"))
	})
}

func TestKeyring_ProviderDownIsUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, log *bytes.Buffer) {
		p.Answer(http.StatusBadGateway)
		token := p.Token("alice")
		for range 100 {
			refused(t, a, token, identity.ErrUnavailable)
		}
		if n := strings.Count(log.String(), "identity provider's keys not fetched"); n != 1 || !strings.Contains(log.String(), "connection refused") {
			t.Errorf("%d lines in the log, want one with the reason:\n%s", n, log)
		}
		for _, status := range []int{http.StatusInternalServerError, http.StatusFound, http.StatusNotFound} {
			p.Answer(status)
			time.Sleep(time.Second)
			refused(t, a, token, identity.ErrUnavailable)
		}
		p.Answer(http.StatusOK)
		time.Sleep(time.Second)
		accepted(t, a, token)

		// It goes down again. Its keys stay in use, for known tokens and for new ones.
		p.Answer(http.StatusBadGateway)
		time.Sleep(20 * time.Minute)
		accepted(t, a, token)
		accepted(t, a, p.Token("bob"))
		p.Rotate()
		time.Sleep(10 * time.Second)
		refused(t, a, p.Token("alice"), identity.ErrUnavailable) // whether this is a key of the issuer is unknown

		next := issuers(jwtBlock(p))
		next.InheritKeys(a)
		accepted(t, next, token)
		refused(t, next, p.Token("alice"), identity.ErrUnavailable) // a reload does not change that
	})
}

func TestKeyring_ForgetsATokenWhenItExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, p *identitytest.Provider, a *identity.Authenticator, _ *bytes.Buffer) {
		token := p.Token("alice")
		for range 4 {
			accepted(t, a, token)
			time.Sleep(15 * time.Minute)
		}
		accepted(t, a, token) // within the leeway
		time.Sleep(31 * time.Second)
		refused(t, a, token, identity.ErrBadCredential)
	})
}

func TestKeyring_RefusesBadDocuments(t *testing.T) {
	p := identitytest.New(t, "https://idp.example.com")
	number := new(big.Int).SetBit(big.NewInt(1), 1023, 1)
	weak, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &rsa.PublicKey{N: number, E: 65537}, KeyID: "key-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := identitytest.New(t, "https://other.example.com")
	secret, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("secret"), KeyID: "key-1"}}})
	private, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.Key()}})
	says := func(metadata, keys string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/.well-known/") {
				_, _ = w.Write([]byte(metadata))
				return
			}
			_, _ = w.Write([]byte(keys))
		}
	}
	good := `{"issuer":"https://idp.example.com","jwks_uri":"https://idp.example.com/keys"}`
	key := p.Key()
	public, _ := json.Marshal(key.Public())
	saying := func(member string) string {
		return `{"keys":[` + strings.TrimSuffix(string(public), "}") + "," + member + `}]}`
	}
	accepted(t, issuers(jwtBlock(p)).Through(inMemory{says(good, saying(`"key_ops":["verify"]`))}), p.Token("alice"))
	for name, handler := range map[string]http.Handler{
		"for another issuer":  elsewhere,
		"no JSON":             says("<html>", ""),
		"plain http":          says(`{"issuer":"https://idp.example.com","jwks_uri":"http://idp.example.com/keys"}`, `{"keys":[]}`),
		"no jwks_uri":         says(`{"issuer":"https://idp.example.com"}`, `{"keys":[]}`),
		"no keys":             says(good, `{"keys":[]}`),
		"keys of no sort":     says(good, `[]`),
		"a symmetric key":     says(good, string(secret)),
		"a private key":       says(good, string(private)),
		"an endless document": says(good, strings.Repeat(" ", 2<<20)),
		"a weak key":          says(good, string(weak)),
		"a key for secrets":   says(good, strings.Replace(saying(`"x":1`), `"use":"sig"`, `"use":"enc"`, 1)),
		"a key that wraps":    says(good, saying(`"key_ops":["wrapKey","encrypt"]`)),
		"a key for nothing":   says(good, saying(`"key_ops":[]`)),
		"a key for nonsense":  says(good, saying(`"key_ops":"verify"`)),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, issuers(jwtBlock(p)).Through(inMemory{handler}), p.Token("alice"), identity.ErrUnavailable)
		})
	}
}

func TestKeyring_IgnoresUnknownKeys(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := json.Marshal(jose.JSONWebKey{Key: &key.PublicKey, KeyID: "good"})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upstreamtest.Equal(t, "/jwks.json", r.URL.Path, "the path of the request, which is that of jwks_url alone")
		_, _ = w.Write([]byte(`{"keys":[{"kty":"AKP","kid":"new"},{"kty":"RSA","kid":"broken"},7,` + string(good) + `]}`))
	})
	p := identitytest.New(t, "https://idp.example.com")
	block := jwtBlock(p)
	block.JWKSURL = "https://keys.example.com/jwks.json"
	token := identitytest.Sign(t, jose.SigningKey{Algorithm: "ES256", Key: jose.JSONWebKey{Key: key, KeyID: "good"}}, "", p.Claims("alice"))
	accepted(t, issuers(block).Through(inMemory{handler}), token)
}

// FuzzBearer checks that no string is accepted other than the token that was signed.
func FuzzBearer(f *testing.F) {
	p := identitytest.Serve(f)
	a, good := issuers(jwtBlock(p)), p.Token("alice")
	parts := strings.Split(good, ".")
	f.Add(good)
	f.Add("..")
	f.Add(parts[0] + "." + parts[1] + ".")
	f.Add(parts[1] + "." + parts[0] + "." + parts[2])
	f.Add("eyJhbGciOiJub25lIn0." + parts[1] + ".")
	f.Fuzz(func(t *testing.T, token string) {
		who, err := a.FromHeader(t.Context(), "Authorization", "Bearer "+token)
		// The last digit of a signature has bits to spare, so that there is more than one way to
		// write it.
		signed := strings.HasPrefix(strings.Trim(token, " \t"), parts[0]+"."+parts[1]+".")
		if err == nil && (!signed || who.Subject != "user:alice") || err != nil && (token == good || who.Subject != "") {
			t.Errorf("%q: %+v, %v", token, who, err)
		}
	})
}
