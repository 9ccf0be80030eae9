package queue

import (
	"sync"
	"time"
)

// Slot is one of the slots of a [Queue], held by one call. The zero value holds none. A Slot must
// not be copied.
type Slot struct {
	queue *Queue
	begun time.Time

	mu      sync.Mutex // guards what follows
	held    bool
	lending int
	// lent is set once the slot was lent: its time was then not the server's alone.
	lent bool
}

// Lend frees the slot until the returned function is called. Afterwards the call goes on even if no
// slot is free: a client has already replied for it.
func (s *Slot) Lend() (reclaim func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lending++
	s.lent = true
	if s.held {
		s.held = false
		s.queue.mu.Lock()
		s.queue.vacateLocked()
		s.queue.mu.Unlock()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lending--; s.lending > 0 {
			return // the client is still asked something else
		}
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		if s.held = s.queue.freeLocked() && !s.queue.closed; s.held {
			s.queue.inFlight++
		}
	}
}

// Outcome is how a call ended.
type Outcome int

// A call whose time was not the server's alone is unmeasured.
const (
	Unmeasured Outcome = iota
	Answered
	TimedOut
)

// Release ends the call.
func (s *Slot) Release(outcome Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.held {
		if outcome != Unmeasured && !s.lent {
			q.limit.end(s.begun, outcome, q.inFlight)
		}
		q.vacateLocked()
	}
	s.held = false
	q.endLocked()
}
