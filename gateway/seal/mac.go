package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
)

// MAC makes keyed hashes of one purpose (HMAC-SHA-256), by which equal values can be recognised and not guessed. Make it with
// [Sealer.MAC].
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
