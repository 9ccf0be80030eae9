package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"errors"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// DefaultAssertionHeader is the request header that carries assertions to a server.
const DefaultAssertionHeader = "X-Promptweir-Assertion"

// Assertion is the assertion block of an upstream. A JWT that the gateway signs identifies the
// caller to the server.
type Assertion struct {
	Header        string
	Audience      string
	Email, Groups bool // whether to add the claims of these names
}

// Signers returns the keys of signing_keys. The gateway signs with the first key. Signers fails only if
// [Load] did not make g.
func (g *Gateway) Signers() ([]crypto.Signer, error) {
	var signers []crypto.Signer
	for _, key := range g.SigningKeys {
		signer, err := parseAssertionKey(key.Reveal())
		if err != nil {
			return nil, err
		}
		signers = append(signers, signer)
	}
	return signers, nil
}

// parseAssertionKey accepts only Ed25519 and P-256 keys, whose signatures are short. Its error does not quote the
// key.
func parseAssertionKey(text string) (crypto.Signer, error) {
	signer, _ := parseSigner(text)
	key, isECDSA := signer.(*ecdsa.PrivateKey)
	if _, isEd25519 := signer.(ed25519.PrivateKey); isEd25519 || isECDSA && key.Curve == elliptic.P256() {
		return signer, nil
	}
	return nil, errors.New("is not the PEM of an Ed25519 or P-256 key; make one with: openssl genpkey -algorithm ed25519")
}

// table returns the attributes of an assertion block. Decoding audience checks it against the upstream's URL and
// the team's grants.
func (a *Assertion) table(url string, r reach) []hclread.Attribute {
	audience := hclread.Custom("string", nil, func(b *hclread.Block) { a.decodeAudience(b, url, r) })
	claims := hclread.Custom("list", nil, func(b *hclread.Block) {
		claims := hclread.List(b, "claims", hclread.OneOf("email", "groups"))
		a.Email, a.Groups = slices.Contains(claims, "email"), slices.Contains(claims, "groups")
	})
	return []hclread.Attribute{
		hclread.Plain("header", hclread.String(&a.Header, parseHeaderName), "The header that carries it."),
		hclread.FromEnvironment("audience", audience,
			"The `aud` claim. No two teams may have the same. Where `allow` blocks exist, another value than the URL needs `audiences`.").Or("the URL"),
		hclread.Plain("claims", claims, "Further claims: `\"email\"`, if the issuer has verified it, and `\"groups\"`."),
	}
}

func newAssertion() *Assertion { return &Assertion{Header: DefaultAssertionHeader} }

// assertions holds the facts that all assertion blocks share.
type assertions struct {
	// signs is true if the gateway has keys and a public_url, or may have them in a file that does not parse.
	signs bool
	// audiences maps each audience to the first upstream that uses it.
	audiences map[string]*Upstream
}

// decodeAssertion decodes an assertion block. Call it after the URL and the Headers of u are set.
func decodeAssertion(b *hclread.Block, u *Upstream, r reach) *Assertion {
	a := newAssertion()
	a.Audience = u.URL
	if !r.assertions.signs {
		b.Error(b.Range(), "Nothing signs",
			"An assertion is signed by the gateway, under its public_url; set signing_keys and public_url in the gateway block.")
	}
	b.Decode(a.table(u.URL, r))
	for name := range u.Headers {
		if strings.EqualFold(name, a.Header) {
			b.Error(b.Range(), "Two values",
				"headers already has %s, and a server must not mistake a fixed value for an assertion; remove it there.", a.Header)
		}
	}
	first, isUsed := r.assertions.audiences[a.Audience]
	switch {
	case a.Audience == "":
	case !isUsed:
		r.assertions.audiences[a.Audience] = u
	case first.Team != u.Team:
		b.Error(b.ValueRange("audience"), "One audience for two teams", "Team %q has the same audience at %s, and the server of one could pass on its "+
			"assertions to the other's; give each server an audience of its own.", first.Team, first.Place)
	}
	return a
}

// decodeAudience decodes audience. Any other value than the upstream's URL needs a grant.
func (a *Assertion) decodeAudience(b *hclread.Block, url string, r reach) {
	t, ok := b.Text("audience")
	if !ok || t.Unset {
		return
	}
	err := checkAudience(t.Value)
	if err == nil && t.Value != url {
		err = r.allow("audience", "audiences", t)
	}
	if err != nil {
		b.Invalid("audience", t, err)
	}
	a.Audience = t.Value
}
