package seal

import "crypto/sha256"

// The layout of a cursor: a version, the hashes of the method and of the principal's key, and the name.
const (
	cursorVersion  = 1
	bindingSize    = 16
	cursorHeadSize = 1 + 2*bindingSize
)

// SealCursor returns a token for the position after an exposed name in the list of a method, for one principal only. It names
// an entry rather than an offset, so it stays valid when the catalog changes between two pages. For a name of up to 256 bytes
// it is at most 512 bytes long, however long the method and the key are.
func (s *Sealer) SealCursor(method, principalKey, after string) string {
	plaintext := make([]byte, 0, cursorHeadSize+len(after))
	plaintext = append(plaintext, cursorVersion)
	plaintext = append(plaintext, binding(method)...)
	plaintext = append(plaintext, binding(principalKey)...)
	plaintext = append(plaintext, after...)
	return s.cursors.Seal(plaintext)
}

// OpenCursor returns the name after which a cursor stands. A cursor of another method is [ErrMalformed], like any other kind
// of token. For all errors, see [Reason].
func (s *Sealer) OpenCursor(method, principalKey, token string) (after string, err error) {
	plaintext, err := s.cursors.Open(token)
	if err != nil {
		return "", err
	}
	if len(plaintext) < cursorHeadSize || plaintext[0] != cursorVersion {
		return "", ErrMalformed
	}
	bindings, name := plaintext[1:cursorHeadSize], plaintext[cursorHeadSize:]
	// The method first: only of a cursor for this list is it worth telling that it is somebody else's.
	if string(bindings[:bindingSize]) != string(binding(method)) {
		return "", ErrMalformed
	}
	if string(bindings[bindingSize:]) != string(binding(principalKey)) {
		return "", errWrongPrincipal
	}
	return string(name), nil
}

// binding returns a hash of what a cursor is bound to, so that it stays short.
func binding(to string) []byte {
	sum := sha256.Sum256([]byte(to))
	return sum[:bindingSize]
}
