package transport

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/cancel"
	"github.com/promptweir/promptweir/upstream/wire"
)

// inFlight are the requests that a client can cancel. The zero value is ready.
type inFlight struct {
	mu       sync.Mutex // guards requests
	requests map[requestKey]*cancellable
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

// cancellable is the context of a request that [inFlight.begin] has registered. A nil one is of a request that cannot be cancelled.
type cancellable struct {
	cancel.Context

	inFlight *inFlight
	key      requestKey
}

// begin returns the context of a request, which [inFlight.cancel] ends, and what must be ended when the request is over.
// If not ok, the id is in use, ctx is unchanged, and there is nothing to end.
func (f *inFlight) begin(ctx context.Context, session sessionID, id jsontext.Value) (_ context.Context, _ *cancellable, ok bool) {
	key := requestKey{session, string(id)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.requests[key]; taken {
		return ctx, nil, false
	}
	if f.requests == nil {
		f.requests = map[requestKey]*cancellable{}
	}
	c := &cancellable{inFlight: f, key: key}
	c.Begin(ctx)
	f.requests[key] = c
	return c, c, true
}

// end forgets a request and ends its context. Its id is free for another.
func (c *cancellable) end() {
	if c == nil {
		return
	}
	c.End(context.Canceled)
	c.inFlight.mu.Lock()
	defer c.inFlight.mu.Unlock()
	delete(c.inFlight.requests, c.key)
}

// cancel ends the context of a session's request, for a reason, and reports whether it is in flight.
func (f *inFlight) cancel(session sessionID, id jsontext.Value, reason *wire.CancelledError) bool {
	f.mu.Lock()
	c := f.requests[requestKey{session, string(id)}]
	f.mu.Unlock()
	if c != nil {
		c.End(reason)
	}
	return c != nil
}
