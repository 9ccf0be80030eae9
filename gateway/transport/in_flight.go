package transport

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/cancel"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxInFlight bounds the requests that one connection of stdio or HTTP+SSE has in flight, whose responses wait for one
	// writer. It is the default concurrency of an upstream, so that a gateway behind this one can use all of it.
	maxInFlight = 256
	// maxSessionInFlight bounds those of one legacy session over Streamable HTTP, of which each has a connection or an
	// HTTP/2 stream to itself: a gateway in front of this one shares a session among all its clients.
	maxSessionInFlight = 4096
)

// inFlight has the requests in flight of legacy sessions, so that their clients can cancel them, and bounds them. The zero value
// is ready.
type inFlight struct {
	mu       sync.Mutex // guards what follows
	requests map[requestKey]*cancellable
	counts   map[sessionID]int
}

// shardedInFlight are those of sessions that share no connection. All would contend for one mutex, twice each.
type shardedInFlight [64]inFlight

// of relies on ids being random.
func (s *shardedInFlight) of(id sessionID) *inFlight { return &s[int(id[0])%len(s)] }

// requestKey identifies a request in flight: by its id, within a session.
type requestKey struct {
	session sessionID
	id      string // JSON
}

// cancellable is a request in flight. A nil one is of a request that needs no session.
type cancellable struct {
	ctx      cancel.Context
	inFlight *inFlight
	key      requestKey
	// again is set if another request of the session has the same id. It is this one that the client cannot cancel.
	again bool
}

// begin counts a request, and makes it one that its client can cancel: the context that it returns ends then. It returns nil for
// the request if the session has too many in flight, else it must be ended.
func (f *inFlight) begin(ctx context.Context, session sessionID, id jsontext.Value) (context.Context, *cancellable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts[session] >= maxSessionInFlight {
		return ctx, nil
	}
	if f.requests == nil {
		f.requests, f.counts = map[requestKey]*cancellable{}, map[sessionID]int{}
	}
	c := &cancellable{inFlight: f, key: requestKey{session, string(id)}}
	c.ctx.Begin(ctx)
	f.counts[session]++
	if _, c.again = f.requests[c.key]; !c.again {
		f.requests[c.key] = c
	}
	return &c.ctx, c
}

// end forgets a request and ends its context. Its id is free for another.
func (c *cancellable) end() {
	if c == nil {
		return
	}
	c.ctx.End(context.Canceled)
	f, session := c.inFlight, c.key.session
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.again {
		delete(f.requests, c.key)
	}
	if f.counts[session]--; f.counts[session] == 0 {
		delete(f.counts, session)
	}
}

// cancel ends the context of a session's request, for a reason, and reports whether it is in flight.
func (f *inFlight) cancel(session sessionID, id jsontext.Value, reason *wire.CancelledError) bool {
	f.mu.Lock()
	c := f.requests[requestKey{session, string(id)}]
	f.mu.Unlock()
	if c != nil {
		c.ctx.End(reason)
	}
	return c != nil
}
