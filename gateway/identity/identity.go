// Package identity answers: who is calling?
//
// An [Authenticator] turns a credential into a principal. There are three kinds of source: the token blocks, which
// together are one; each jwt block, an issuer of access tokens; and the certificates of clients.
//
//	Authorization: Bearer …  ─▶ a token block's hash?  ─▶ its label and groups
//	                         └▶ a JWT? ─▶ its iss names the block ─▶ signature, aud, exp, nbf ─▶ claims, scopes
//	client certificate       ─▶ its first URI, else its first e-mail address, else its common name
//	nothing                  ─▶ anonymous, where that is let in
//
// A request with both a token and a certificate is the token's. With several sources, what a source says of a caller
// has the source's "as" in front: user:corp/alice, group:corp/payments.
//
// Promises:
//
//   - A credential that is not good is always an error, also where none would have done.
//   - An issuer that cannot be asked is not a no: [ErrUnavailable] is neither good nor bad. What was good goes on
//     being good meanwhile, until it expires.
//   - Without an auth block nothing is looked at: everybody is anonymous and in every team.
//   - No error holds any part of a credential, and how long an answer takes says nothing about the
//     tokens that exist.
//   - An Authenticator is safe for concurrent use. What changes in it is only what it knows of the keys of issuers:
//     nothing is fetched before the first JWT comes, and no goroutine outlives a call.
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

// Why nobody could be told. The first two are answered with 401 and the [Authenticator.Challenge], as a [*ScopeError] is
// with 403.
var (
	// ErrNoCredential means that there was none, and that one is needed.
	ErrNoCredential = errors.New("no credential")
	// ErrBadCredential means that there was one, and that it is not good.
	ErrBadCredential = errors.New("bad credential")
	// ErrUnavailable means that whoever issued the credential did not say whether it is good.
	ErrUnavailable = errors.New("identity provider not available")
)

// ScopeError means that a token is good but was not granted the scopes that are required.
type ScopeError struct{ Required []string }

func (e *ScopeError) Error() string {
	return "the token lacks one of the scopes " + strings.Join(e.Required, " ")
}

// maxSubject bounds a subject with all that is in front of it, in bytes: it travels in every session's token.
const maxSubject = 600

// Authenticator knows the credentials of one configuration. Make it with [New].
type Authenticator struct {
	required bool
	// withoutCredential is who calls without a credential; nil where one is needed.
	withoutCredential *policy.Principal
	tokens            []token
	issuers           []*issuer
	certificates      *config.Certificates
}

// token is a static bearer token and whom it stands for.
type token struct {
	sha256    [sha256.Size]byte
	principal policy.Principal
}

// New returns the authenticator of a checked configuration. What goes wrong with an issuer is logged.
func New(cfg *config.Config, logger *slog.Logger) *Authenticator {
	anonymous := policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	if cfg.Auth == nil {
		anonymous.EveryTeam = true
		return &Authenticator{withoutCredential: &anonymous}
	}
	a := &Authenticator{required: true, certificates: cfg.Auth.Certificates}
	if cfg.Auth.Anonymous {
		a.withoutCredential = &anonymous
	}
	for _, t := range cfg.Auth.Tokens {
		who := policy.Principal{Subject: "user:" + prefixed(t.As, t.Subject), Groups: groups(t.As, t.Groups)}
		a.tokens = append(a.tokens, token{t.SHA256, who})
	}
	for _, j := range cfg.Auth.JWTs {
		a.issuers = append(a.issuers, newIssuer(j, logger))
	}
	return a
}

// TakeOver begins with the keys that another authenticator knows of the same issuers, so that it need not ask for them:
// a provider may be down just then. Nothing else is taken over, for a token may mean something else now. It is to be called
// before the first use.
func (a *Authenticator) TakeOver(before *Authenticator) {
	for _, i := range a.issuers {
		for _, old := range before.issuers {
			if old.cfg.Issuer == i.cfg.Issuer && old.cfg.JWKSURL == i.cfg.JWKSURL {
				i.keys.takeOver(old.keys)
			}
		}
	}
}

