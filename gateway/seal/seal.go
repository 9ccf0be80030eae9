package seal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxOpened bounds the opened sessions that are remembered.
const maxOpened = 4096

// Sealer seals and opens tokens with a ring of keys. Make it with [New].
type Sealer struct {
	ring     [][keySize]byte
	cursors  *Box
	sessions *Box
	opened   *lru.Cache[string, Session] // by token
}

// New returns a sealer. The first key seals, and all of them open. Without any key it makes a
// random one, so that no token outlives the process. A key that is all zeros is an error.
func New(keys [][32]byte) (*Sealer, error) {
	if len(keys) == 0 {
		keys = [][keySize]byte{freshKey()}
	}
	for i, key := range keys {
		// It is what an unset variable or an empty file would decode to.
		if key == [keySize]byte{} {
			return nil, fmt.Errorf("key %d of %d is all zeros: use 32 random bytes", i+1, len(keys))
		}
	}
	opened, err := lru.New[string, Session](maxOpened)
	if err != nil {
		panic(err) // only for a size below one
	}
	s := &Sealer{ring: slices.Clone(keys), opened: opened}
	s.cursors = s.For("cursor")
	s.sessions = s.For("session")
	return s, nil
}

func freshKey() (key [keySize]byte) {
	rand.Read(key[:]) // it never fails: crypto/rand crashes the process instead
	return key
}

// For returns the box of one purpose. Deriving its keys takes time, so keep the box rather than
// call For for each request.
func (s *Sealer) For(purpose string) *Box {
	box := &Box{base64: base64.RawURLEncoding.Strict()}
	for _, key := range s.ring {
		box.keys = append(box.keys, newSubkey(key, purpose))
	}
	return box
}

// The reasons why a token does not open. See also [Reason].
var (
	// ErrMalformed means that neither this ring nor any other made the token for this purpose.
	ErrMalformed = errors.New("malformed token")
	// errExpiredKey means that the token is intact, but that the key that sealed it is no longer in
	// the ring.
	errExpiredKey = errors.New("token sealed by a key that is no longer in use")
	// errWrongPrincipal means that a cursor is valid, but belongs to another principal.
	errWrongPrincipal = errors.New("token sealed for another principal")
)

// Reason returns the word for an error of this package that clients get as data.reason, "" for any
// other error.
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

// MAC makes keyed hashes of one purpose (HMAC-SHA-256), by which equal values can be recognised and
// not guessed. Make it with [Sealer.MAC].
type MAC struct {
	hashes sync.Pool
}

// MAC returns the keyed hash of one purpose. Its key is derived from the first key of the ring.
func (s *Sealer) MAC(purpose string) *MAC { return newMAC(s.ring[0], purpose) }

// MACs returns the keyed hashes of one purpose, by each key of the ring in order.
func (s *Sealer) MACs(purpose string) []*MAC {
	var all []*MAC
	for _, key := range s.ring {
		all = append(all, newMAC(key, purpose))
	}
	return all
}

func newMAC(ringKey [keySize]byte, purpose string) *MAC {
	key := derive(ringKey, "mac", purpose, keySize)
	return &MAC{hashes: sync.Pool{New: func() any { return &hasher{Hash: hmac.New(sha256.New, key)} }}}
}

// hasher is a hash that can be used again, with memory for its result.
type hasher struct {
	hash.Hash

	sum [sha256.Size]byte
}

// AppendHex appends the hash of a value, 64 hexadecimal digits.
func (m *MAC) AppendHex(dst, value []byte) []byte {
	h, _ := m.hashes.Get().(*hasher)
	defer m.hashes.Put(h)
	h.Reset()
	h.Write(value)
	return hex.AppendEncode(dst, h.Sum(h.sum[:0]))
}
