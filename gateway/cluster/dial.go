package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
)

// dialTimeout bounds the time to connect to the store or to another replica.
const dialTimeout = 2 * time.Second

func clientOption(cfg *config.Cluster) valkey.ClientOption {
	option := valkey.ClientOption{
		InitAddress: cfg.Store.Addresses,
		Username:    cfg.Store.Username, Password: cfg.Store.Password, SelectDB: cfg.Store.Database,
		ClientName: "promptweir",
		// With pipelining, requests do not wait for one another, and a deadline does not close the
		// connection.
		AlwaysPipelining: true, DisableRetry: true, DisableCache: true,
		// Use one connection, which NewClient makes. With several connections, the first operation that needs
		// another connection would make it, and wait for a hanging store.
		PipelineMultiplex:  -1,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		// The client pings a silent connection, and closes it if no answer comes within this time.
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
			// announcement would leave the client with the old master forever.
			MasterSet: cfg.Store.MasterSet, Password: cfg.Store.SentinelPassword,
			TLSConfig: option.TLSConfig, Dialer: option.Dialer, TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return option
}

// connection is a connection to the store that is closed when a context ends. Otherwise closing the client
// would wait for a hanging store.
type connection struct {
	net.Conn

	// forget cancels the AfterFunc of run, so that run does not keep closed connections in memory.
	forget func() bool
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// dialFunc makes a connection for valkey-go.
type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialUntil returns a dialFunc whose dials and connections end with run.
func dialUntil(run context.Context) dialFunc {
	return func(
		ctx context.Context, address string, dialer *net.Dialer, settings *tls.Config,
	) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// valkey-go dials with its own contexts, which do not end with run.
		defer context.AfterFunc(run, cancel)()
		dial := dialer.DialContext
		if settings != nil {
			dial = (&tls.Dialer{NetDialer: dialer, Config: settings}).DialContext
		}
		made, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &connection{made, context.AfterFunc(run, func() { _ = made.Close() })}, nil
	}
}
