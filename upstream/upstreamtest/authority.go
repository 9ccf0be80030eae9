package upstreamtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Authority is a private certificate authority.
type Authority struct {
	Root *x509.Certificate
	// PEM is that of Root.
	PEM string

	tb  testing.TB
	key *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a name, which certificates name as their issuer.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb}
	root := a.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.Root, a.key = root.Leaf, root.PrivateKey.(*ecdsa.PrivateKey)
	a.PEM, _ = PEM(tb, root)
	return a
}

// Issue signs a certificate, which is valid for an hour unless it says otherwise. The authority's
// first one is its own, and signs itself.
func (a *Authority) Issue(c *x509.Certificate) tls.Certificate {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	}
	parent, signer := a.Root, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Server issues a certificate for a host's name or address.
func (a *Authority) Server(host string) tls.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	return a.Issue(c)
}

// Client issues a certificate for a client.
func (a *Authority) Client(name string) tls.Certificate {
	return a.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Pool returns the authority as the only one that is trusted.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Root)
	return pool
}

// Serve serves a handler over TLS, as a host, to clients with a certificate of the authority. Change,
// which may be nil, is called before the server starts.
func (a *Authority) Serve(host string, handler http.Handler, change func(*httptest.Server)) (url string) {
	a.tb.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{a.Server(host)}, MinVersion: tls.VersionTLS10, // as tests of old ones want
		ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // some handshakes are to fail
	if change != nil {
		change(server)
	}
	server.StartTLS()
	a.tb.Cleanup(server.Close)
	return server.URL
}

// PEM returns a certificate and its key in the form in which files have them.
func PEM(tb testing.TB, c tls.Certificate) (certificate, key string) {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
