package slotcache_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/gateway/slotcache"
)

func TestCache_ReturnsOnlyTheValueOfTheKey(t *testing.T) {
	c := slotcache.New[int](4)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 1_000 {
				n := (i*7 + worker) % 50
				key := strconv.Itoa(n)
				if got, ok := c.Get(key); ok && got != n {
					t.Errorf("Get(%q) = %d", key, got)
				}
				c.Put(key, n)
			}
		})
	}
	group.Wait()
}

func TestCache_KeepsTheLatestOfASlot(t *testing.T) {
	c := slotcache.New[string](1)
	if _, ok := c.Get("a"); ok {
		t.Error("an empty cache has a value")
	}
	c.Put("a", "1")
	if got, ok := c.Get("a"); !ok || got != "1" {
		t.Errorf("Get(a) = %q, %t, want 1", got, ok)
	}
	c.Put("b", "2")
	if _, ok := c.Get("a"); ok {
		t.Error("a is still there, though b took its slot")
	}
	if got, ok := c.Get("b"); !ok || got != "2" {
		t.Errorf("Get(b) = %q, %t, want 2", got, ok)
	}
}
