package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
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

// withRefusal adds to the error of a request the alert that ended its connection before the request began. It is nil-safe. Of
// HTTP/2, net/http then tells only that there is no connection; crypto/tls returns the alert from each further read.
func (c *connection) withRefusal(err error) error {
	if c == nil || !strings.Contains(err.Error(), "client conn could not be established") { // net/http does not export it
		return err
	}
	if secured := c.secured.Load(); secured != nil {
		if _, ended := secured.Read(make([]byte, 1)); ended != nil {
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
	return err
}

// noteCertificateRequests makes a client without a certificate note when a server asks for one.
func noteCertificateRequests(settings *tls.Config, asked *atomic.Bool) {
	if len(settings.Certificates) > 0 {
		return
	}
	settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked.Store(true)
		return new(tls.Certificate), nil // none, as without this function
	}
}
