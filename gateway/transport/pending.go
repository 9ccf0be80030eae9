package transport

import (
	"net/http"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// streamAfter is the time after which a response becomes an event stream with comments, so that proxies
// do not give up. The HTTP status is then 200, even if the response is an error.
const streamAfter = 10 * time.Second

// pending is the response to a request that waits for an upstream. The zero value is not pending.
type pending struct {
	mu     sync.Mutex          // guards the fields below and writes to w
	w      http.ResponseWriter // nil unless the response is pending
	stream *eventStream        // nil until the stream begins
	due    time.Time           // time of the next comment
}

// openLocked returns the stream, and begins it if necessary. The caller holds the mutex.
func (p *pending) openLocked() *eventStream {
	if p.stream == nil {
		p.stream = openStream(p.w)
	}
	p.due = time.Now().Add(keepAlive)
	return p.stream
}

// send sends a message before the response. It returns false if a write has failed.
func (p *pending) send(message []byte) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stream := p.openLocked()
	stream.event("", message)
	return stream.err == nil
}

// comment writes a comment, and begins the stream if necessary. It does nothing once the response is
// no longer pending.
func (p *pending) comment() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		p.openLocked().comment()
	}
}

// isDue reports whether a comment is due. It returns false while another goroutine writes.
func (p *pending) isDue(now time.Time) bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	return !p.due.After(now)
}

// pendings contains the pending responses of a transport. While there are any, one timer writes their
// comments. The zero value is ready for use.
type pendings struct {
	mu      sync.Mutex // guards the fields below
	all     map[*pending]struct{}
	ticking bool
}

// add makes the response to a request pending, so that it gets comments if it takes long.
func (s *pendings) add(p *pending, w http.ResponseWriter, request *requests.Request) {
	p.w, p.due = w, request.Received.Add(streamAfter)
	if request.Message.Method == wire.PromptsList { // never waits for an upstream
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*pending]struct{}{}
	}
	s.all[p] = struct{}{}
	if !s.ticking {
		s.ticking = true
		time.AfterFunc(time.Second, s.tick)
	}
}

// end ends the pending time of a response. It returns the stream, or nil if none has begun. After end,
// only the caller writes.
func (s *pendings) end(p *pending) *eventStream {
	s.mu.Lock()
	delete(s.all, p)
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = nil
	return p.stream
}

func (s *pendings) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for p := range s.all {
		if p.isDue(now) {
			go p.comment() // a write to a client that does not read must not delay other comments
		}
	}
	if s.ticking = len(s.all) > 0; s.ticking {
		time.AfterFunc(time.Second, s.tick)
	}
}
