package transport

import (
	"net/http"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/httpconn"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// streamCounts counts the streams of each principal, for limits on them. The zero value is ready.
type streamCounts struct {
	mu     sync.Mutex     // guards counts
	counts map[string]int // by the principal's key
}

// acquire counts a stream of a caller, unless its limit is used up. If ok, release must be called when the stream is over.
func (s *streamCounts) acquire(caller *snapshot.Caller) (release func(), ok bool) {
	limit, key := caller.Generation.Config.Gateway.Limit, caller.Principal.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit != nil && limit.Streams > 0 && s.counts[key] >= limit.Streams {
		return nil, false
	}
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[key]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.counts[key]--; s.counts[key] == 0 {
			delete(s.counts, key)
		}
	}, true
}

// heldStream is a stream that counts for its caller.
type heldStream struct {
	// ending is closed if the stream has to end for another one.
	ending <-chan struct{}
	// leave must be called when the stream is over.
	leave func()
}

// takeStream counts a stream that is about to be opened, or answers that its caller has too many.
func (x *exchange) takeStream(caller *snapshot.Caller, id jsontext.Value) (heldStream, bool) {
	release, ok := x.streams.acquire(caller)
	if !ok {
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusTooManyRequests, id, requests.TooManyStreams())
		return heldStream{}, false
	}
	x.release()
	ending, leave := x.places.Stream(httpconn.FromContext(x.r.Context()), x.r.ProtoMajor > 1, requests.HolderOf(&caller.Principal, x))
	return heldStream{ending, func() {
		leave()
		release()
	}}, true
}
