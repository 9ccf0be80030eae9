package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// connections are those to the store. All end with the context of [Store.Run], since the client waits for a store that hangs. The zero
// value is ready.
type connections struct {
	mu    sync.Mutex // guards what follows
	open  map[*connection]struct{}
	ended bool
}

// connection is one of them.
type connection struct {
	net.Conn

	all *connections
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// dial returns a function that makes connections until run ends.
func (c *connections) dial(run context.Context) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, address string, dialer *net.Dialer, settings *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(run, cancel)()
		dial := dialer.DialContext
		if settings != nil {
			dial = (&tls.Dialer{NetDialer: dialer, Config: settings}).DialContext
		}
		made, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		one := &connection{made, c}
		if !c.add(one) {
			_ = made.Close() // it was not used
			return nil, context.Canceled
		}
		return one, nil
	}
}

func (c *connections) add(one *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if c.open == nil {
		c.open = map[*connection]struct{}{}
	}
	c.open[one] = struct{}{}
	return true
}

// end closes all connections, and refuses further ones.
func (c *connections) end() {
	c.mu.Lock()
	c.ended = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for one := range open {
		_ = one.Conn.Close() // nobody waits for what is on its way
	}
}

func (c *connections) haveEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}
