package identity_test

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func authenticator(anonymous bool) *identity.Authenticator {
	return identity.New(&config.Config{Auth: &config.Auth{
		Anonymous: anonymous,
		Tokens: []config.Token{
			{Subject: "ci", SHA256: sha256.Sum256([]byte("ci-token")), Groups: []string{"ci", "bots"}},
			{Subject: "alice@example.com", SHA256: sha256.Sum256([]byte("b64~+/._-=="))},
		},
	}}, slog.New(slog.DiscardHandler))
}

func withoutAuth() *identity.Authenticator {
	return identity.New(&config.Config{}, slog.New(slog.DiscardHandler))
}

func ci() policy.Principal {
	return policy.Principal{Subject: "user:ci", Groups: []string{"group:ci", "group:bots"}}
}

func alice() policy.Principal { return policy.Principal{Subject: "user:alice@example.com"} }

func anonymous() policy.Principal {
	return policy.Principal{Subject: "user:anonymous", Anonymous: true}
}

func everybody() policy.Principal {
	return policy.Principal{Subject: "user:anonymous", Anonymous: true, EveryTeam: true}
}

func TestFromHeader_AuthenticatesTheSender(t *testing.T) {
	strict, open, none := authenticator(false), authenticator(true), withoutAuth()
	is := func(a *identity.Authenticator, header string, want policy.Principal) {
		t.Helper()
		got, err := a.FromHeader(t.Context(), "Authorization", header)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("FromHeader(%q): %v (-want +got):\n%s", header, err, diff)
		}
	}
	refused := func(a *identity.Authenticator, header string, want error) {
		t.Helper()
		got, err := a.FromHeader(t.Context(), "Authorization", header)
		if !errors.Is(err, want) || !cmp.Equal(got, policy.Principal{}) || strings.Contains(strings.ToLower(err.Error()), "ci-tok") {
			t.Errorf("FromHeader(%q) = %+v, %v, want %v", header, got, err, want)
		}
	}

	for _, good := range []string{"Bearer ci-token", "bearer ci-token", "BEARER   ci-token", " \tBearer ci-token\t "} {
		is(strict, good, ci())
		is(open, good, ci())
		is(none, good, everybody())
	}
	is(strict, "Bearer b64~+/._-==", alice())

	for _, bad := range []string{
		"Bearer", "Bearer ", "Bearer unknown", "Bearer CI-TOKEN", "Bearer ci-token=", "Bearer ci-toke",
		"Bearer ci-token ci-token", "Bearer ci-token, Bearer ci-token", "Bearer ci-token,ci-token", "Bearer ci\ttoken",
		"Bearer\tci-token", "Bearerci-token", "ci-token", "Basic Y2k6Y2ktdG9rZW4=", "Basic ci-token", "Bearer user:ci",
		`Bearer "ci-token"`, "Bearer ci-token\n", "Bearer: ci-token", "Bearer " + strings.Repeat("x", 100_000),
	} {
		refused(strict, bad, identity.ErrBadCredential)
		refused(open, bad, identity.ErrBadCredential)
		is(none, bad, everybody())
	}

	for _, absent := range []string{"", " "} {
		refused(strict, absent, identity.ErrNoCredential)
		is(open, absent, anonymous())
		is(none, absent, everybody())
	}
}

func TestFromToken_AuthenticatesTheOwner(t *testing.T) {
	strict, open, none := authenticator(false), authenticator(true), withoutAuth()
	for _, test := range []struct {
		name  string
		a     *identity.Authenticator
		token string
		want  policy.Principal
		err   error
	}{
		{"with the end of its line", strict, "ci-token\n", ci(), nil},
		{"a header", strict, "Bearer ci-token", policy.Principal{}, identity.ErrBadCredential},
		{"unknown where none is needed", open, "unknown", policy.Principal{}, identity.ErrBadCredential},
		{"none", strict, "", policy.Principal{}, identity.ErrNoCredential},
		{"unknown without an auth block", none, "unknown", everybody(), nil},
	} {
		got, err := test.a.FromToken(t.Context(), test.token)
		if diff := cmp.Diff(test.want, got); !errors.Is(err, test.err) || diff != "" {
			t.Errorf("%s: FromToken(%q): %v, want %v (-want +got):\n%s", test.name, test.token, err, test.err, diff)
		}
	}
}

