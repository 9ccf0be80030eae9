package transport

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// inFlight are the requests that a client can cancel. The zero value is ready.
type inFlight struct {
	mu      sync.Mutex // guards cancels
	cancels map[requestKey]context.CancelCauseFunc
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

// cancellable is a request that [inFlight.begin] has registered. The zero value is one that cannot be cancelled.
type cancellable struct {
	inFlight *inFlight
	key      requestKey
	cancel   context.CancelCauseFunc
}

// begin returns the context of a request, which [inFlight.cancel] ends, and what must be ended when the request is over.
// If not ok, the id is in use, ctx is unchanged, and there is nothing to end.
func (f *inFlight) begin(ctx context.Context, session sessionID, id jsontext.Value) (_ context.Context, _ cancellable, ok bool) {
	key := requestKey{session, string(id)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.cancels[key]; taken {
		return ctx, cancellable{}, false
	}
	if f.cancels == nil {
		f.cancels = map[requestKey]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f.cancels[key] = cancel
	return ctx, cancellable{f, key, cancel}, true
}

// end forgets a request and ends its context. Its id is free for another.
func (c cancellable) end() {
	if c.inFlight == nil {
		return
	}
	c.cancel(nil)
	c.inFlight.mu.Lock()
	defer c.inFlight.mu.Unlock()
	delete(c.inFlight.cancels, c.key)
}

// cancel ends the context of a session's request, for a reason, and reports whether it is in flight.
func (f *inFlight) cancel(session sessionID, id jsontext.Value, reason *wire.CancelledError) bool {
	f.mu.Lock()
	cancel := f.cancels[requestKey{session, string(id)}]
	f.mu.Unlock()
	if cancel != nil {
		cancel(reason)
	}
	return cancel != nil
}
