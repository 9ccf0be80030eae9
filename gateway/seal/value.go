package seal

import (
	"crypto/aes"
	"crypto/cipher"
)

// Values seals and opens values that lie where others can write, such as in a store. Each is bound to what it is about, so that one
// cannot stand in the place of another. Make it with [Sealer.Values].
//
// Unlike a [Box], it takes a random nonce: a nonce that followed from the plaintext would be used again for another binding. With one
// key and purpose, up to 2³² values may be sealed (NIST SP 800-38D, section 8.3).
type Values struct{ aead cipher.AEAD }

// Values returns what seals the values of one purpose, by the first key of the ring alone.
func (s *Sealer) Values(purpose string) *Values {
	block, err := aes.NewCipher(derive(s.ring[0], "value", purpose, keySize))
	if err != nil {
		panic(err) // only for a key of the wrong size
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // only for a block of the wrong size
	}
	return &Values{aead}
}

// ValueOverhead is by how many bytes a sealed value is longer.
const ValueOverhead = nonceSize + tagSize

// Seal returns a value sealed for what it is about.
func (v *Values) Seal(value, about []byte) []byte { return v.aead.Seal(nil, nil, value, about) }

// Open returns a value that was sealed for what it is about, in the memory of the sealed one. The error is [ErrMalformed].
func (v *Values) Open(sealed, about []byte) ([]byte, error) {
	value, err := v.aead.Open(sealed[:0], nil, sealed, about)
	if err != nil {
		return nil, ErrMalformed
	}
	return value, nil
}
