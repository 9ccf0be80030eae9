package seal

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/promptweir/promptweir/gateway/slotcache"
)

// maxOpened bounds the opened sessions that are remembered.
const maxOpened = 4096

// Sealer seals and opens tokens with a ring of keys. Make it with [New].
type Sealer struct {
	ring     [][keySize]byte
	cursors  *Box
	sessions *Box
	opened   *slotcache.Cache[Session] // by token
}

// New returns a sealer. The first key seals, and all of them open. Without any key it makes a random one, so that no token
// outlives the process. A key that is all zeros is an error.
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
	s := &Sealer{ring: slices.Clone(keys), opened: slotcache.New[Session](maxOpened)}
	s.cursors = s.For("cursor")
	s.sessions = s.For("session")
	return s, nil
}

func freshKey() (key [keySize]byte) {
	rand.Read(key[:]) // it never fails: crypto/rand crashes the process instead
	return key
}

// For returns the box of one purpose. Deriving its keys takes time, so keep the box rather than call For for each request.
func (s *Sealer) For(purpose string) *Box {
	box := &Box{base64: base64.RawURLEncoding.Strict()}
	for _, key := range s.ring {
		box.keys = append(box.keys, newSubkey(key, purpose))
	}
	return box
}
