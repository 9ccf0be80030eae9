package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// TLS is the tls block of an upstream: how its https connections are made. The contents of the
// files are PEM that was checked.
type TLS struct {
	// CAs are the only certificates that may sign the server's; empty means those of the system.
	CAs Secret
	// Certificate is the chain that the server is shown, and Key its private key; both may be
	// empty.
	Certificate, Key Secret
	// ServerName is the name that the server's certificate must have; empty means the host of the
	// URL.
	ServerName string
}

// ReadCAs returns settings by which only the certificates in a PEM file may sign a server's.
func ReadCAs(path string) (*TLS, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := checkCertificates(string(content)); err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return &TLS{CAs: NewSecret(string(content))}, nil
}

// Expires returns when the certificate does, or the zero time without one.
func (t *TLS) Expires() time.Time {
	if t != nil {
		for _, b := range pemBlocks(t.Certificate.Reveal()) {
			if cert, err := x509.ParseCertificate(b.Bytes); err == nil {
				return cert.NotAfter // the first is the gateway's own
			}
		}
	}
	return time.Time{}
}

// ClientConfig returns TLS settings for a connection, a new value with each call. A nil TLS gives
// the defaults. It fails only if [Load] did not make t.
func (t *TLS) ClientConfig() (*tls.Config, error) {
	if t == nil {
		return &tls.Config{}, nil // the caller sets fields of its own
	}
	c := &tls.Config{ServerName: t.ServerName}
	if cas := t.CAs.Reveal(); cas != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(cas)) {
			return nil, errors.New("ca_file contains no PEM certificate")
		}
	}
	if t.Certificate.Reveal() != "" {
		pair, err := tls.X509KeyPair([]byte(t.Certificate.Reveal()), []byte(t.Key.Reveal()))
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func tlsSchema() hclread.Schema {
	return hclread.Schema{External: []string{"ca_file", "cert_file", "key_file", "server_name"}}
}

func decodeTLS(b *hclread.Block) *TLS {
	if b.IsEmpty() {
		b.Error(b.Range(), "Empty tls", "A %s block without attributes has no effect, and https "+
			"needs none. Remove it, or set ca_file, cert_file and key_file, or server_name.", b.Type())
	}
	var t TLS
	t.CAs, _ = decodePEM(b, "ca_file", checkCertificates)
	t.Certificate, t.Key = decodeKeyPair(b)
	hclread.Set(b, "server_name", &t.ServerName, hclread.Checked(checkServerName))
	return &t
}

// decodeKeyPair decodes a certificate and its key; both are empty if one of them is wrong.
func decodeKeyPair(b *hclread.Block) (certificate, key Secret) {
	before := b.Reported()
	certificate, hasCertificate := decodePEM(b, "cert_file", checkCertificates)
	key, hasKey := decodePEM(b, "key_file", checkKey)
	switch isHalf := b.Has("cert_file") != b.Has("key_file"); {
	case isHalf || hasCertificate != hasKey && b.Reported() == before:
		b.Error(b.Range(), "Incomplete key pair", "cert_file and key_file go together; set both or neither.")
	case hasCertificate && hasKey:
		// The error itself is not shown, since it may quote the files.
		if _, err := tls.X509KeyPair([]byte(certificate.Reveal()), []byte(key.Reveal())); err == nil {
			return certificate, key
		}
		b.Error(b.ValueRange("key_file"), "Key does not match", "The key does not belong to the "+
			"first certificate in cert_file; name two files that were made together.")
	}
	return Secret{}, Secret{}
}

// decodePEM returns the content of the file that an attribute names. The error of check continues a
// sentence that begins with the path.
func decodePEM(b *hclread.Block, name string, check func(content string) error) (content Secret, ok bool) {
	text, path, ok := b.ReadFile(name)
	if !ok {
		return Secret{}, false
	}
	if err := check(text); err != nil {
		b.Invalid(name, path, err)
		return Secret{}, false
	}
	return NewSecret(text), true
}

// checkCertificates reports every certificate that does not parse; crypto/x509 would silently leave
// it out.
func checkCertificates(content string) error {
	found := 0
	for _, b := range pemBlocks(content) {
		if b.Type != "CERTIFICATE" || len(b.Headers) > 0 { // AppendCertsFromPEM skips it too
			continue
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return fmt.Errorf("contains a certificate that cannot be parsed, number %d in the "+
				"file; replace or remove it", found+1)
		}
		found++
	}
	// A block without its END is skipped by pem.Decode, so the beginnings are counted.
	switch begun := strings.Count(content, hclread.PEMStart+"CERTIFICATE-----"); {
	case begun == 0:
		return errors.New(`contains no PEM certificate; convert DER with: openssl x509 -inform der`)
	case found < begun:
		return errors.New("contains a truncated certificate; copy it again from BEGIN to END")
	}
	return nil
}

// checkKey reports a file without a private key that can be read without a password.
func checkKey(content string) error {
	for _, b := range pemBlocks(content) {
		switch {
		case b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED"):
			return errors.New("is encrypted, and there is no one to ask for the password; " +
				"decrypt it with: openssl pkey")
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			return nil
		}
	}
	return errors.New("contains no PEM private key")
}

func pemBlocks(content string) []*pem.Block {
	var blocks []*pem.Block
	for b, rest := pem.Decode([]byte(content)); b != nil; b, rest = pem.Decode(rest) {
		blocks = append(blocks, b)
	}
	return blocks
}

// checkServerName accepts names as certificates have them: in ASCII.
func checkServerName(s string) error {
	if !isHost(s) || strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) {
		return errors.New(`is not a host; write it as in a certificate, like "mcp.example.com"`)
	}
	return nil
}

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

// ServerConfig returns TLS settings for connections of clients, a new value with each call and
// without the certificate that clients are shown. A client certificate is verified if there is one,
// and required if demand is set. It fails only if [Load] did not make t.
func (t *ServerTLS) ServerConfig(demand bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12} // Go would do the same, but a GODEBUG could change it
	cas := t.ClientCAs.Reveal()
	if cas == "" {
		return c, nil
	}
	// Not demanded where a token, or nothing, lets clients in as well.
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
		b.Error(b.ValueRange("as"), "as without client_ca_file", "It is a prefix for the "+
			"subjects of client certificates, which clients are not asked for; remove it, or set client_ca_file.")
	}
	return &t
}
