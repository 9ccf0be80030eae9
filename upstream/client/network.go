package client

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/system"
)

const (
	// dialTimeout is how long it may take to connect, and again to shake hands over TLS.
	dialTimeout = 5 * time.Second
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
)

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}
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
