package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
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

// maxJWT bounds a JWT, in bytes, and so the claims of a principal.
const maxJWT = 16 << 10

// issuer verifies the tokens of one jwt block.
type issuer struct {
	cfg        config.JWT
	algorithms []jose.SignatureAlgorithm
	// audiences contains the block's audience. If that is the endpoint's URL, it also contains the
	// URL for HTTP+SSE, since clients of that transport request tokens for it.
	audiences jwt.Audience
	// source is a short identifier of the issuer, see [policy.Principal].
	source string
	keys   *keyring
}

func newIssuer(cfg config.JWT, gateway *config.Gateway, logger *slog.Logger) *issuer {
	i := &issuer{cfg: cfg, keys: newKeyring(cfg, logger), audiences: jwt.Audience{cfg.Audience}}
	if endpoint := gateway.PublicEndpoint(); gateway.SSE && endpoint != nil && endpoint.String() == cfg.Audience {
		i.audiences = append(i.audiences, gateway.SSEBeside(endpoint).String())
	}
	for _, name := range cfg.Algorithms {
		i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(name))
	}
	// Use a hash, because an issuer's URL may be long and the source is part of every session
	// token.
	sum := sha256.Sum256([]byte(cfg.Issuer))
	i.source = hex.EncodeToString(sum[:12])
	return i
}

// fromJWT authenticates a caller by a JWT with this SHA-256. The token's iss, not yet verified,
// selects the issuer that verifies it.
func (a *Authenticator) fromJWT(
	ctx context.Context, credential string, sum [sha256.Size]byte,
) (policy.Principal, error) {
	// Verifying a signature takes most of a request's time, so verified tokens are cached by their
	// hash.
	for _, i := range a.issuers {
		if who, ok := i.keys.verified(ctx, sum); ok {
			return who, nil
		}
	}
	if len(credential) > maxJWT {
		return policy.Principal{}, fmt.Errorf("%w: the JWT is longer than %d bytes",
			ErrBadCredential, maxJWT)
	}
	refusal := fmt.Errorf("%w: there is no jwt block", ErrBadCredential)
	// Several blocks may have the same issuer with different audiences, so all of them are tried.
	for n, i := range a.issuers {
		who, err := i.principal(ctx, credential, sum)
		if err == nil {
			return who, nil
		}
		// A missing scope or an unavailable provider explains more than another block's refusal.
		if n == 0 || errors.Is(refusal, ErrBadCredential) && !errors.Is(err, errOtherIssuer) {
			refusal = err
		}
	}
	return policy.Principal{}, refusal
}

// errOtherIssuer means that the token is from an issuer without a jwt block.
var errOtherIssuer = errors.New("no jwt block has the issuer of the token")

// principal verifies a token and caches the result until the token expires.
func (i *issuer) principal(ctx context.Context, credential string, sum [sha256.Size]byte) (policy.Principal, error) {
	token, err := jwt.ParseSigned(credential, i.algorithms)
	if err != nil {
		return policy.Principal{}, i.refuse("the token is not a JWT with one of the block's signing algorithms")
	}
	// Before the signature is verified, only the claim that selects the issuer is read.
	var unverified struct {
		Issuer string `json:"iss"`
	}
	if err := token.UnsafeClaimsWithoutVerification(&unverified); err != nil ||
		unverified.Issuer != i.cfg.Issuer {
		return policy.Principal{}, fmt.Errorf("%w: %w, %.200q", ErrBadCredential, errOtherIssuer, unverified.Issuer)
	}
	header := token.Headers[0]
	if !mayBeAccessToken(credential) {
		return policy.Principal{}, i.refuse("the type (typ) is not that of an access token")
	}
	signed, keys, err := i.verify(ctx, token, header)
	if err != nil {
		return policy.Principal{}, err
	}
	who, err := i.read(signed)
	if err != nil {
		return policy.Principal{}, err
	}
	keys.tokens.Add(sum, who)
	return who, nil
}

// refuse returns the error of a bad token. Of the token, why may repeat only aud and exp, which
// explain most refusals and are not secret.
func (i *issuer) refuse(why string) error {
	return fmt.Errorf("%w: jwt %q: %s", ErrBadCredential, i.cfg.Name, why)
}

