package upstream

import (
	"sync"

	"golang.org/x/sync/semaphore"
)

// slot is a call's place among those in flight. Other calls may have it while the call's client is asked.
type slot struct {
	slots *semaphore.Weighted

	mu      sync.Mutex // guards what follows
	held    bool
	lending int
}

// lend frees the slot until the returned function is called. Afterwards the call goes on even if no slot is free: a person
// has already waited for it.
func (s *slot) lend() (takeBack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lending++
	s.freeLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lending--; s.lending == 0 {
			s.held = s.slots.TryAcquire(1)
		}
	}
}

func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeLocked()
}

func (s *slot) freeLocked() {
	if s.held {
		s.held = false
		s.slots.Release(1)
	}
}
