package upstream

import (
	"sync"
	"time"
)

// slot is a call's place among those in flight. Other calls may have it while the call's client is asked.
type slot struct {
	queue *queue
	begun time.Time

	mu      sync.Mutex // guards what follows
	held    bool
	lending int
	// lent is set once the slot was lent: the call then took a person's time too.
	lent bool
}

// take makes it a slot that a queue has granted.
func (s *slot) take(q *queue) {
	s.queue, s.begun, s.held = q, time.Now(), true
}

// lend frees the slot until the returned function is called. Afterwards the call goes on even if no slot is free: a person
// has already waited for it.
func (s *slot) lend() (takeBack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lending++
	s.lent = true
	if s.held {
		s.held = false
		s.queue.lend()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lending--; s.lending == 0 {
			s.held = s.queue.tryTake()
		}
	}
}

// release ends the call. Measured says that the time since the slot was taken is how long the server takes.
func (s *slot) release(measured bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.begun
	if !measured || s.lent {
		begun = time.Time{}
	}
	s.queue.end(s.held, begun)
	s.held = false
}
