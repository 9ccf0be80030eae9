// Package identity answers: who is calling?
//
// An [Authenticator] turns a credential into a principal. Promises:
//
//   - A credential that is not good is always an error, also where none would have done.
//   - Without an auth block nothing is looked at: everybody is anonymous and in every team.
//   - No error holds any part of a credential, and how long an answer takes says nothing about the
//     tokens that exist.
//   - An Authenticator never changes. It is safe for concurrent use, and nothing here blocks.
package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Why nobody could be told. Both are answered with 401 and the [Authenticator.Challenge].
var (
	// ErrNoCredential means that there was none, and that one is needed.
	ErrNoCredential = errors.New("no credential")
	// ErrBadCredential means that there was one, and that it is not good.
	ErrBadCredential = errors.New("bad credential")
)

// Authenticator knows the credentials of one configuration. Make it with [New].
type Authenticator struct {
	required bool
	// withoutCredential is who calls without a credential; nil where one is needed.
	withoutCredential *policy.Principal
	tokens            []token
}

// token is a static bearer token and whom it stands for.
type token struct {
	sha256    [sha256.Size]byte
	principal policy.Principal
}

// New returns the authenticator of a checked configuration.
func New(cfg *config.Config) *Authenticator {
	anonymous := policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	if cfg.Auth == nil {
		anonymous.EveryTeam = true
		return &Authenticator{withoutCredential: &anonymous}
	}
	a := &Authenticator{required: true}
	if cfg.Auth.Anonymous {
		a.withoutCredential = &anonymous
	}
	for _, t := range cfg.Auth.Tokens {
		who := policy.Principal{Subject: "user:" + t.Subject}
		for _, group := range t.Groups {
			who.Groups = append(who.Groups, "group:"+group)
		}
		a.tokens = append(a.tokens, token{t.SHA256, who})
	}
	return a
}

// Required reports whether there is an auth block. It may still let in callers without a credential.
func (a *Authenticator) Required() bool { return a.required }

// Challenge is the value of WWW-Authenticate that goes with 401.
func (a *Authenticator) Challenge() string { return "Bearer" }

// FromHeader says who sent a request with this value of its Authorization header, "" where it has none.
// The error is [ErrNoCredential] or [ErrBadCredential].
func (a *Authenticator) FromHeader(authorization string) (policy.Principal, error) {
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
	case credential == "" || strings.ContainsAny(credential, " \t"):
		return policy.Principal{}, fmt.Errorf("%w: Bearer is not followed by one token", ErrBadCredential)
	}
	return a.holder(credential)
}

// FromToken says whose a token is that came in the environment, "" where none did. White space around it, such
// as the end of the line in the file that it was read from, is not part of it. Errors are as in [Authenticator.FromHeader].
func (a *Authenticator) FromToken(token string) (policy.Principal, error) {
	token = strings.TrimSpace(token)
	if !a.required || token == "" {
		return a.anonymous()
	}
	return a.holder(token)
}

func (a *Authenticator) anonymous() (policy.Principal, error) {
	if a.withoutCredential == nil {
		return policy.Principal{}, ErrNoCredential
	}
	return *a.withoutCredential, nil
}

// holder compares the credential's hash with that of every token, found or not.
func (a *Authenticator) holder(credential string) (policy.Principal, error) {
	sum := sha256.Sum256([]byte(credential))
	found := -1
	for i := range a.tokens {
		equal := subtle.ConstantTimeCompare(sum[:], a.tokens[i].sha256[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	if found < 0 {
		return policy.Principal{}, fmt.Errorf("%w: unknown token", ErrBadCredential)
	}
	return a.tokens[found].principal, nil
}
