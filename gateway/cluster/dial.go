package cluster

import (
	"context"
	"crypto/tls"
	"net"
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
		// One connection, which is there once the store has answered: of several, each would be
		// made when an operation first needs it, and that one would wait for a store that hangs.
		PipelineMultiplex:  -1,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		// The client pings a silent connection, and gives it up where that is not answered for so
		// long.
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
			// The master is asked for again and again: one that was demoted keeps its connections,
			// so that a single announcement that is missed would leave the client with it for good.
			MasterSet: cfg.Store.MasterSet, Password: cfg.Store.SentinelPassword,
			TLSConfig: option.TLSConfig, Dialer: option.Dialer, TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return option, nil
}

// connection is one to the store that ends with a context, since the client waits for a store that
// hangs.
type connection struct {
	net.Conn

	// forget has run's end not close the connection any more: without it, run would refer to each
	// connection that was ever made.
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
		// The client dials in contexts of its own, which do not end with run.
		defer context.AfterFunc(run, cancel)()
		dial := dialer.DialContext
		if settings != nil {
			dial = (&tls.Dialer{NetDialer: dialer, Config: settings}).DialContext
		}
		made, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		end := func() { _ = made.Close() } // nobody waits for what is on its way
		return &connection{made, context.AfterFunc(run, end)}, nil
	}
}