// prefixed puts a source's name in front of one that the source gave.
func prefixed(as, name string) string {
	if as == "" {
		return name
	}
	return as + "/" + name
}

func groups(as string, names []string) []string {
	var groups []string
	for _, name := range names {
		groups = append(groups, "group:"+prefixed(as, name))
	}
	return groups
}

// subject makes a principal's subject of a name that came from outside.
func subject(as, name string) (string, error) {
	subject := "user:" + prefixed(as, name)
	_, err := config.ParseSelector(subject)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: the subject is empty or has white space in it", ErrBadCredential)
	case subject == policy.AnonymousSubject:
		return "", fmt.Errorf("%w: its subject is that of callers without one", ErrBadCredential)
	case len(subject) > maxSubject:
		return "", fmt.Errorf("%w: its subject has over %d bytes", ErrBadCredential, maxSubject)
	}
	return subject, nil
}

// Required reports whether there is an auth block. It may still let in callers without a credential.
func (a *Authenticator) Required() bool { return a.required }

// Issuers returns the issuers of tokens, each once; none where there is no jwt block.
func (a *Authenticator) Issuers() []string {
	var all []string
	for _, i := range a.issuers {
		if !slices.Contains(all, i.cfg.Issuer) {
			all = append(all, i.cfg.Issuer)
		}
	}
	return all
}

// Scopes returns the scopes that some issuer's tokens need, each once.
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

// Challenge is the value of WWW-Authenticate that goes with an error (RFC 6750, section 3). Where tokens can be got
// from an issuer it also says where that can be found out (RFC 9728, section 5.1): at metadata.
func (a *Authenticator) Challenge(err error, metadata string) string {
	if len(a.issuers) == 0 {
		return "Bearer"
	}
	scopes, code := a.Scopes(), ""
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

// FromHeader says who sent a request with this value of its Authorization header, "" where it has none.
// The error is [ErrNoCredential], [ErrBadCredential], [ErrUnavailable] or a [*ScopeError].
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
		return policy.Principal{}, fmt.Errorf("%w: the scheme is not Bearer", ErrBadCredential)
	case credential == "" || strings.Contains(credential, " ") || strings.Contains(credential, "\t"):
		return policy.Principal{}, fmt.Errorf("%w: Bearer is not followed by one token", ErrBadCredential)
	}
	return a.holder(ctx, credential)
}

// FromToken says whose a token is that came in the environment, "" where none did. White space around it, such
// as the end of the line in the file that it was read from, is not part of it. Errors are as in [Authenticator.FromHeader].
func (a *Authenticator) FromToken(ctx context.Context, token string) (policy.Principal, error) {
	token = strings.TrimSpace(token)
	if !a.required || token == "" {
		return a.anonymous()
	}
	return a.holder(ctx, token)
}

func (a *Authenticator) anonymous() (policy.Principal, error) {
	if a.withoutCredential == nil {
		return policy.Principal{}, ErrNoCredential
	}
	return *a.withoutCredential, nil
}

// holder compares the credential's hash with that of every token, found or not.
func (a *Authenticator) holder(ctx context.Context, credential string) (policy.Principal, error) {
	var room [1 << 10]byte // most fit, and cost no allocation
	sum := sha256.Sum256(append(room[:0], credential...))
	found := -1
	for i := range a.tokens {
		equal := subtle.ConstantTimeCompare(sum[:], a.tokens[i].sha256[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	switch {
	case found >= 0:
		return a.tokens[found].principal, nil
	case len(a.issuers) > 0 && strings.Count(credential, ".") == 2:
		return a.bearer(ctx, credential, sum)
	}
	return policy.Principal{}, fmt.Errorf("%w: unknown token", ErrBadCredential)
}
