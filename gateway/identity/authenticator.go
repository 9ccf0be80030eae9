package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Authenticator authenticates callers by one configuration. Make it with [New].
type Authenticator struct {
	// required is set if there is an auth block.
	required bool
	// noCredential is the principal of callers without a credential; nil if one is required.
	noCredential *policy.Principal
	tokens       []token
	issuers      []*issuer
	// certificates is nil if client certificates are not accepted.
	certificates *config.ClientCertificates
}

// token is a token block: the hash of a bearer token, and whose it is.
type token struct {
	sha256    [sha256.Size]byte
	principal policy.Principal
}

// New returns the authenticator of a validated configuration. It logs what goes wrong with issuers.
func New(cfg *config.Config, logger *slog.Logger) *Authenticator {
	anonymous := policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	if cfg.Auth == nil {
		anonymous.EveryTeam = true
		return &Authenticator{noCredential: &anonymous}
	}
	a := &Authenticator{required: true, certificates: cfg.Auth.ClientCertificates}
	if cfg.Auth.Anonymous {
		a.noCredential = &anonymous
	}
	for _, t := range cfg.Auth.Tokens {
		who := policy.Principal{
			Subject: "user:" + prefixed(t.As, t.Subject),
			Groups:  groups(t.As, t.Groups),
		}
		a.tokens = append(a.tokens, token{t.SHA256, who})
	}
	for _, j := range cfg.Auth.JWTs {
		a.issuers = append(a.issuers, newIssuer(j, logger))
	}
	return a
}

// InheritKeys copies what a predecessor knows of the keys of the same issuers, so that a reload
// works while a provider is down. Call it before the first use.
func (a *Authenticator) InheritKeys(predecessor *Authenticator) {
	for _, i := range a.issuers {
		for _, old := range predecessor.issuers {
			// Not by the block's name: it may name another issuer now, whose tokens these keys must
			// not verify.
			if old.cfg.Issuer == i.cfg.Issuer && old.cfg.JWKSURL == i.cfg.JWKSURL {
				i.keys.inherit(old.keys)
			}
		}
	}
}

// Required reports whether there is an auth block. Even then, callers without a credential may be
// allowed.
func (a *Authenticator) Required() bool { return a.required }

// Issuers returns the issuer of each jwt block, each once.
func (a *Authenticator) Issuers() []string {
	var all []string
	for _, i := range a.issuers {
		if !slices.Contains(all, i.cfg.Issuer) {
			all = append(all, i.cfg.Issuer)
		}
	}
	return all
}

// Scopes returns the scopes that any jwt block requires, each once.
func (a *Authenticator) Scopes() []string {
	var all []string
	for _, i := range a.issuers {
		for _, scope := range i.cfg.Scopes {
			if !slices.Contains(all, scope) {
				all = append(all, scope)
			}
		}
	}
	return all
}

// Challenge returns the value of the WWW-Authenticate header for an error (RFC 6750, section 3). If
// there are issuers it names the URL of the metadata that tells a client about them (RFC 9728,
// section 5.1).
func (a *Authenticator) Challenge(err error, metadata string) string {
	if len(a.issuers) == 0 {
		return "Bearer"
	}
	scopes, code := a.Scopes(), "" // without a credential, RFC 6750 wants no error code
	switch scope, ok := errors.AsType[*ScopeError](err); {
	case ok:
		scopes, code = scope.Required, "insufficient_scope"
	case errors.Is(err, ErrBadCredential):
		code = "invalid_token"
	}
	challenge := `Bearer resource_metadata="` + metadata + `"`
	if len(scopes) > 0 {
		challenge += `, scope="` + strings.Join(scopes, " ") + `"`
	}
	if code != "" {
		challenge += `, error="` + code + `"`
	}
	return challenge
}

// FromHeader authenticates the sender of a request by the value of its Authorization header, "" if
// there is none. The error is [ErrNoCredential], [ErrBadCredential], [ErrUnavailable] or a
// [*ScopeError].
func (a *Authenticator) FromHeader(ctx context.Context, authorization string) (policy.Principal, error) {
	authorization = strings.Trim(authorization, " \t")
	if !a.required || authorization == "" {
		return a.anonymous()
	}
	// RFC 6750: "Bearer" 1*SP b64token, with the scheme in any case (RFC 9110).
	scheme, credential, _ := strings.Cut(authorization, " ")
	credential = strings.TrimLeft(credential, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return policy.Principal{}, fmt.Errorf("%w: the authentication scheme is not Bearer",
			ErrBadCredential)
	case credential == "" || strings.Contains(credential, " ") ||
		strings.Contains(credential, "\t"):
		return policy.Principal{}, fmt.Errorf("%w: Bearer is not followed by exactly one token",
			ErrBadCredential)
	}
	return a.fromBearer(ctx, credential)
}

// FromToken authenticates a caller by a bare token, such as one from the environment, "" if there
// is none. White space around it is ignored: a token that was read from a file ends with a line
// break. Errors are those of [Authenticator.FromHeader].
func (a *Authenticator) FromToken(ctx context.Context, token string) (policy.Principal, error) {
	token = strings.TrimSpace(token)
	if !a.required || token == "" {
		return a.anonymous()
	}
	return a.fromBearer(ctx, token)
}

// anonymous returns the principal of callers without a credential, if they are allowed.
func (a *Authenticator) anonymous() (policy.Principal, error) {
	if a.noCredential == nil {
		return policy.Principal{}, ErrNoCredential
	}
	return *a.noCredential, nil
}

// fromBearer looks the credential up among the token blocks and, if it looks like a JWT, gives it
// to the issuers.
func (a *Authenticator) fromBearer(ctx context.Context, credential string) (policy.Principal, error) {
	var buffer [1 << 10]byte // large enough for most tokens, which then cost no allocation
	sum := sha256.Sum256(append(buffer[:0], credential...))
	// Every token is compared, even after a match, so that the time taken does not depend on which
	// one matches.
	found := -1
	for i := range a.tokens {
		equal := subtle.ConstantTimeCompare(sum[:], a.tokens[i].sha256[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	switch {
	case found >= 0:
		return a.tokens[found].principal, nil
	// Three parts make a JWT. Anything else is refused without troubling an issuer.
	case len(a.issuers) > 0 && strings.Count(credential, ".") == 2:
		return a.fromJWT(ctx, credential, sum)
	}
	return policy.Principal{}, fmt.Errorf("%w: unknown token", ErrBadCredential)
}

// Issuer returns who vouches for the principals of a source: an issuer's URL, else the source
// itself, see [policy.Principal].
func (a *Authenticator) Issuer(source string) string {
	for _, i := range a.issuers {
		if i.source == source {
			return i.cfg.Issuer
		}
	}
	return source
}
