package identity

import (
	"errors"
	"strings"
)

// The reasons why a caller is not authenticated. The first two call for 401 and the [Authenticator.Challenge], a
// [*ScopeError] for 403 and the Challenge.
var (
	// ErrNoCredential means that there is no credential, and that one is required.
	ErrNoCredential = errors.New("no credential")
	// ErrBadCredential means that there is a credential, and that it is not valid.
	ErrBadCredential = errors.New("bad credential")
	// ErrUnavailable means that the keys that would verify the credential could not be fetched from its issuer.
	ErrUnavailable = errors.New("identity provider not available")
)

// ScopeError means that a token is valid but lacks some of the required scopes.
type ScopeError struct{ Required []string }

func (e *ScopeError) Error() string {
	return "the token lacks one of the required scopes: " + strings.Join(e.Required, " ")
}
