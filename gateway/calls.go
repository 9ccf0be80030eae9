package gateway

import (
	"context"
	"sync"
)

// calls are the requests in flight that a notifications/cancelled can still end. The zero value is ready.
type calls struct {
	// all has a context.CancelFunc by key. It is not a map with a lock: all requests would meet there, twice each.
	all sync.Map
}

// begin returns the context of a request, which [calls.cancel] with its key ends, and what is to be called when it is
// over. Ok is false, and nothing begun, where the key is in use.
func (c *calls) begin(ctx context.Context, key string) (_ context.Context, end func(), ok bool) {
	cancellable, cancel := context.WithCancel(ctx)
	if _, taken := c.all.LoadOrStore(key, cancel); taken {
		cancel()
		return ctx, func() {}, false
	}
	return cancellable, func() {
		cancel()
		c.all.Delete(key)
	}, true
}

// cancel ends the request with the key, if it is still in flight.
func (c *calls) cancel(key string) {
	if cancel, ok := c.all.Load(key); ok {
		cancel.(context.CancelFunc)() //nolint:forcetypeassert // begin stores nothing else
	}
}
