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

// DefaultAssertionHeader is the header in which a server gets assertions.
const DefaultAssertionHeader = "X-Promptweir-Assertion"

// Assertion is the assertion block of an upstream: its server learns who calls, by a JWT of the gateway's.
type Assertion struct {
	Header string
	// Audience is the aud claim, by which the server knows that an assertion is meant for it.
	Audience string
	// Email and Groups add these claims about the caller.
	Email, Groups bool
}

// Signers returns the keys of signing_keys; the first signs. It fails only if [Load] did not make g.
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

// parseAssertionKey reads a private key of the kinds whose signatures are small. Its error does not quote it.
func parseAssertionKey(text string) (crypto.Signer, error) {
	signer, _ := parseSigner(text)
	key, isECDSA := signer.(*ecdsa.PrivateKey)
	if _, isEd25519 := signer.(ed25519.PrivateKey); isEd25519 || isECDSA && key.Curve == elliptic.P256() {
		return signer, nil
	}
	return nil, errors.New("is not the PEM of an Ed25519 or P-256 key; make one with: openssl genpkey -algorithm ed25519")
}

func assertionSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"header", "claims"}, External: []string{"audience"}}
}

// assertions checks the assertion blocks of all teams together.
type assertions struct {
	// signs is true if the gateway has what it needs to sign, or may have it.
	signs bool
	// audiences has the first upstream with each.
	audiences map[string]*Upstream
}

// newAssertions reads what the gateway has to sign with. An absent block may be in a file that does not parse.
func newAssertions(r *hclread.Reader) *assertions {
	blocks := r.Blocks("gateway")
	return &assertions{
		signs:     len(blocks) == 0 && r.Broken() || len(blocks) > 0 && blocks[0].Has("signing_keys") && blocks[0].Has("public_url"),
		audiences: map[string]*Upstream{},
	}
}

// decodeAssertion decodes the assertion block of an upstream whose address and headers are known.
func decodeAssertion(b *hclread.Block, u *Upstream, r reach) *Assertion {
	a := &Assertion{Header: DefaultAssertionHeader, Audience: u.URL}
	if !r.assertions.signs {
		b.Error(b.Range(), "Nothing signs", "An assertion is signed by the gateway, under its public_url; set signing_keys and "+
			"public_url in the gateway block.")
	}
	hclread.Set(b, "header", &a.Header, parseHeaderName)
	for name := range u.Headers {
		if strings.EqualFold(name, a.Header) {
			b.Error(b.Range(), "Two values", "headers already has %s, and a server must not mistake a fixed value for an assertion; "+
				"remove it there.", a.Header)
		}
	}
	claims := hclread.List(b, "claims", hclread.OneOf("email", "groups"))
	a.Email, a.Groups = slices.Contains(claims, "email"), slices.Contains(claims, "groups")
	at := b.Range()
	if t, ok := b.Text("audience"); ok && !t.Unset {
		at = t.At
		err := checkAudience(t.Value)
		if err == nil && t.Value != u.URL {
			err = r.allowAudience(t)
		}
		if err != nil {
			b.Invalid("audience", t, err)
		}
		a.Audience = t.Value
	}
	first, taken := r.assertions.audiences[a.Audience]
	switch {
	case a.Audience == "":
	case !taken:
		r.assertions.audiences[a.Audience] = u
	case first.Team != u.Team:
		b.Error(at, "One audience for two teams", "Team %q has the same audience at %s, and the server of one could pass on its "+
			"assertions to the other's; give each server an audience of its own.", first.Team, first.Place)
	}
	return a
}
