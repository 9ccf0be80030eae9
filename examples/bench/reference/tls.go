package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// secure makes a server speak TLS, with a new certificate that it writes to a file, and a single version of HTTP, so that every
// response was measured with that version.
func secure(server *http.Server, file, version string) error {
	server.Protocols = new(http.Protocols)
	switch version {
	case "1.1":
		server.Protocols.SetHTTP1(true)
	case "2":
		server.Protocols.SetHTTP2(true)
	default:
		return fmt.Errorf("-http %s: want 1.1 or 2", version)
	}
	certificate, err := newCertificate()
	if err != nil {
		return err
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600)
}

// newCertificate returns a self-signed certificate for 127.0.0.1.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// trusting returns the TLS settings of a client that trusts the certificate in a file, or the certificates of the system if file is
// empty.
func trusting(file string) (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS13}
	if file == "" {
		return settings, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	settings.RootCAs = x509.NewCertPool()
	if !settings.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return settings, nil
}