// mayBeAccessToken reports whether a token's header has no typ, an unspecific one, or the typ of an
// access token (RFC 9068, section 2.1). Logout tokens and proofs of possession are signed with the
// same keys and must not count as access tokens.
func mayBeAccessToken(credential string) bool {
	// Parse the header again, because the library drops members that are null.
	encoded, _, _ := strings.Cut(credential, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	var header map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &header) != nil {
		return false
	}
	stated, ok := header[jose.HeaderType]
	if !ok {
		return true
	}
	var kind *string // nil means null
	if json.Unmarshal(stated, &kind) != nil || kind == nil {
		return false
	}
	name := strings.TrimPrefix(strings.ToLower(*kind), "application/")
	return name == "jwt" || strings.HasSuffix(name, "at+jwt")
}

// verify returns the claims of a token with a valid signature, and the keys that verified it. If
// the token's key is unknown, it fetches the keys again, since the key may be new.
func (i *issuer) verify(ctx context.Context, token *jwt.JSONWebToken, header jose.Header) ([]byte, *keySet, error) {
	keys, err := i.keys.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	claims, tried := keys.verify(token, header)
	// Without a key ID, the signature may be forged or made with a new key.
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
		return nil, nil, i.refuse("the signature is not valid")
	}
	return nil, nil, i.refuse("none of the issuer's keys can have signed the token")
}

// read turns verified claims into a principal.
func (i *issuer) read(signed []byte) (who policy.Principal, err error) {
	var registered jwt.Claims
	var claims map[string]any
	if json.Unmarshal(signed, &registered) != nil || json.Unmarshal(signed, &claims) != nil {
		return who, i.refuse("the claims are malformed")
	}
	// The library accepts a token without exp. The gateway does not, because a leaked token would
	// be valid forever.
	if registered.Expiry == nil {
		return who, i.refuse("the claim exp is missing")
	}
	// An issuer signs for many audiences. Without this check each of them could use its callers'
	// tokens here.
	expected := jwt.Expected{Issuer: i.cfg.Issuer, AnyAudience: i.audiences, Time: time.Now()}
	switch err := registered.ValidateWithLeeway(expected, i.cfg.Leeway); {
	case errors.Is(err, jwt.ErrInvalidAudience):
		return who, i.refuse(fmt.Sprintf("its audience (aud) is %.200q, and the block accepts %q", registered.Audience[:min(len(registered.Audience), 5)], i.audiences))
	case errors.Is(err, jwt.ErrExpired):
		return who, i.refuse("it has expired (exp), at " + registered.Expiry.Time().UTC().Format(time.RFC3339))
	case err != nil:
		return who, i.refuse(strings.TrimPrefix(err.Error(), "go-jose/go-jose/jwt: "))
	}
	if who.Subject, err = i.subject(claims); err != nil {
		return policy.Principal{}, err
	}
	names, err := i.groups(claims)
	if err != nil {
		return policy.Principal{}, err
	}
	// Scopes come last, so that only clients with an otherwise valid token learn the required
	// scopes.
	if !i.granted(claims) {
		return policy.Principal{}, &ScopeError{i.cfg.Scopes, i.cfg.RequestScopes}
	}
	who.Groups, who.Source, who.Claims = groups(i.cfg.As, names), i.source, string(signed)
	who.Expires = registered.Expiry.Time().Add(i.cfg.Leeway)
	return who, nil
}

// subject returns the claim that identifies the caller. An e-mail address counts only if the issuer
// has verified it: where people register themselves, anyone can claim any address. A proxy in front
// of the gateway admits only known people, and sends no such claim.
func (i *issuer) subject(claims map[string]any) (string, error) {
	name, ok := claims[i.cfg.SubjectClaim].(string)
	if !ok {
		return "", i.refuse("the claim " + i.cfg.SubjectClaim + " is missing or not a string")
	}
	if i.cfg.Header == "" && strings.HasSuffix(strings.ToLower(i.cfg.SubjectClaim), "mail") &&
		claims["email_verified"] != true {
		return "", i.refuse("the issuer has not verified the e-mail address")
	}
	return subject(i.cfg.As, name)
}

// groups returns the caller's groups: a list of strings, one string, or none.
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
				return nil, i.refuse("the claim " + i.cfg.GroupsClaim +
					" has an element that is not a string")
			}
			names[n] = name
		}
		return names, nil
	}
	return nil, i.refuse("the claim " + i.cfg.GroupsClaim +
		" is neither a string nor a list of strings")
}

// granted reports whether a token has all required scopes, in "scope" (RFC 9068) or otherwise in
// "scp".
func (i *issuer) granted(claims map[string]any) bool {
	claim := claims["scope"]
	if claim == nil {
		claim = claims["scp"] // the name with some providers
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
	// Elements that are not strings are ignored: they grant nothing.
	return !slices.ContainsFunc(i.cfg.Scopes, func(scope string) bool { return !slices.Contains(has, scope) })
}
