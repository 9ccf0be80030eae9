package transport

import (
	"context"
	"sync"

	"github.com/promptweir/promptweir/upstream/wire"
)

// inFlight are the requests that a client can cancel. The zero value is ready.
type inFlight struct {
	// cancels has a context.CancelCauseFunc by key. All requests would contend for one mutex, twice each.
	cancels sync.Map
}

// begin returns the context of a request, which [inFlight.cancel] with its key ends. If ok, [inFlight.end] and cancel must be
// called when the request is over. Otherwise the key is in use, and ctx is unchanged.
func (f *inFlight) begin(ctx context.Context, key string) (_ context.Context, cancel context.CancelCauseFunc, ok bool) {
	cancellable, cancel := context.WithCancelCause(ctx)
	if _, taken := f.cancels.LoadOrStore(key, cancel); taken {
		cancel(nil)
		return ctx, nil, false
	}
	return cancellable, cancel, true
}

// end forgets a request. Its key is free for another.
func (f *inFlight) end(key string) { f.cancels.Delete(key) }

// cancel ends the request with a key, if it is in flight, for a reason.
func (f *inFlight) cancel(key string, reason *wire.CancelledError) {
	if cancel, ok := f.cancels.Load(key); ok {
		cancel.(context.CancelCauseFunc)(reason) //nolint:forcetypeassert // begin stores nothing else
	}
}
