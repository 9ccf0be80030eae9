package gateway

import (
	"context"
	"sync"
)

// calls are the requests in flight that a notifications/cancelled can still end. The zero value is ready.
type calls struct {
	mu  sync.Mutex // guards all
	all map[string]context.CancelFunc
}

// begin returns the context of a request, which [calls.cancel] with its key ends, and what is to be called when it is
// over. Ok is false, and nothing begun, where the key is in use.
func (c *calls) begin(ctx context.Context, key string) (_ context.Context, end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.all[key]; taken {
		return ctx, func() {}, false
	}
	if c.all == nil {
		c.all = map[string]context.CancelFunc{}
	}
	ctx, cancel := context.WithCancel(ctx)
	c.all[key] = cancel
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, key)
	}, true
}

// cancel ends the request with the key, if it is still in flight.
func (c *calls) cancel(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.all[key]; cancel != nil {
		cancel()
	}
}
