package seal

import "errors"

// The reasons why a token does not open. See also [Reason].
var (
	// ErrMalformed means that neither this ring nor any other made the token for this purpose.
	ErrMalformed = errors.New("malformed token")
	// errExpiredKey means that the token is intact, but that the key that sealed it is no longer in the ring.
	errExpiredKey = errors.New("token sealed by a key that is no longer in use")
	// errWrongPrincipal means that a cursor is valid, but belongs to another principal.
	errWrongPrincipal = errors.New("token sealed for another principal")
)

// Reason returns the word for an error of this package that clients get as data.reason, "" for any other error.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case errors.Is(err, errExpiredKey):
		return "expired_key"
	case errors.Is(err, errWrongPrincipal):
		return "wrong_principal"
	default:
		return ""
	}
}
