package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// maxToken bounds a JWT, in bytes, and with that the claims of a principal.
const maxToken = 16 << 10

// issuer accepts the tokens of one jwt block.
type issuer struct {
	cfg        config.JWT
	algorithms []jose.SignatureAlgorithm
	// source is the issuer in few bytes, see policy.Principal.
	source string
	keys   *keyring
}

func newIssuer(cfg config.JWT, logger *slog.Logger) *issuer {
	i := &issuer{cfg: cfg, keys: newKeyring(cfg, logger)}
	for _, name := range cfg.Algorithms {
		i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(name))
	}
	sum := sha256.Sum256([]byte(cfg.Issuer))
	i.source = hex.EncodeToString(sum[:12])
	return i
}

// bearer says whose a JWT is. Its own word, still unverified, picks the issuer that it is held against.
func (a *Authenticator) bearer(ctx context.Context, credential string, sum [sha256.Size]byte) (policy.Principal, error) {
	for _, i := range a.issuers {
		if who, ok := i.keys.known(ctx, sum); ok {
			return who, nil
		}
	}
	if len(credential) > maxToken {
		return policy.Principal{}, fmt.Errorf("%w: a JWT of over %d bytes", ErrBadCredential, maxToken)
	}
	refusal := fmt.Errorf("%w: a JWT of an issuer that no jwt block names", ErrBadCredential)
	for _, i := range a.issuers {
		who, err := i.principal(ctx, credential, sum)
		if err == nil {
			return who, nil
		}
		if errors.Is(refusal, ErrBadCredential) && !errors.Is(err, errOtherIssuer) { // a no is the weakest answer
			refusal = err
		}
	}
	return policy.Principal{}, refusal
}

// errOtherIssuer means that a token says it is somebody else's.
var errOtherIssuer = errors.New("of another issuer")

// principal verifies a token and keeps what came of it until the token expires.
func (i *issuer) principal(ctx context.Context, credential string, sum [sha256.Size]byte) (policy.Principal, error) {
	token, err := jwt.ParseSigned(credential, i.algorithms)
	if err != nil {
		return policy.Principal{}, i.refuse("it is no JWT that is signed with one of the block's algorithms")
	}
	var unverified struct {
		Issuer string `json:"iss"`
	}
	if err := token.UnsafeClaimsWithoutVerification(&unverified); err != nil || unverified.Issuer != i.cfg.Issuer {
		return policy.Principal{}, errOtherIssuer
	}
	header := token.Headers[0]
	if kind, ok := header.ExtraHeaders[jose.HeaderType].(string); ok && !isAccessToken(kind) {
		return policy.Principal{}, i.refuse("its type is not that of an access token")
	}
	signed, keys, err := i.verify(ctx, token, header)
	if err != nil {
		return policy.Principal{}, err
	}
	who, expiry, err := i.read(signed)
	if err != nil {
		return policy.Principal{}, err
	}
	keys.remember(sum, who, expiry)
	return who, nil
}

func (i *issuer) refuse(why string) error {
	return fmt.Errorf("%w: jwt %q: %s", ErrBadCredential, i.cfg.Name, why)
}

// isAccessToken reports whether a typ header is that of a token to be shown to a resource server, or says nothing
// (RFC 9068, section 2.1): a logout token or a proof of possession is signed with the same keys.
func isAccessToken(kind string) bool {
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	return kind == "jwt" || strings.HasSuffix(kind, "at+jwt")
}

// verify returns the claims under a good signature, and the keys that they were verified with. A key that is not known
// makes the issuer be asked again.
func (i *issuer) verify(ctx context.Context, token *jwt.JSONWebToken, header jose.Header) ([]byte, *keySet, error) {
	keys, err := i.keys.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	claims, tried := keys.verify(token, header)
	if claims == nil && (!tried || header.KeyID == "") {
		if keys, err = i.keys.newer(ctx, keys); err != nil {
			return nil, nil, err
		}
		claims, tried = keys.verify(token, header)
	}
	switch {
	case claims != nil:
		return claims, keys, nil
	case tried:
		return nil, nil, i.refuse("its signature is not that of its key")
	}
	return nil, nil, i.refuse("the issuer has no such key")
}

// read makes a principal of claims.
func (i *issuer) read(signed []byte) (who policy.Principal, expiry time.Time, err error) {
	var registered jwt.Claims
	var claims map[string]any
	if json.Unmarshal(signed, &registered) != nil || json.Unmarshal(signed, &claims) != nil {
		return who, expiry, i.refuse("its claims are not what they should be")
	}
	if registered.Expiry == nil {
		return who, expiry, i.refuse("it does not expire")
	}
	expected := jwt.Expected{Issuer: i.cfg.Issuer, AnyAudience: jwt.Audience{i.cfg.Audience}, Time: time.Now()}
	if err := registered.ValidateWithLeeway(expected, i.cfg.Leeway); err != nil {
		return who, expiry, i.refuse(strings.TrimPrefix(err.Error(), "go-jose/go-jose/jwt: "))
	}
	if who.Subject, err = i.subject(claims); err != nil {
		return policy.Principal{}, expiry, err
	}
	names, err := i.groups(claims)
	if err != nil {
		return policy.Principal{}, expiry, err
	}
	if !i.granted(claims) {
		return policy.Principal{}, expiry, &ScopeError{i.cfg.Scopes}
	}
	expiry = registered.Expiry.Time()
	who.Groups, who.Source, who.Claims, who.Expires = groups(i.cfg.As, names), i.source, string(signed), expiry.Add(i.cfg.Leeway)
	return who, expiry, nil
}

// subject reads the claim that says who it is. An e-mail address is somebody's only once the issuer has seen that.
func (i *issuer) subject(claims map[string]any) (string, error) {
	name, ok := claims[i.cfg.SubjectClaim].(string)
	if !ok {
		return "", i.refuse("it has no claim " + i.cfg.SubjectClaim + " that is a string")
	}
	if strings.HasSuffix(strings.ToLower(i.cfg.SubjectClaim), "mail") && claims["email_verified"] != true {
		return "", i.refuse("the issuer has not verified its e-mail address")
	}
	return subject(i.cfg.As, name)
}

// groups reads a claim that is a list of strings or one string; nobody has to be in a group.
func (i *issuer) groups(claims map[string]any) ([]string, error) {
	switch claim := claims[i.cfg.GroupsClaim].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{claim}, nil
	case []any:
		names := make([]string, len(claim))
		for n, element := range claim {
			name, ok := element.(string)
			if !ok {
				return nil, i.refuse("its claim " + i.cfg.GroupsClaim + " has an element that is not a string")
			}
			names[n] = name
		}
		return names, nil
	}
	return nil, i.refuse("its claim " + i.cfg.GroupsClaim + " is neither a string nor a list")
}

// granted reports whether a token has all scopes, in "scope" (RFC 9068) or, where that is absent, in "scp".
func (i *issuer) granted(claims map[string]any) bool {
	claim := claims["scope"]
	if claim == nil {
		claim = claims["scp"]
	}
	var has []string
	switch claim := claim.(type) {
	case string:
		has = strings.Fields(claim)
	case []any:
		for _, element := range claim {
			if scope, ok := element.(string); ok {
				has = append(has, scope)
			}
		}
	}
	return !slices.ContainsFunc(i.cfg.Scopes, func(scope string) bool { return !slices.Contains(has, scope) })
}
