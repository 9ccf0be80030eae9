package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
)

// dialTimeout bounds the time to connect.
const dialTimeout = 2 * time.Second

func clientOption(cfg *config.Cluster) valkey.ClientOption {
	option := valkey.ClientOption{
		InitAddress: cfg.Store.Addresses,
		Username:    cfg.Store.Username, Password: cfg.Store.Password, SelectDB: cfg.Store.Database,
		ClientName: "promptweir",
		// Requests do not wait for one another, and a deadline does not close the connection.
		AlwaysPipelining: true, DisableRetry: true, DisableCache: true,
		// Use one connection, which exists once the store has answered. If there were several, each
		// would be made by the first operation that needs it, and that operation would wait for a
		// hanging store.
		PipelineMultiplex:  -1,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		// The client pings a silent connection, and closes it if there is no answer within this
		// time.
		ConnWriteTimeout: 5 * time.Second,
	}
	option.Dialer.Timeout = dialTimeout
	if cfg.Store.Encrypted {
		option.TLSConfig = cfg.TLS.ClientConfig()
		option.TLSConfig.MinVersion = tls.VersionTLS12
	}
	if cfg.Store.MasterSet != "" {
		option.Sentinel = valkey.SentinelOption{
			// Ask for the master repeatedly: a demoted master keeps its connections, so one missed
			// announcement would leave the client with it forever.
			MasterSet: cfg.Store.MasterSet, Password: cfg.Store.SentinelPassword,
			TLSConfig: option.TLSConfig, Dialer: option.Dialer, TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return option
}

// connection is a connection to the store that is closed when a context ends, because the client
// waits for a hanging store.
type connection struct {
	net.Conn

	// forget removes the connection from run. Otherwise run would keep every connection that was
	// ever made.
	forget func() bool
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// dialFunc makes a connection for valkey-go.
type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialUntil returns a function whose connections end with run.
func dialUntil(run context.Context) dialFunc {
	return func(
		ctx context.Context, address string, dialer *net.Dialer, settings *tls.Config,
	) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// The client dials in its own contexts, which do not end with run.
		defer context.AfterFunc(run, cancel)()
		dial := dialer.DialContext
		if settings != nil {
			dial = (&tls.Dialer{NetDialer: dialer, Config: settings}).DialContext
		}
		made, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		end := func() { _ = made.Close() } // pending operations have their own timeouts
		return &connection{made, context.AfterFunc(run, end)}, nil
	}
}
