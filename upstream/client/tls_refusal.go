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
)

// dialContext is that of an [http.Transport].
type dialContext func(ctx context.Context, network, address string) (net.Conn, error)

// leavingErrorsToReads returns a function that dials connections for TLS on which a write fails in silence once the peer has
// closed them. In TLS 1.3 a client sends its first request before the server has looked at the client's certificate (RFC 8446,
// section 4.4.2.4). If the server refuses that, it sends an alert and closes the connection, and the write of the request fails
// while the alert waits to be read. net/http returns the error of the write, which says nothing; the read says why.
func leavingErrorsToReads(dial dialContext) dialContext {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &readErrorsConn{conn}, nil
	}
}

// readErrorsConn is a connection that only reads find closed by the peer. They do: whatever ends a write like this ends the next
// read as well, after all that had arrived before.
type readErrorsConn struct{ net.Conn }

// Write implements [net.Conn].
func (c *readErrorsConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}

// withRefusal adds to the error of a request the alert that ended its connection before the request was written. It is nil-safe.
// Of HTTP/2, net/http then tells only that there is no connection; crypto/tls returns the alert from each further read.
func (c *connection) withRefusal(err error) error {
	if c == nil || !foundConnectionClosed(err) {
		return err
	}
	if secured := c.secured.Load(); secured != nil {
		if _, ended := secured.Read(make([]byte, 1)); ended != nil {
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
	return err
}

// foundConnectionClosed reports whether HTTP/2 found that the reader of the connection had closed it, before it wrote the header of
// the request or before it wrote the body. net/http does not export the errors.
func foundConnectionClosed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "http2: client conn could not be established") || strings.Contains(text, "http2: client conn is closed")
}

// noteMissingCertificates makes a client note when a server asks for a certificate and gets none, because none is configured, or
// it is from an issuer that the server did not name.
func noteMissingCertificates(settings *tls.Config, missing *atomic.Bool) {
	settings.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) { // as without this function
		for i := range settings.Certificates {
			if asked.SupportsCertificate(&settings.Certificates[i]) == nil {
				return &settings.Certificates[i], nil
			}
		}
		missing.Store(true)
		return new(tls.Certificate), nil
	}
}

// tlsRefusal is a text by which servers answer a request, with a 400, whose connection does not have the TLS that they want.
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

// tlsRefusalIn returns the refusal that a response consists of; the zero value if it is any other response.
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
