package transport

import (
	"net/http"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// streamAfter is the time that a client waits before the response begins as an event stream with
// comments, which keep proxies from giving up. From then on the HTTP status is 200, also for
// errors.
const streamAfter = 10 * time.Second

// pending is a response that depends on an upstream. The zero value is not pending.
type pending struct {
	mu     sync.Mutex          // guards what follows, and writing
	w      http.ResponseWriter // nil when only the exchange may write
	stream *eventStream        // nil until the stream begins
	due    time.Time           // time of the next comment
}

// openLocked returns the stream. It begins the stream if needed.
func (p *pending) openLocked() *eventStream {
	if p.stream == nil {
		p.stream = openStream(p.w)
	}
	p.due = time.Now().Add(keepAlive)
	return p.stream
}

// send sends a message before the response. It returns false if the client has left.
func (p *pending) send(message []byte) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stream := p.openLocked()
	stream.event("", message)
	return stream.err == nil
}

// comment writes a comment. It begins the stream if needed.
func (p *pending) comment() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		p.openLocked().comment()
	}
}

// isDue reports whether a comment is due. It is false while another goroutine writes.
func (p *pending) isDue(now time.Time) bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	return !p.due.After(now)
}

// pendings has the pending responses of a transport. One timer ticks while there are any. The zero
// value is ready.
type pendings struct {
	mu      sync.Mutex // guards what follows
	all     map[*pending]struct{}
	ticking bool
}

// add begins a pending response of a request that an upstream answers.
func (s *pendings) add(p *pending, w http.ResponseWriter, request *requests.Request) {
	p.w, p.due = w, request.Received.Add(streamAfter)
	if request.Message.Method == wire.PromptsList { // answered without an upstream
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

// end returns the stream of a response that has begun as one, or nil. From now on only the caller
// writes.
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
			go p.comment() // a client that does not read must not delay the others
		}
	}
	if s.ticking = len(s.all) > 0; s.ticking {
		time.AfterFunc(time.Second, s.tick)
	}
}
