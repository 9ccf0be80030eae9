package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/system"
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
		// Checked after resolution, on the address that is really dialed, so that no DNS name gets
		// around it.
		if dialGuard != nil {
			if err := dialGuard(address); err != nil {
				return &guardError{err}
			}
		}
		return system.SetUserTimeout(connection, userTimeout)
	}
	return dialer
}

// newNetwork returns a transport to a URL, whose host was granted so. It keeps as many connections as are used at once.
func newNetwork(
	connections int, block *config.TLS, to string, grant config.HostGrant, dialGuard func(address string) error,
) *http.Transport {
	network := &http.Transport{
		DialContext: newDialer(dialGuard).DialContext, ForceAttemptHTTP2: true, HTTP2: keepAliveHTTP2(),
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: idleTimeout,
		TLSClientConfig: tlsConfig(block), TLSHandshakeTimeout: dialTimeout,
		// Without compression, max_message bounds both what comes over the wire and what is read.
		DisableCompression: true,
	}
	useProxy(network, to, grant, dialGuard)
	return network
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

// noRedirects makes an http.Client return a redirect as it is: following it would take the server's
// credentials elsewhere.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// A connection whose other side has vanished without a word, or behind a firewall that has
// forgotten it, is closed after 30 seconds without an answer: otherwise a stream of changes would
// wait on it for ever. Package upstream finds out about a server that is there and does not answer.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	// userTimeout is how long sent bytes may stay without acknowledgement (RFC 5482), for which
	// keep-alive does not look.
	userTimeout = keepAliveIdle + keepAliveCount*keepAliveInterval
	// pingTimeout is how long the peer of an HTTP/2 connection may take to answer a PING frame. One
	// is sent when nothing was received for keepAliveIdle.
	pingTimeout = keepAliveCount * keepAliveInterval
)

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}
}

// keepAliveHTTP2 does for HTTP/2 what keep-alive cannot: behind a proxy that answers for a peer,
// only frames reach that.
func keepAliveHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: keepAliveIdle, PingTimeout: pingTimeout}
}

// dialContext is that of an [http.Transport].
type dialContext func(ctx context.Context, network, address string) (net.Conn, error)

// leavingErrorsToReads returns a function that dials connections for TLS on which a write fails in
// silence once the peer has closed them. In TLS 1.3 a client sends its first request before the
// server has looked at the client's certificate (RFC 8446, section 4.4.2.4). If the server refuses
// that, it sends an alert and closes the connection, and the write of the request fails while the
// alert waits to be read. net/http returns the error of the write, which says nothing; the read
// says why.
func leavingErrorsToReads(dial dialContext) dialContext {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &readErrorsConn{conn}, nil
	}
}

// readErrorsConn is a connection that only reads find closed by the peer. They do: whatever ends a
// write like this ends the next read as well, after all that had arrived before.
type readErrorsConn struct{ net.Conn }

// Write implements [net.Conn].
func (c *readErrorsConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}

// withRefusal adds to the error of a request the alert that ended its connection before the request
// was written. It is nil-safe. Net/http then tells only that the connection was closed, which it
// did itself; crypto/tls returns the alert from each further read.
func (c *connection) withRefusal(err error) error {
	if c == nil || !foundConnectionClosed(err) {
		return err
	}
	if secured := c.secured.Load(); secured != nil {
		_ = secured.SetReadDeadline(time.Now().Add(time.Second)) // in case that it is not closed
		if _, ended := secured.Read(make([]byte, 1)); ended != nil {
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
	return err
}

// foundConnectionClosed reports whether net/http found that the reader of the connection had closed
// it, before it wrote the header of the request or before it wrote the body. It does not export the
// errors of HTTP/2.
func foundConnectionClosed(err error) bool {
	text := err.Error()
	return errors.Is(err, net.ErrClosed) ||
		strings.Contains(text, "http2: client conn could not be established") ||
		strings.Contains(text, "http2: client conn is closed")
}

// noteMissingCertificates makes a client note when a server asks for a certificate and gets none,
// because none is configured, or it is from an issuer that the server did not name.
func noteMissingCertificates(settings *tls.Config, missing *atomic.Bool) {
	// The choice is that of crypto/tls without this function.
	settings.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range settings.Certificates {
			if asked.SupportsCertificate(&settings.Certificates[i]) == nil {
				return &settings.Certificates[i], nil
			}
		}
		missing.Store(true)
		return new(tls.Certificate), nil
	}
}

// tlsRefusal is a text by which servers answer a request, with a 400, whose connection does not
// have the TLS that they want.
type tlsRefusal struct {
	text string
	kind Kind
}

// tlsRefusals are those of Go, nginx and Apache.
var tlsRefusals = []tlsRefusal{ //nolint:gochecknoglobals // a constant table
	{"HTTP request to an HTTPS server", NeedsTLS},
	{"plain HTTP request was sent to HTTPS port", NeedsTLS},
	{"speaking plain HTTP to an SSL-enabled", NeedsTLS},
	{"No required SSL certificate was sent", CertificateMissing},
	{"The SSL certificate error", CertificateRefused},
}

// tlsRefusalIn returns the refusal that a response consists of; the zero value if it is any other
// response.
func tlsRefusalIn(status int, body []byte) tlsRefusal {
	if status == http.StatusBadRequest {
		for _, refusal := range tlsRefusals {
			if bytes.Contains(body, []byte(refusal.text)) {
				return refusal
			}
		}
	}
	return tlsRefusal{}
}
