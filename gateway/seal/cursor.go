package seal

import (
	"crypto/sha256"
	"errors"
)

// ErrWrongPrincipal means that the cursor is good, but somebody else's.
var ErrWrongPrincipal = errors.New("token sealed for another principal")

// The layout of a cursor: a version, the hashes of the method and of the principal, and the name.
const (
	cursorVersion  = 1
	bindingSize    = 16
	cursorHeadSize = 1 + 2*bindingSize
)

// SealCursor returns a token for the position after an exposed name in one method's list, of use to one principal
// only. A position rather than an offset: it stays valid when the catalog changes between two pages.
// For a name of up to 256 bytes it is at most 512 bytes long, however long the method and the key are.
func (s *Sealer) SealCursor(method, principalKey, after string) string {
	plaintext := make([]byte, 0, cursorHeadSize+len(after))
	plaintext = append(plaintext, cursorVersion)
	plaintext = append(plaintext, binding(method)...)
	plaintext = append(plaintext, binding(principalKey)...)
	plaintext = append(plaintext, after...)
	return s.cursors.Seal(plaintext)
}

// OpenCursor returns the name that a cursor stands after. Another method's cursor is [ErrMalformed], as is
// any other kind of token; see also [ErrExpiredKey], [ErrWrongPrincipal] and [Reason].
func (s *Sealer) OpenCursor(method, principalKey, token string) (after string, err error) {
	plaintext, err := s.cursors.Open(token)
	if err != nil {
		return "", err
	}
	if len(plaintext) < cursorHeadSize || plaintext[0] != cursorVersion {
		return "", ErrMalformed
	}
	bindings, name := plaintext[1:cursorHeadSize], plaintext[cursorHeadSize:]
	if string(bindings[:bindingSize]) != string(binding(method)) {
		return "", ErrMalformed
	}
	if string(bindings[bindingSize:]) != string(binding(principalKey)) {
		return "", ErrWrongPrincipal
	}
	return string(name), nil
}

// Reason is the word that a client learns for an error of this package, as data.reason; "" for any other error.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case errors.Is(err, ErrExpiredKey):
		return "expired_key"
	case errors.Is(err, ErrWrongPrincipal):
		return "wrong_principal"
	default:
		return ""
	}
}

// binding is a hash: it keeps a cursor short whatever it is bound to.
func binding(to string) []byte {
	sum := sha256.Sum256([]byte(to))
	return sum[:bindingSize]
}
