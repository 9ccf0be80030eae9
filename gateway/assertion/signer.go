package assertion

import (
	"crypto"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

const (
	// life is the lifetime of an assertion. The gateway sends an assertion again only during reuse, so that a
	// server has at least half a minute to verify it.
	life  = time.Minute
	reuse = life / 2
	// maxCached bounds the total number of cached assertions.
	maxCached = 10_000
	// MaxSize bounds an assertion, in bytes: servers refuse large headers.
	MaxSize = 4 << 10
)

// ErrTooLarge means that the claims about a caller do not fit in a header.
var ErrTooLarge = errors.New("the assertion about the caller is too large for a header")

// Signer makes the assertions of one configuration. It is safe for concurrent use. The zero value makes no
// assertions.
type Signer struct {
	issuer string
	// trustsEmail is true if a proxy sends the callers' JWTs in a header: their e-mail addresses count
	// without an email_verified claim.
	trustsEmail bool
	signer      jose.Signer
	keySet      []byte
	cached      *lru.Cache[cacheKey, signed]
}

// signed is a cached assertion.
type signed struct {
	text  string
	until time.Time // the gateway may send it again until then
}

// New returns the signer of a validated configuration, or the zero value if there are no signing
// keys. The first key signs; the key set contains all keys.
func New(cfg *config.Config) (*Signer, error) {
	keys, err := cfg.Gateway.Signers()
	if err != nil || len(keys) == 0 {
		return &Signer{}, err
	}
	var set jose.JSONWebKeySet
	for _, key := range keys {
		public := jose.JSONWebKey{Key: key.Public(), Algorithm: string(algorithmOf(key)), Use: "sig"}
		id, err := public.Thumbprint(crypto.SHA256)
		if err != nil {
			return nil, err
		}
		public.KeyID = base64.RawURLEncoding.EncodeToString(id)
		set.Keys = append(set.Keys, public)
	}
	s := &Signer{issuer: cfg.Gateway.PublicURL, trustsEmail: cfg.Auth.Header() != ""}
	s.cached, _ = lru.New[cacheKey, signed](maxCached) // fails only for a size below one
	if s.keySet, err = json.Marshal(set); err != nil {
		return nil, err
	}
	s.signer, err = jose.NewSigner(jose.SigningKey{
		Algorithm: algorithmOf(keys[0]), Key: jose.JSONWebKey{Key: keys[0], KeyID: set.Keys[0].KeyID},
	}, (&jose.SignerOptions{}).WithType("JWT"))
	return s, err
}

func algorithmOf(key crypto.Signer) jose.SignatureAlgorithm {
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		return jose.ES256
	}
	return jose.EdDSA
}

// KeySet returns the public keys as a JSON Web Key Set, or nil if there are no keys.
func (s *Signer) KeySet() []byte { return s.keySet }

// For returns the assertion about a caller for an upstream. It is empty if the upstream has no
// assertion block, or if the caller is anonymous or nil. The error is [ErrTooLarge] or a failure to
// sign.
func (s *Signer) For(u *config.Upstream, caller *policy.Principal) (string, error) {
	if s.signer == nil || u.Assertion == nil || caller == nil || caller.Anonymous {
		return "", nil
	}
	now := time.Now()
	key := keyOf(u, caller)
	if cached, ok := s.cached.Get(key); ok && now.Before(cached.until) {
		return cached.text, nil
	}
	text, err := jwt.Signed(s.signer).Claims(s.claims(u, caller, now)).Serialize()
	switch {
	case err != nil:
		return "", fmt.Errorf("sign an assertion: %w", err)
	case len(text) > MaxSize:
		return "", ErrTooLarge
	}
	s.cached.Add(key, signed{text, now.Add(reuse)})
	return text, nil
}

// cacheKey contains everything on which an assertion depends, except the time.
type cacheKey struct{ upstream, caller, claims, groups string }

func keyOf(u *config.Upstream, caller *policy.Principal) cacheKey {
	key := cacheKey{upstream: u.Name, caller: caller.Key()}
	if u.Assertion.Email {
		key.claims = caller.Claims
	}
	if u.Assertion.Groups {
		key.groups = strings.Join(caller.Groups, "\x00")
	}
	return key
}

type claims struct {
	jwt.Claims

	Email  string   `json:"email,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

func (s *Signer) claims(u *config.Upstream, caller *policy.Principal, now time.Time) claims {
	c := claims{Claims: jwt.Claims{
		Issuer: s.issuer, Subject: strings.TrimPrefix(caller.Subject, "user:"), Audience: jwt.Audience{u.Assertion.Audience},
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(life)),
	}}
	if u.Assertion.Groups {
		for _, group := range caller.Groups {
			c.Groups = append(c.Groups, strings.TrimPrefix(group, "group:"))
		}
	}
	var own struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	// Leave out an unverified address: with some issuers, people can choose any address. If email is not a
	// string, or email_verified is not a boolean, decoding fails and the address is left out, too.
	if u.Assertion.Email && json.Unmarshal([]byte(caller.Claims), &own) == nil && (own.Verified || s.trustsEmail) {
		c.Email = own.Email
	}
	return c
}
