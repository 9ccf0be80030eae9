package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// Why a token does not open.
var (
	// ErrMalformed means that no key of the ring made these bytes for this purpose, and no other key did either.
	ErrMalformed = errors.New("malformed token")
	// ErrExpiredKey means that the token is whole but the key that sealed it is not in the ring any more.
	ErrExpiredKey = errors.New("token sealed by a key that is no longer in use")
)

// The layout of a token; the drawing in doc.go shows it.
const (
	keySize      = 32
	checksumSize = 4
	keyIDSize    = 4
	nonceSize    = 12
	tagSize      = 16
	headSize     = checksumSize + keyIDSize + nonceSize
)

// Sealer is a ring of keys. Make it with [New].
type Sealer struct {
	ring     [][keySize]byte
	cursors  *Box
	sessions *Box
	opened   openedSessions
}

// New returns a sealer whose first key seals and whose keys all open. Without keys it draws a fresh one,
// so that its tokens end with the process. A key of nothing but zeros is refused.
func New(keys [][32]byte) (*Sealer, error) {
	if len(keys) == 0 {
		keys = [][keySize]byte{freshKey()}
	}
	for i, key := range keys {
		if key == [keySize]byte{} {
			return nil, fmt.Errorf("key %d of %d is all zeros: use 32 random bytes", i+1, len(keys))
		}
	}
	s := &Sealer{ring: slices.Clone(keys), opened: openedSessions{seed: maphash.MakeSeed()}}
	s.cursors = s.For("cursor")
	s.sessions = s.For("session")
	return s, nil
}

func freshKey() (key [keySize]byte) {
	rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	return key
}

// For returns the box of one purpose. Its keys are derived here, so keep the box rather than ask for it
// on each request.
func (s *Sealer) For(purpose string) *Box {
	box := &Box{base64: base64.RawURLEncoding.Strict()}
	for _, key := range s.ring {
		box.keys = append(box.keys, newSubkey(key, purpose))
	}
	return box
}

// Box seals and opens the tokens of one purpose. Make it with [Sealer.For].
type Box struct {
	keys   []subkey // the first seals
	base64 *base64.Encoding
}

// Seal returns the one token for plaintext, in visible ASCII.
func (b *Box) Seal(plaintext []byte) string {
	key := &b.keys[0]
	nonce := key.nonce(plaintext)

	token := make([]byte, checksumSize, headSize+len(plaintext)+tagSize)
	token = append(token, key.id[:]...)
	token = append(token, nonce[:]...)
	token = key.aead.Seal(token, nonce[:], plaintext, nil)
	binary.BigEndian.PutUint32(token, crc32.ChecksumIEEE(token[checksumSize:]))
	return b.base64.EncodeToString(token)
}

// Open returns what was sealed in token, or [ErrMalformed] or [ErrExpiredKey].
func (b *Box) Open(token string) ([]byte, error) {
	// The decoder, strict or not, skips line breaks: with them a token could be spelled in many ways.
	if strings.IndexByte(token, '\r') >= 0 || strings.IndexByte(token, '\n') >= 0 {
		return nil, ErrMalformed
	}
	raw, err := b.base64.DecodeString(token)
	if err != nil || len(raw) < headSize+tagSize {
		return nil, ErrMalformed
	}
	if binary.BigEndian.Uint32(raw) != crc32.ChecksumIEEE(raw[checksumSize:]) {
		return nil, ErrMalformed
	}
	return b.open(raw[checksumSize:])
}

// open tries every key with the token's id: ids are short, so two keys may share one.
func (b *Box) open(raw []byte) ([]byte, error) {
	id, nonce, ciphertext := [keyIDSize]byte(raw), raw[keyIDSize:][:nonceSize], raw[keyIDSize+nonceSize:]
	reason := ErrExpiredKey
	for i := range b.keys {
		if b.keys[i].id != id {
			continue
		}
		var dst []byte
		if len(b.keys) == 1 { // else what one key made of the ciphertext would be the next one's
			dst = ciphertext[:0]
		}
		plaintext, err := b.keys[i].aead.Open(dst, nonce, ciphertext, nil)
		if err == nil {
			return plaintext, nil
		}
		reason = ErrMalformed
	}
	return nil, reason
}

// subkey is what one key of the ring becomes for one purpose.
type subkey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
	// nonces are what makes nonces under the subkey's own key for them, to be used again: that key is half of the work.
	nonces *sync.Pool
	// purpose stands before the plaintext in what the nonce is made of.
	purpose []byte
}

func newSubkey(key [keySize]byte, purpose string) subkey {
	block, err := aes.NewCipher(derive(key, "encrypt", purpose, keySize))
	if err != nil {
		panic(err) // only for a key of the wrong size
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for a block of the wrong size
	}
	nonceKey := derive(key, "nonce", purpose, keySize)
	return subkey{
		// The id is the same for every purpose: it names the key of the ring.
		id:      [keyIDSize]byte(derive(key, "id", "", keyIDSize)),
		aead:    aead,
		nonces:  &sync.Pool{New: func() any { return &nonceMaker{mac: hmac.New(sha256.New, nonceKey)} }},
		purpose: []byte(purpose),
	}
}

// derive is HKDF with an info that no other use and purpose share: a use holds no slash.
func derive(key [keySize]byte, use, purpose string, size int) []byte {
	derived, err := hkdf.Key(sha256.New, key[:], nil, "promptweir/v1/"+use+"/"+purpose, size)
	if err != nil {
		panic(err) // only for a size that HKDF cannot give
	}
	return derived
}

// nonce is the content's own; doc.go says why that is safe.
func (k *subkey) nonce(plaintext []byte) [nonceSize]byte {
	m, _ := k.nonces.Get().(*nonceMaker)
	defer k.nonces.Put(m)
	m.mac.Reset()
	m.buffer = append(m.buffer[:0], k.purpose...)
	m.buffer = binary.BigEndian.AppendUint64(m.buffer, uint64(len(plaintext)))
	m.mac.Write(m.buffer)
	m.mac.Write(plaintext)
	m.buffer = m.mac.Sum(m.buffer[:0])
	return [nonceSize]byte(m.buffer)
}

// nonceMaker is an HMAC, and room for what it takes and gives.
type nonceMaker struct {
	mac    hash.Hash
	buffer []byte
}
