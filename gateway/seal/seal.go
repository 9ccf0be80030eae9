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
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxOpened bounds the cache of opened sessions.
const maxOpened = 4096

// Sealer seals and opens tokens with a ring of keys. Make it with [New].
type Sealer struct {
	ring     [][keySize]byte
	cursors  *Box
	sessions *Box
	links    *Box
	opened   *lru.Cache[string, Session] // by token
}

// New returns a sealer. The first key seals, and all keys open. If there are no keys, New makes a
// random one, and no token outlives the process. A key of zeros is an error.
func New(keys [][32]byte) (*Sealer, error) {
	if len(keys) == 0 {
		keys = make([][keySize]byte, 1)
		rand.Read(keys[0][:]) // never fails: crypto/rand crashes the process instead
	}
	for i, key := range keys {
		// An unset variable or an empty file would decode to zeros.
		if key == [keySize]byte{} {
			return nil, fmt.Errorf("key %d of %d is all zeros: use 32 random bytes", i+1, len(keys))
		}
	}
	opened, _ := lru.New[string, Session](maxOpened) // fails only for a size below one
	s := &Sealer{ring: slices.Clone(keys), opened: opened}
	s.cursors = s.For("cursor")
	s.sessions = s.For("session")
	s.links = s.For("link")
	return s, nil
}

// For returns the box of one purpose. Call it once per purpose, because deriving the keys takes time.
func (s *Sealer) For(purpose string) *Box {
	box := &Box{base64: base64.RawURLEncoding.Strict()}
	for _, key := range s.ring {
		box.keys = append(box.keys, newSubkey(key, purpose))
	}
	return box
}

// The errors for a token that does not open. See also [Reason].
var (
	// ErrMalformed means that the token is damaged, invented, or made for another purpose.
	ErrMalformed = errors.New("malformed token")
	// errExpiredKey means that the token is intact, but its key is no longer in the ring.
	errExpiredKey = errors.New("token sealed by a key that is no longer in use")
	// errWrongPrincipal means that a cursor or link is valid, but belongs to another principal.
	errWrongPrincipal = errors.New("token sealed for another principal")
)

// Reason returns the value of data.reason for an error of this package, and "" for any other error.
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

// MAC makes keyed hashes for one purpose (HMAC-SHA-256): equal values have equal hashes, and people
// without the key cannot compute them. Make it with [Sealer.MAC]. It is safe for concurrent use.
type MAC struct{ hashes *sync.Pool }

// MAC returns the MAC of one purpose for the first key of the ring.
func (s *Sealer) MAC(purpose string) *MAC {
	return &MAC{hashers(derive(s.ring[0], "mac", purpose, keySize))}
}

// hasher is an HMAC with a buffer for its input and its result.
type hasher struct {
	hash.Hash

	buffer []byte
}

// hashers returns a pool of hashers with one key. It saves half of the work of an HMAC: the set-up takes
// as long as the hash.
func hashers(key []byte) *sync.Pool {
	return &sync.Pool{New: func() any { return &hasher{Hash: hmac.New(sha256.New, key)} }}
}

// AppendHex appends the hash of a value to dst, as 64 hexadecimal digits.
func (m *MAC) AppendHex(dst, value []byte) []byte {
	h, _ := m.hashes.Get().(*hasher)
	defer m.hashes.Put(h)
	h.Reset()
	h.Write(value)
	h.buffer = h.Sum(h.buffer[:0])
	return hex.AppendEncode(dst, h.buffer)
}

// The layout of a token, as drawn in doc.go.
const (
	keySize      = 32
	checksumSize = 4
	keyIDSize    = 4
	nonceSize    = 12
	tagSize      = 16
	headSize     = checksumSize + keyIDSize + nonceSize
)

// Box seals and opens the tokens of one purpose. Make it with [Sealer.For].
type Box struct {
	keys   []subkey // the first seals
	base64 *base64.Encoding
}

// Seal returns the token of a plaintext, in the alphabet of base64url. Equal plaintexts have equal
// tokens.
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

// Open returns the plaintext of a token. For the errors, see [Reason].
func (b *Box) Open(token string) ([]byte, error) {
	// Refuse line breaks: even a strict decoder skips them, so a token would have several spellings.
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

// open decrypts a token whose checksum has been removed. It tries every key with the token's id, because two
// keys may have the same short id.
func (b *Box) open(raw []byte) ([]byte, error) {
	id, nonce, ciphertext := [keyIDSize]byte(raw), raw[keyIDSize:][:nonceSize], raw[keyIDSize+nonceSize:]
	reason := errExpiredKey
	for i := range b.keys {
		if b.keys[i].id != id {
			continue
		}
		var dst []byte
		// Decrypting in place saves an allocation. With several keys it is not possible: a failed
		// attempt destroys the ciphertext.
		if len(b.keys) == 1 {
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

// subkey contains the keys that are derived from one key of the ring for one purpose.
type subkey struct {
	id     [keyIDSize]byte
	aead   cipher.AEAD
	nonces *sync.Pool // of hashers that make nonces
	// purpose precedes the plaintext in the input of the nonce's HMAC.
	purpose []byte
}

func newSubkey(key [keySize]byte, purpose string) subkey {
	block, err := aes.NewCipher(derive(key, "encrypt", purpose, keySize))
	if err != nil {
		panic(err) // cannot happen: the key has the right size
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // cannot happen: AES has the right block size
	}
	return subkey{
		// The id names the key of the ring: it is the same for every purpose.
		id:      [keyIDSize]byte(derive(key, "id", "", keyIDSize)),
		aead:    aead,
		nonces:  hashers(derive(key, "nonce", purpose, keySize)),
		purpose: []byte(purpose),
	}
}

// derive derives a key by HKDF. Different pairs of use and purpose give different keys, because a use
// contains no slash.
func derive(key [keySize]byte, use, purpose string, size int) []byte {
	derived, err := hkdf.Key(sha256.New, key[:], nil, "promptweir/v1/"+use+"/"+purpose, size)
	if err != nil {
		panic(err) // cannot happen: all sizes are small
	}
	return derived
}

// nonce derives the nonce from the plaintext; doc.go explains why that is safe.
func (k *subkey) nonce(plaintext []byte) [nonceSize]byte {
	h, _ := k.nonces.Get().(*hasher)
	defer k.nonces.Put(h)
	h.Reset()
	h.buffer = append(h.buffer[:0], k.purpose...)
	h.buffer = binary.BigEndian.AppendUint64(h.buffer, uint64(len(plaintext))) // separates purpose and plaintext
	h.Write(h.buffer)
	h.Write(plaintext)
	h.buffer = h.Sum(h.buffer[:0])
	return [nonceSize]byte(h.buffer)
}
