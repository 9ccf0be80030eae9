package config

import (
	"crypto"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// OAuth is the oauth block of an upstream: client credentials for access tokens (RFC 6749, section 4.4).
type OAuth struct {
	TokenURL     string
	HostGrant    HostGrant // of the host in TokenURL
	ClientID     string
	ClientSecret Secret
	PrivateKey   Secret // PEM, or empty
	Issuer       string // empty means the TokenURL
	Scopes       []string
	Resource     string
}

// Signer returns the private key. It fails only if [Load] did not make o.
func (o *OAuth) Signer() (crypto.Signer, error) { return parseSigner(o.PrivateKey.Reveal()) }

func (o *OAuth) table(r reach) []hclread.Attribute {
	parseSecret := func(s string) (Secret, error) { return NewSecret(s), checkCredential(s) }
	tokenURL := hclread.Custom("string", nil, func(b *hclread.Block) { decodeTokenURL(b, o, r) })
	return []hclread.Attribute{
		hclread.FromEnvironment("token_url", tokenURL, "The token endpoint; `https`, or a host on loopback.").Or("required"),
		hclread.FromEnvironment("client_id", hclread.String(&o.ClientID, hclread.Checked(checkCredential)), "Identifies the gateway to the authorization server.").Or("required"),
		hclread.Secret("client_secret", hclread.String(&o.ClientSecret, parseSecret), "Unless `private_key_file` is set.").Or("required"),
		hclread.FromEnvironment("private_key_file", pemFile(&o.PrivateKey, "private_key_file", checkSigningKey),
			"The PEM file of a signing key (RFC 7523), instead of a secret."),
		hclread.FromEnvironment("issuer", hclread.String(&o.Issuer, ParseProvider), "The audience of the signed assertion, instead of `token_url`."),
		hclread.Plain("scopes", hclread.Strings(&o.Scopes, hclread.Checked(checkScope)), "The scopes to request."),
		hclread.FromEnvironment("resource", hclread.String(&o.Resource, parseResource),
			"The server that the tokens are for (RFC 8707); `\"\"` leaves it out.").Or("the URL"),
	}
}

// decodeOAuth decodes an oauth block. Call it after the URL and the Headers of u are set.
func decodeOAuth(b *hclread.Block, u *Upstream, r reach) *OAuth {
	checkOAuthAttributes(b)
	o := &OAuth{Resource: resourceOf(u)}
	b.Decode(o.table(r))
	// The connector sets Authorization to the access token, so headers must not set it.
	for name := range u.Headers {
		if strings.EqualFold(name, "Authorization") {
			b.Error(b.Range(), "Two credentials",
				"headers already has an %s, and a request can carry only one; remove it or the oauth block.", name)
		}
	}
	return o
}

func checkOAuthAttributes(b *hclread.Block) {
	for _, name := range []string{"token_url", "client_id", "client_secret"} {
		if name != "client_secret" || b.Lacks("private_key_file") {
			b.Require(name, "An oauth block needs token_url, client_id, and either client_secret or private_key_file; set %s.", name)
		}
	}
	if b.Has("client_secret") && b.Has("private_key_file") {
		b.Error(b.ValueRange("private_key_file"), "Two credentials",
			"A client authenticates with a secret or with a key; remove one of the two.")
	}
	if b.Has("issuer") && b.Lacks("private_key_file") {
		b.Error(b.ValueRange("issuer"), "issuer without private_key_file",
			"It is the audience of an assertion signed with private_key_file; set that, or remove issuer.")
	}
}

// decodeTokenURL decodes token_url. It must use https or a host on loopback, and the host needs a grant.
func decodeTokenURL(b *hclread.Block, o *OAuth, r reach) {
	t, ok := b.Text("token_url")
	if !ok || t.Unset {
		return
	}
	parsed, err := parseURL(t.Value)
	if err == nil && parsed.Scheme != "https" && !IsLoopback(hostOf(parsed)) {
		err = errors.New("would send the client's secret in plain text; write https://, or use a host on loopback")
	}
	if err == nil {
		err = r.checkHost(b, t, parsed)
	}
	if err != nil {
		b.Invalid("token_url", t, err)
		return
	}
	o.TokenURL, o.HostGrant = t.Value, r.hostGrant(hostOf(parsed))
}

// resourceOf returns the canonical URI of an upstream (MCP 2026-07-28, Authorization), or "" if it
// has no URL.
func resourceOf(u *Upstream) string {
	parsed, err := url.Parse(u.URL)
	if err != nil || u.URL == "" {
		return ""
	}
	// The specification advises against a slash at the end.
	return parsed.Scheme + "://" + strings.ToLower(parsed.Host) + strings.TrimSuffix(parsed.EscapedPath(), "/")
}

func parseResource(s string) (string, error) {
	if s == "" { // omits the resource parameter, which some authorization servers refuse
		return "", nil
	}
	_, err := parseURL(s)
	return s, err
}

// checkCredential accepts the characters of RFC 6749 for a client's identifier and secret.
func checkCredential(s string) error {
	switch {
	case s == "":
		return errors.New("is empty; write the value that the authorization server issued")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("has a line break or another forbidden character; use trimspace() around file()")
	}
	return nil
}

func checkSigningKey(content string) error {
	if err := checkKey(content); err != nil {
		return err
	}
	_, err := parseSigner(content)
	return err
}

// parseSigner reads a private key in PKCS #8, SEC 1 or PKCS #1. Its errors do not quote the key.
func parseSigner(content string) (crypto.Signer, error) {
	for _, b := range pemBlocks(content) {
		if key, err := x509.ParsePKCS8PrivateKey(b.Bytes); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
		}
		if key, err := x509.ParseECPrivateKey(b.Bytes); err == nil {
			return key, nil
		}
		if key, err := x509.ParsePKCS1PrivateKey(b.Bytes); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("contains no private key that can sign; make one with: openssl " +
		"genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256")
}