func TestFromCertificate_UsesTheMostSpecificName(t *testing.T) {
	until := time.Now().Add(time.Hour)
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.com", Path: "/ci"}
	named := func(name string) pkix.Name { return pkix.Name{CommonName: name} }
	tests := []struct {
		name string
		leaf x509.Certificate
		as   string
		want string
	}{
		{"a URI first", x509.Certificate{URIs: []*url.URL{spiffe}, EmailAddresses: []string{"ci@example.com"}, Subject: named("ci")}, "", "user:spiffe://example.com/ci"},
		{"then an e-mail address", x509.Certificate{EmailAddresses: []string{"ci@example.com"}, Subject: named("ci")}, "", "user:ci@example.com"},
		{"then the common name", x509.Certificate{Subject: named("ci")}, "", "user:ci"},
		{"with as", x509.Certificate{Subject: named("ci")}, "machine", "user:machine/ci"},
		{"nobody", x509.Certificate{}, "", ""},
		{"a name in two", x509.Certificate{Subject: named("Alice Example")}, "", ""},
		{"anonymous", x509.Certificate{Subject: named("anonymous")}, "", ""},
	}
	for _, test := range tests {
		a := identity.New(&config.Config{Auth: &config.Auth{ClientCertificates: &config.ClientCertificates{As: test.as}}}, slog.New(slog.DiscardHandler))
		test.leaf.NotAfter = until
		got, err := a.FromCertificate(&test.leaf)
		if test.want == "" {
			if !errors.Is(err, identity.ErrBadCredential) {
				t.Errorf("%s: %+v, %v, want a bad credential", test.name, got, err)
			}
			continue
		}
		want := policy.Principal{Subject: test.want, Source: "certificate", Expires: until}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
		test.leaf.NotAfter = time.Now().Add(-time.Second) // on a connection that goes on
		if got, err := a.FromCertificate(&test.leaf); !errors.Is(err, identity.ErrBadCredential) {
			t.Errorf("%s: after its end: %+v, %v", test.name, got, err)
		}
	}
}

func TestClientAddress_FollowsTrustedProxies(t *testing.T) {
	trusted := &config.Gateway{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, test := range []struct {
		from, forwarded, want string
		proxy                 bool
	}{
		{"192.0.2.1:1", "203.0.113.9", "192.0.2.1", false},
		{"10.0.0.1:1", "203.0.113.9", "203.0.113.9", true},
		{"10.0.0.1:1", "198.51.100.7, 203.0.113.9", "203.0.113.9", true},
		{"10.0.0.1:1", "203.0.113.9, 10.0.0.2", "203.0.113.9", true},
		{"10.0.0.1:1", "203.0.113.9, unknown", "10.0.0.1", true},
		{"10.0.0.1:1", "", "10.0.0.1", true},
		{"[::ffff:10.0.0.1]:1", "203.0.113.9", "203.0.113.9", true},
		{"[fe80::1%eth0]:1", "203.0.113.9", "fe80::1%eth0", false},
		{"@", "203.0.113.9", "@", false},
	} {
		r := &http.Request{RemoteAddr: test.from, Header: http.Header{"X-Forwarded-For": {test.forwarded}}}
		upstreamtest.Equal(t, test.want, identity.ClientAddress(r, trusted), "%s for %q", test.from, test.forwarded)
		upstreamtest.Equal(t, test.proxy, identity.FromProxy(r, trusted), "%s is a proxy", test.from)
	}
}

// A reload may make another header the credential: what came in the one before it counts for nothing.
func TestFromHeader_ReadsTheHeaderOfTheConfigurationOnly(t *testing.T) {
	p := identitytest.Serve(t)
	behindProxy := jwtBlock(p)
	behindProxy.Header = "X-Pomerium-Jwt-Assertion"
	bare := behindProxy
	bare.Issuer, bare.JWKSURL = "prompts.example.com", p.Issuer+"/keys"
	for _, test := range []struct {
		block       config.JWT
		name, value string
		want        error
	}{
		{behindProxy, "X-Pomerium-Jwt-Assertion", p.Token("ann"), nil},
		{bare, "X-Pomerium-Jwt-Assertion", p.Sign(p.Claims("ann").With(claims{"iss": bare.Issuer})), nil},
		{bare, "X-Pomerium-Jwt-Assertion", p.Token("ann"), identity.ErrBadCredential},
		{behindProxy, "Authorization", "Bearer " + p.Token("ann"), identity.ErrNoCredential},
		{behindProxy, "X-Other", p.Token("ann"), identity.ErrNoCredential},
		{jwtBlock(p), "X-Pomerium-Jwt-Assertion", p.Token("ann"), identity.ErrNoCredential},
		{jwtBlock(p), "Authorization", "Bearer " + p.Token("ann"), nil},
	} {
		if _, err := issuers(test.block).FromHeader(t.Context(), test.name, test.value); !errors.Is(err, test.want) {
			t.Errorf("with header %q, %s: %v, want %v", test.block.Header, test.name, err, test.want)
		}
	}
}
