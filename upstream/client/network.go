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

// dialTimeout bounds each TCP connect, the name resolution for a proxy, and the TLS handshake with a token endpoint.
const dialTimeout = 5 * time.Second

// newDialer returns a dialer that refuses the addresses for which dialGuard returns an error. dialGuard may be nil.
func newDialer(dialGuard func(address string) error) *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount},
		Control: func(_, address string, connection syscall.RawConn) error {
			// The guard sees the address after name resolution, so that no DNS name gets around it.
			if dialGuard != nil {
				if err := dialGuard(address); err != nil {
					return &guardError{err}
				}
			}
			return system.SetUserTimeout(connection, userTimeout)
		},
	}
}

// guardError is the dial guard's refusal of an address.
type guardError struct{ error }

func (e *guardError) Unwrap() error { return e.error }

// tlsConfig returns the TLS settings of a tls block, which may be nil.
func tlsConfig(block *config.TLS) *tls.Config {
	settings := block.ClientConfig()
	settings.MinVersion = tls.VersionTLS12
	return settings
}

// noRedirects makes an http.Client return a redirect to its caller. Following a redirect would send the credentials to
// another address.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// TCP keep-alive closes a connection after 30 seconds without an answer, for example if the other machine is down or a
// firewall has lost its state. Otherwise a stream of changes would wait forever. If only the server's process hangs,
// checkHealth in package session detects it.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	// userTimeout bounds the time without an acknowledgement of sent bytes (RFC 5482). Keep-alive
	// does not apply while bytes are unacknowledged.
	userTimeout = keepAliveIdle + keepAliveCount*keepAliveInterval
)

// noteMissingCertificates sets missing when a server requests a certificate and receives none,
// because none is configured or the server does not accept its issuer.
func noteMissingCertificates(settings *tls.Config, missing *atomic.Bool) {
	// The function chooses a certificate as crypto/tls does without it.
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

// tlsRefusal is a text in an HTTP 400 that shows why the server refuses the connection: it lacks TLS, or a client
// certificate that the server accepts.
type tlsRefusal struct {
	text string
	kind Kind
}

// tlsRefusals are the texts with which Go, nginx and Apache refuse a connection.
var tlsRefusals = []tlsRefusal{ //nolint:gochecknoglobals // a constant table
	{"HTTP request to an HTTPS server", NeedsTLS},
	{"plain HTTP request was sent to HTTPS port", NeedsTLS},
	{"speaking plain HTTP to an SSL-enabled", NeedsTLS},
	{"No required SSL certificate was sent", CertificateMissing},
	{"The SSL certificate error", CertificateRefused},
}

// tlsRefusalIn returns the refusal in a response, or the zero value for other responses.
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
