package gateway

import (
	"context"
	"sync"

	"github.com/promptweir/promptweir/upstream/cancel"
)

// calls are the requests in flight that a notifications/cancelled can still end. The zero value is ready.
type calls struct {
	// all has a *cancel.Context by key. It is not a map with a lock: all requests would meet there, twice each.
	all sync.Map
}

// begin returns the context of a request, which [calls.cancel] with its key ends, and what is to be called when it is
// over. Ok is false, and nothing begun, where the key is in use.
func (c *calls) begin(ctx context.Context, key string) (_ context.Context, end func(), ok bool) {
	cancellable := new(cancel.Context)
	cancellable.Begin(ctx)
	if _, taken := c.all.LoadOrStore(key, cancellable); taken {
		cancellable.End(context.Canceled)
		return ctx, func() {}, false
	}
	return cancellable, func() {
		cancellable.End(context.Canceled)
		c.all.Delete(key)
	}, true
}

// cancel ends the request with the key, if it is still in flight.
func (c *calls) cancel(key string) {
	if request, ok := c.all.Load(key); ok {
		request.(*cancel.Context).End(context.Canceled) //nolint:forcetypeassert // begin stores nothing else
	}
}
