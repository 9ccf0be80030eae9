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

// maxJWT bounds a JWT, in bytes. Because of Base64, the claims have at most three quarters of this
// size.
const maxJWT = 16 << 10

// issuer verifies the tokens of one jwt block.
type issuer struct {
	cfg        config.JWT
	algorithms []jose.SignatureAlgorithm
	// audiences contains the block's audience. If that is the URL of the MCP endpoint, audiences also
	// contains the URL for HTTP+SSE: clients of that transport request tokens for that URL.
	audiences jwt.Audience
	// source is the [policy.Principal.Source] of the issuer's principals.
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
	// Use a hash: every session token contains the source, and an issuer's URL may be long.
	sum := sha256.Sum256([]byte(cfg.Issuer))
	i.source = hex.EncodeToString(sum[:12])
	return i
}

// fromJWT authenticates a caller by a JWT; sum is its SHA-256. The jwt blocks of the token's issuer
// verify it.
func (a *Authenticator) fromJWT(ctx context.Context, credential string, sum [sha256.Size]byte) (policy.Principal, error) {
	// Look for a verified token first: verifying a signature takes most of a request's time.
	for _, i := range a.issuers {
		if who, ok := i.keys.verified(ctx, sum); ok {
			return who, nil
		}
	}
	if len(credential) > maxJWT {
		return policy.Principal{}, fmt.Errorf("%w: the JWT is longer than %d bytes", ErrBadCredential, maxJWT)
	}
	refusal := fmt.Errorf("%w: there is no jwt block", ErrBadCredential)
	// Try all blocks: several may have the same issuer with different audiences.
	for n, i := range a.issuers {
		who, err := i.principal(ctx, credential, sum)
		if err == nil {
			return who, nil
		}
		// Prefer the error of a block with the token's issuer. Among such errors, prefer a missing scope
		// or an unavailable provider to a bad credential.
		if n == 0 || errors.Is(refusal, ErrBadCredential) && !errors.Is(err, errOtherIssuer) {
			refusal = err
		}
	}
	return policy.Principal{}, refusal
}

// errOtherIssuer means that the token's issuer is not the issuer of the jwt block.
var errOtherIssuer = errors.New("no jwt block has the issuer of the token")

// principal verifies a token and caches the result until the token expires.
func (i *issuer) principal(ctx context.Context, credential string, sum [sha256.Size]byte) (policy.Principal, error) {
	token, err := jwt.ParseSigned(credential, i.algorithms)
	if err != nil {
		return policy.Principal{}, i.refuse("the token is not a JWT with one of the block's signing algorithms")
	}
	// Read only the issuer before the signature is verified.
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

// refuse returns the error for a bad token. Its text may repeat aud and exp, which are not secret, but
// nothing else of the token.
func (i *issuer) refuse(why string) error {
	return fmt.Errorf("%w: jwt %q: %s", ErrBadCredential, i.cfg.Name, why)
}

// mayBeAccessToken reports whether a token's header has no typ, the typ JWT, or the typ of an access
// token (RFC 9068, section 2.1). Issuers sign logout tokens and other kinds with the same keys: they
// must not count as access tokens.
func mayBeAccessToken(credential string) bool {
	// Parse the header again: the library drops a typ that is null.
	encoded, _, _ := strings.Cut(credential, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	var header map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &header) != nil {
		return false
	}
	value, ok := header[jose.HeaderType]
	if !ok {
		return true
	}
	var kind *string // nil for null
	if json.Unmarshal(value, &kind) != nil || kind == nil {
		return false
	}
	name := strings.TrimPrefix(strings.ToLower(*kind), "application/")
	return name == "jwt" || strings.HasSuffix(name, "at+jwt")
}

// verify returns the claims of a token with a valid signature, and the key set that verified it. If no
// key verifies the token and its key may be new, verify fetches the keys again.
func (i *issuer) verify(ctx context.Context, token *jwt.JSONWebToken, header jose.Header) ([]byte, *keySet, error) {
	keys, err := i.keys.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	claims, tried := keys.verify(token, header)
	// The key may be new if none was eligible. Without a key ID, it may be new even if the eligible
	// keys failed.
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

// read checks verified claims and returns their principal.
func (i *issuer) read(signed []byte) (who policy.Principal, err error) {
	var registered jwt.Claims
	var claims map[string]any
	if json.Unmarshal(signed, &registered) != nil || json.Unmarshal(signed, &claims) != nil {
		return who, i.refuse("the claims are malformed")
	}
	// Require exp, which the library does not: a leaked token without it would be valid forever.
	if registered.Expiry == nil {
		return who, i.refuse("the claim exp is missing")
	}
	// Check the audience: otherwise any other server that accepts the issuer's tokens could use its
	// callers' tokens here.
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
	// Check scopes last: only clients with an otherwise valid token may learn the required scopes.
	if !i.granted(claims) {
		return policy.Principal{}, &ScopeError{i.cfg.Scopes, i.cfg.RequestScopes}
	}
	who.Groups, who.Source, who.Claims = groups(i.cfg.As, names), i.source, string(signed)
	who.Expires = registered.Expiry.Time().Add(i.cfg.Leeway)
	return who, nil
}

// subject returns the subject from the claim that identifies the caller. If the claim is an e-mail
// address, the issuer must have verified it: with some issuers, people can choose any address. A
// proxy's token needs no email_verified, because the proxy admits only people that it knows.
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

// groups returns the caller's groups from the claim, which may be a list of strings, one string, or
// absent.
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

// granted reports whether a token has all required scopes. They are in the claim scope (RFC 9068) or,
// with some providers, in scp.
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
