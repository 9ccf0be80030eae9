package identity_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
)

func TestJWT_RefusesTypesThatAreNotStrings(t *testing.T) {
	p := identitytest.Serve(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.Add(key, "RS256", false)
	payload, err := json.Marshal(p.Claims("alice"))
	if err != nil {
		t.Fatal(err)
	}
	a := issuers(jwtBlock(p))
	token := func(kind any) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithHeader(jose.HeaderType, kind))
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	accepted(t, a, token("at+jwt"))
	for _, kind := range []any{nil, 7, true, []string{"at+jwt"}, map[string]string{"at+jwt": "at+jwt"}} {
		refused(t, a, token(kind), identity.ErrBadCredential)
	}
}
