package config

import (
	"crypto"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
)

// OAuth is the oauth block of an upstream: the credentials with which its access tokens are got (RFC 6749, section 4.4).
type OAuth struct {
	TokenURL     string
	ClientID     string
	ClientSecret Secret
	// PrivateKey is PEM of the key that signs for the client instead of a secret (RFC 7523), or empty.
	PrivateKey Secret
	// Issuer is whom the client's signature is for; empty means the TokenURL.
	Issuer string
	Scopes []string
	// Resource is what the tokens are for (RFC 8707); empty where the authorization server is not to be told.
	Resource string
}

// oauth reads the oauth block of an upstream, whose addresses are known.
func (f fields) oauth(u *Upstream) *OAuth {
	f.items(schema{attributes: []string{"token_url", "client_id", "client_secret", "private_key_file", "issuer", "scopes", "resource"}})
	for _, name := range []string{"token_url", "client_id", "client_secret"} {
		if f.lacks(name) && (name != "client_secret" || f.lacks("private_key_file")) {
			f.error(f.block.DefRange(), "Missing "+name, "A block %q needs token_url, client_id and client_secret, or private_key_file instead of the secret; set %s.", f.block.Type, name)
		}
	}
	if f.has("client_secret") && f.has("private_key_file") {
		f.error(f.at("private_key_file"), "Two credentials", "A client has a secret or a key that signs for it; remove one of the two.")
	}
	if f.has("issuer") && f.lacks("private_key_file") {
		f.error(f.at("issuer"), "issuer without private_key_file", "It is whom the client's signature is for, and there is none; remove it.")
	}
	o := &OAuth{Resource: resource(u)}
	f.tokenURL(o)
	field(f, "client_id", public, &o.ClientID, checked(checkCredential))
	field(f, "client_secret", secret, &o.ClientSecret, func(s string) (Secret, error) { return NewSecret(s), checkCredential(s) })
	o.PrivateKey, _ = f.pem("private_key_file", checkSigningKey)
	field(f, "issuer", public, &o.Issuer, parseProvider)
	o.Scopes = list(f, "scopes", shown, checked(checkScope))
	field(f, "resource", public, &o.Resource, parseResource)
	for name := range u.Headers {
		if strings.EqualFold(name, "Authorization") {
			f.error(f.block.DefRange(), "Two credentials", "headers has an %s already, and a request can carry one; remove it or the oauth block.", name)
		}
	}
	return o
}

// Signer returns the private key. It fails only on what [Load] did not make.
func (o *OAuth) Signer() (crypto.Signer, error) { return parseSigner(o.PrivateKey.Reveal()) }

// parseSigner reads a private key in one of the three forms that there are. Its errors say nothing of it.
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
	return nil, errors.New("holds no private key that signs; make one with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256")
}

func checkSigningKey(content string) error {
	if err := checkKey(content); err != nil {
		return err
	}
	_, err := parseSigner(content)
	return err
}

// tokenURL reads where the tokens come from, which the team must be allowed to reach like an upstream.
func (f fields) tokenURL(o *OAuth) {
	t, ok := f.string("token_url", public)
	if !ok || t.unset {
		return
	}
	parsed, err := parseURL(t.value)
	if err == nil && parsed.Scheme != "https" && !loopback(hostOf(parsed)) {
		err = errors.New("would carry the client's secret for everybody to read; write https://, or use a host on loopback")
	}
	if err == nil {
		f.checkReach(t.at, hostOf(parsed), portOf(parsed))
		err = f.scope.grants.allowHost(hostOf(parsed), t)
	}
	if err != nil {
		f.invalid("token_url", t, err)
		return
	}
	o.TokenURL = t.value
}

// resource is an upstream's address as the canonical URI of a server (2026-07-28, Authorization).
func resource(u *Upstream) string {
	if len(u.URLs) == 0 {
		return ""
	}
	parsed, err := url.Parse(u.URLs[0])
	if err != nil {
		return ""
	}
	return parsed.Scheme + "://" + strings.ToLower(parsed.Host) + strings.TrimSuffix(parsed.EscapedPath(), "/")
}

func parseResource(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	_, err := parseURL(s)
	return s, err
}

// checkCredential wants what RFC 6749 has a client's identifier and secret be made of.
func checkCredential(s string) error {
	switch {
	case s == "":
		return errors.New("is empty; write the one that the authorization server gave out")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("has a line break or another character that none has; use trimspace() around file()")
	}
	return nil
}

func checkScope(s string) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return errors.New(`is not a scope; write each as an element of its own, like ["prompts:read", "prompts:list"]`)
	}
	return nil
}
