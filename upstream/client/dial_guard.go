package client

import (
	"crypto/tls"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/config"
)

const (
	// dialTimeout is how long it may take to connect, and again to shake hands over TLS.
	dialTimeout = 5 * time.Second
	// idleTimeout is how long a connection that nobody uses is kept.
	idleTimeout = 90 * time.Second
)

// newDialer returns what makes the connections to a server.
func newDialer(dialGuard func(address string) error) *net.Dialer {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive()}
	dialer.Control = func(_, address string, connection syscall.RawConn) error {
		// Checked after resolution, on the address that is really dialed, so that no DNS name gets around it.
		if dialGuard != nil {
			if err := dialGuard(address); err != nil {
				return &guardError{err}
			}
		}
		return setUserTimeout(connection)
	}
	return dialer
}

// newNetwork returns a transport that keeps as many connections as are used at once.
func newNetwork(connections int, block *config.TLS, dialGuard func(address string) error) *http.Transport {
	return &http.Transport{
		DialContext: newDialer(dialGuard).DialContext, ForceAttemptHTTP2: true, HTTP2: keepAliveHTTP2(),
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: idleTimeout,
		TLSClientConfig: tlsConfig(block), TLSHandshakeTimeout: dialTimeout,
		DisableCompression: true, // so that max_message bounds both what comes over the wire and what is read
	}
}

// guardError is the dial guard's refusal of an address.
type guardError struct{ error }

func (e *guardError) Unwrap() error { return e.error }

// tlsConfig returns the TLS settings of a tls block, which may be nil.
func tlsConfig(block *config.TLS) *tls.Config {
	settings, err := block.ClientConfig()
	if err != nil {
		panic("tls block was not checked by config.Load: " + err.Error())
	}
	settings.MinVersion = tls.VersionTLS12
	return settings
}

// noRedirects makes an http.Client return a redirect as it is: following it would take the server's credentials elsewhere.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
