package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
)

// dialTimeout bounds the making of a connection.
const dialTimeout = 2 * time.Second

func clientOption(cfg *config.Cluster) (valkey.ClientOption, error) {
	option := valkey.ClientOption{
		InitAddress: cfg.Store.Addresses,
		Username:    cfg.Store.Username, Password: cfg.Store.Password, SelectDB: cfg.Store.Database,
		ClientName: "promptweir",
		// A request does not wait for another one's, and a deadline does not cost the connection.
		AlwaysPipelining: true, DisableRetry: true, DisableCache: true,
		// One connection, which is there once the store has answered: of several, each would be made
		// when an operation first needs it, and that one would wait for a store that hangs.
		PipelineMultiplex:  -1,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		ConnWriteTimeout: 5 * time.Second,
	}
	option.Dialer.Timeout = dialTimeout
	if cfg.Store.Encrypted {
		settings, err := cfg.TLS.ClientConfig()
		if err != nil {
			return option, err
		}
		settings.MinVersion = tls.VersionTLS12
		option.TLSConfig = settings
	}
	if cfg.Store.MasterSet != "" {
		option.Sentinel = valkey.SentinelOption{
			MasterSet: cfg.Store.MasterSet, Password: cfg.Store.SentinelPassword,
			TLSConfig: option.TLSConfig, Dialer: option.Dialer, TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return option, nil
}

// connections are those to the store. All end with the context of [Replica.Run], since the client
// waits for a store that hangs. The zero value is ready.
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

// dialFunc makes a connection for valkey-go.
type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dial returns a function that makes connections until run ends.
func (c *connections) dial(run context.Context) dialFunc {
	return func(
		ctx context.Context, address string, dialer *net.Dialer, settings *tls.Config,
	) (net.Conn, error) {
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
