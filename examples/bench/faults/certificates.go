//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// certificates returns the TLS settings of a server whose certificate expires with the mode. The CA that signs it is new, and its
// certificate is written to a file.
func certificates(file string, now func() mode) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf := func(until time.Time) (*tls.Certificate, error) {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		signed, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), key)
		return &tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, err
	}
	valid, err := leaf(time.Now().Add(24 * time.Hour))
	if err != nil {
		return nil, err
	}
	past, err := leaf(time.Now().Add(-24 * time.Hour))
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if now() == expired {
			return past, nil
		}
		return valid, nil
	}}
	return settings, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}
