package config

import (
	"crypto/sha256"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLoad_DecodesEveryAttributeOfIdentity(t *testing.T) {
	path := filepath.Join("testdata", "valid", "identity.hcl")
	secrets := filepath.Join("testdata", "valid", "secrets", "payments")
	got := load(t, path)
	want := &ServerTLS{
		Certificate: secretFile(t, "client.crt"), Key: secretFile(t, "client.key"), ClientCAs: secretFile(t, "ca.crt"),
		CertFile: filepath.Join(secrets, "client.crt"), KeyFile: filepath.Join(secrets, "client.key"), as: "machine",
	}
	if diff := cmp.Diff(want, got.Gateway.TLS, comparer(), cmp.AllowUnexported(ServerTLS{})); diff != "" {
		t.Errorf("tls (-want +got):\n%s", diff)
	}
	var proxies []string
	for _, p := range got.Gateway.TrustedProxies {
		proxies = append(proxies, p.String())
	}
	if diff := cmp.Diff([]string{"10.0.0.0/8", "192.0.2.7/32", "192.0.2.8/32", "2001:db8::/32"}, proxies); diff != "" {
		t.Errorf("trusted_proxies (-want +got):\n%s", diff)
	}
	if got.Admin.TokenSHA256 != newKey(sha256.Sum256([]byte("admin"))) {
		t.Error("the admin token's hash is another")
	}
	at := func(line int) Place { return Place{path, line} }
	auth := &Auth{
		Tokens: []Token{
			{Subject: "ci", SHA256: sha256.Sum256([]byte("ci")), As: "token", Place: at(34)},
			{Subject: "cd", SHA256: sha256.Sum256([]byte("cd")), As: "token", Place: at(38)},
		},
		JWTs: []JWT{{
			Name: "corp", Issuer: "https://idp.example.com/tenant/", JWKSURL: "https://keys.example.com/jwks.json",
			Audience: "https://prompts.example.com/mcp", SubjectClaim: "email", GroupsClaim: "https://example.com/roles",
			Algorithms: []string{"RS256", "EdDSA"}, Leeway: time.Minute, Scopes: []string{"prompts:read", "prompts:list"},
			RequestScopes: []string{"prompts:read", "prompts:list"}, As: "corp", Place: at(42),
		}, {
			Name: "partner", Issuer: "http://localhost:9000", Audience: "localhost:7000",
			SubjectClaim: DefaultSubjectClaim, GroupsClaim: DefaultGroupsClaim, Algorithms: asymmetricAlgorithms(), Leeway: DefaultLeeway,
			Scopes: []string{"read"}, RequestScopes: []string{"https://prompts.example.com/mcp/read"},
			ClientID: "0a1b", CallbackPort: 33418, As: "partner", Place: at(53),
		}},
		ClientCertificates: &ClientCertificates{As: "machine"},
	}
	oauth := got.Upstreams()[0].OAuth
	if _, err := oauth.Signer(); err != nil || oauth.Issuer != "https://idp.example.com" || oauth.PrivateKey != secretFile(t, "client.key") {
		t.Errorf("oauth %+v: %v", oauth, err)
	}
	asserting := &Assertion{Header: "X-Caller", Audience: "docs", Email: true, Groups: true}
	if diff := cmp.Diff(asserting, got.Upstreams()[0].Assertion); diff != "" {
		t.Errorf("assertion (-want +got):\n%s", diff)
	}
	if signers, err := got.Gateway.Signers(); err != nil || len(signers) != 1 {
		t.Errorf("Signers() = %d keys, %v", len(signers), err)
	}
	if diff := cmp.Diff(auth, got.Auth, comparer()); diff != "" {
		t.Errorf("auth (-want +got):\n%s", diff)
	}
}

func TestAuth_FollowsFromClientCertificates(t *testing.T) {
	pem := func(name string) string { return secretFile(t, name).Reveal() }
	cfg := load(t, write(t, "ca.crt", pem("ca.crt"), "tls.crt", pem("client.crt"), "tls.key", pem("client.key"), "x.hcl", `gateway {
  listen = "0.0.0.0:8443"
  tls {
    cert_file      = "tls.crt"
    key_file       = "tls.key"
    client_ca_file = "ca.crt"
  }
}`))
	if cfg.Auth == nil || cfg.Auth.ClientCertificates == nil {
		t.Errorf("Auth = %v, want certificates", cfg.Auth)
	}
}

func TestTokenBlock_IsAcceptedByLoad(t *testing.T) {
	hash := sha256.Sum256([]byte("secret"))
	block, err := TokenBlock(Token{Subject: `a"b${c}`, SHA256: hash, Groups: []string{"ci", `q"q`}, As: "corp"})
	if err != nil {
		t.Fatal(err)
	}
	got := load(t, write(t, "x.hcl", block)).Auth.Tokens
	want := []Token{{Subject: `a"b${c}`, SHA256: hash, Groups: []string{"ci", `q"q`}, As: "corp"}}
	for i := range got {
		got[i].Place = Place{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from %s (-want +got):\n%s", block, diff)
	}
	for _, bad := range []Token{{Subject: "anonymous"}, {Subject: "a b"}, {Subject: ""}, {Subject: "a", Groups: []string{"group:x"}}, {Subject: "a", As: "x/y"}} {
		if block, err := TokenBlock(bad); err == nil || strings.Contains(block, "sha256") {
			t.Errorf("TokenBlock(%s) = %q, want an error", bad.Subject, block)
		}
	}
}

func TestParseSelector_ReadsWhatStringWrites(t *testing.T) {
	for _, s := range []string{"*", "user:alice@example.com", "user:corp/alice", "group:a:b", "team:search"} {
		if sel, err := ParseSelector(s); err != nil || sel.String() != s {
			t.Errorf("ParseSelector(%q) = %v, %v", s, sel, err)
		}
	}
	for _, s := range []string{"", "alice", "user:", "*:x", "role:x", "user:a b", "User:a", "user:\x00"} {
		if sel, err := ParseSelector(s); err == nil {
			t.Errorf("ParseSelector(%q) = %v, want an error", s, sel)
		}
	}
}
