package transport

import "sync"

const (
	// maxInFlight bounds the requests that one connection of stdio or HTTP+SSE has in flight, whose responses wait for one
	// writer. It is the default concurrency of an upstream, so that a gateway behind this one can use all of it.
	maxInFlight = 256
	// maxSessionInFlight bounds those of one legacy session over Streamable HTTP, of which each has a connection or an
	// HTTP/2 stream to itself: a gateway in front of this one shares a session among all its clients.
	maxSessionInFlight = 4096
)

// sessionSlots counts the requests in flight of Streamable HTTP's legacy sessions. The zero value is ready.
type sessionSlots struct {
	shards [64]slotShard // all requests would contend for one mutex, twice each
}

type slotShard struct {
	mu     sync.Mutex        // guards counts
	counts map[sessionID]int // of sessions with requests in flight
}

// acquire counts a request, unless the session has too many in flight. If ok, release must follow.
func (s *sessionSlots) acquire(id sessionID) (ok bool) {
	shard := s.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.counts[id] >= maxSessionInFlight {
		return false
	}
	if shard.counts == nil {
		shard.counts = map[sessionID]int{}
	}
	shard.counts[id]++
	return true
}

func (s *sessionSlots) release(id sessionID) {
	shard := s.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.counts[id]--; shard.counts[id] == 0 {
		delete(shard.counts, id)
	}
}

// shard relies on ids being random.
func (s *sessionSlots) shard(id sessionID) *slotShard { return &s.shards[int(id[0])%len(s.shards)] }
