package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// ServerTLS is the tls block of the gateway. The contents of the files are PEM that was checked.
type ServerTLS struct {
	// Certificate is the chain that clients are shown, and Key its private key.
	Certificate, Key Secret
	// CertFile and KeyFile are where the two were read, and can be read again after a renewal.
	CertFile, KeyFile string
	// ClientCAs sign the certificates of clients; empty means that clients are not asked for any.
	ClientCAs Secret
	// as goes in front of the subjects of client certificates.
	as string
}

// ServerConfig returns TLS settings for connections of clients, a new value with each call and without the certificate that
// clients are shown. A client certificate is verified if there is one, and required if demand is set. It fails only if
// [Load] did not make t.
func (t *ServerTLS) ServerConfig(demand bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12} // Go would do the same, but a GODEBUG could change it
	cas := t.ClientCAs.Reveal()
	if cas == "" {
		return c, nil
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM([]byte(cas)) {
		return nil, errors.New("client_ca_file contains no PEM certificate")
	}
	if demand {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func serverTLSSchema() hclread.Schema {
	return hclread.Schema{
		Plain:    []string{"as"},
		External: []string{"cert_file", "key_file", "client_ca_file"},
	}
}

func decodeServerTLS(b *hclread.Block, ids *identities) *ServerTLS {
	if b.Lacks("cert_file") && b.Lacks("key_file") {
		b.Error(b.Range(), "Missing cert_file", "A server needs a certificate: set cert_file and key_file.")
	}
	var t ServerTLS
	t.Certificate, t.Key = decodeKeyPair(b)
	if t.Certificate.Reveal() != "" {
		cert, _ := b.Text("cert_file")
		key, _ := b.Text("key_file")
		t.CertFile, t.KeyFile = b.ResolvePath(cert.Value), b.ResolvePath(key.Value)
	}
	t.ClientCAs, _ = decodePEM(b, "client_ca_file", checkCertificates)
	switch {
	case b.Has("client_ca_file"):
		t.as = ids.decodeAs(b, "client certificates")
	case b.Has("as"):
		b.Error(b.ValueRange("as"), "as without client_ca_file", "It goes in front of the subjects of client certificates, and clients are not asked for any; remove it, or set client_ca_file.")
	}
	return &t
}
