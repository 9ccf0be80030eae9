package assertion

import (
	"crypto"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

const (
	// life is how long an assertion is valid, and reuse how long one is sent again: a server has at least the
	// difference to verify it.
	life  = time.Minute
	reuse = life / 2
	// maxCached bounds the assertions that are remembered, of all upstreams.
	maxCached = 10_000
	// MaxSize bounds an assertion, in bytes: servers refuse large headers.
	MaxSize = 4 << 10
)

// ErrTooLarge means that the claims about a caller do not fit into a header.
var ErrTooLarge = errors.New("the assertion about the caller is too large for a header")

// Signer makes the assertions of one configuration. Make it with [New]; it is safe for concurrent use. The zero
// value signs nothing.
type Signer struct {
	issuer string
	// trustsEmail is set if e-mail addresses count without a claim that they are verified.
	trustsEmail bool
	signer      jose.Signer
	keySet      []byte
	cached      *lru.Cache[cacheKey, signed]
	seeds       [2]maphash.Seed
}

// signed is an assertion, and until when it is sent.
type signed struct {
	text  string
	until time.Time
}

// New returns the signer of a validated configuration, the zero value without signing keys.
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
	s := &Signer{
		issuer: cfg.Gateway.PublicURL, trustsEmail: cfg.Auth.Header() != "",
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	s.cached, _ = lru.New[cacheKey, signed](maxCached) // an error is for a size below one
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

// KeySet returns the public keys as a JSON Web Key Set; nil without keys.
func (s *Signer) KeySet() []byte { return s.keySet }

// For returns the assertion about a caller for an upstream; empty where that has none, or the caller is anonymous or nil. The
// error is [ErrTooLarge], or that of a key that cannot sign.
func (s *Signer) For(u *config.Upstream, caller *policy.Principal) (string, error) {
	if s.signer == nil || u.Assertion == nil || caller == nil || caller.Anonymous {
		return "", nil
	}
	now := time.Now()
	key := s.keyOf(u, caller)
	if known, ok := s.cached.Get(key); ok && now.Before(known.until) {
		return known.text, nil
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

// cacheKey identifies the upstream, the caller and all that an assertion says of both. It has a fixed size, since claims
// may be large. It is a hash of 128 bits by two random seeds, which nobody learns: so nobody can look for two callers
// with one key. SHA-256 would cost a get one percent more of its CPU.
type cacheKey [2]uint64

func (s *Signer) keyOf(u *config.Upstream, caller *policy.Principal) cacheKey {
	var buffer [1 << 10]byte // large enough for most callers, which then cost no allocation
	text := buffer[:0]
	add := func(field string) { text = append(binary.AppendUvarint(text, uint64(len(field))), field...) }
	add(u.Name)
	add(caller.Source)
	add(caller.Subject)
	if u.Assertion.Email {
		add(caller.Claims)
	}
	if u.Assertion.Groups {
		for _, group := range caller.Groups {
			add(group)
		}
	}
	return cacheKey{maphash.Bytes(s.seeds[0], text), maphash.Bytes(s.seeds[1], text)}
}

// claims are those of an assertion.
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
	// Claims of another kind are none: an issuer that has not verified an address lets people choose any.
	if u.Assertion.Email && json.Unmarshal([]byte(caller.Claims), &own) == nil && (own.Verified || s.trustsEmail) {
		c.Email = own.Email
	}
	return c
}
