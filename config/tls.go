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

// TLS is the tls block of an upstream or of the cluster. Load has checked the PEM texts.
type TLS struct {
	CAs              Secret // empty means the certificates of the system
	Certificate, Key Secret // both or neither
	ServerName       string // empty means the host of the URL
}

// ReadCAs returns settings that trust only the certificates in a PEM file.
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

// Expires returns the expiry of the client certificate, or the zero time if there is none.
func (t *TLS) Expires() time.Time {
	if t != nil {
		for _, b := range pemBlocks(t.Certificate.Reveal()) {
			if cert, err := x509.ParseCertificate(b.Bytes); err == nil {
				return cert.NotAfter // the first certificate is the client's, the next ones sign it
			}
		}
	}
	return time.Time{}
}

// ClientConfig returns new TLS settings for a connection. A nil TLS gives the defaults.
func (t *TLS) ClientConfig() *tls.Config {
	if t == nil {
		return &tls.Config{} // never shared, because the caller sets fields in it
	}
	c := &tls.Config{ServerName: t.ServerName}
	if t.CAs.Reveal() != "" {
		c.RootCAs = certPool(t.CAs)
	}
	if t.Certificate.Reveal() != "" {
		pair, err := tls.X509KeyPair([]byte(t.Certificate.Reveal()), []byte(t.Key.Reveal()))
		if err != nil {
			panic("the key pair was not checked by Load: " + err.Error())
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// certPool returns the certificates in a PEM text that checkCertificates accepts.
func certPool(text Secret) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(text.Reveal()))
	return pool
}

func (t *TLS) table() []hclread.Attribute {
	certificate, key := keyPair(&t.Certificate, &t.Key)
	return []hclread.Attribute{
		hclread.FromEnvironment("ca_file", pemFile(&t.CAs, "ca_file", checkCertificates), "The CAs for the server's certificate, instead of the system's."),
		hclread.FromEnvironment("cert_file", certificate, "A client certificate; needs `key_file`."),
		hclread.FromEnvironment("key_file", key, "Its private key; needs `cert_file`."),
		hclread.FromEnvironment("server_name", hclread.String(&t.ServerName, hclread.Checked(checkServerName)),
			"The name in the server's certificate, instead of the URL's host."),
	}
}

func tlsSchema() hclread.Schema { return hclread.Schema{Attributes: new(TLS).table()} }

func decodeTLS(b *hclread.Block) *TLS {
	if b.IsEmpty() {
		b.Error(b.Range(), "Empty tls", "A %s block without attributes has no effect, and https "+
			"needs none. Remove it, or set ca_file, cert_file and key_file, or server_name.", b.Type())
	}
	var t TLS
	b.Decode(t.table())
	return &t
}

// keyPair returns the fields of cert_file and key_file. Both targets stay empty if one of the files
// is missing or invalid.
func keyPair(certificate, key *Secret) (certFile, keyFile hclread.Field) {
	decode := func(b *hclread.Block) {
		before := b.Reported()
		chain, hasCertificate := decodePEM(b, "cert_file", checkCertificates)
		private, hasKey := decodePEM(b, "key_file", checkKey)
		switch isHalf := b.Has("cert_file") != b.Has("key_file"); {
		case isHalf || hasCertificate != hasKey && b.Reported() == before:
			b.Error(b.Range(), "Incomplete key pair", "cert_file and key_file go together; set both or neither.")
		case hasCertificate && hasKey:
			// The error may quote the files, so it is not shown.
			if _, err := tls.X509KeyPair([]byte(chain.Reveal()), []byte(private.Reveal())); err == nil {
				*certificate, *key = chain, private
				return
			}
			b.Error(b.ValueRange("key_file"), "Key does not match",
				"The key does not belong to the first certificate in cert_file; name two files that were made together.")
		}
	}
	return hclread.Custom("string", nil, decode), hclread.Beside("string", nil)
}

// pemFile returns a field for the content of the file that an attribute names.
func pemFile(dst *Secret, name string, check func(content string) error) hclread.Field {
	return hclread.Custom("string", nil, func(b *hclread.Block) { *dst, _ = decodePEM(b, name, check) })
}

// decodePEM returns the content of the file that an attribute names. The error of check continues a sentence
// that begins with the path.
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

// checkCertificates reports every certificate that does not parse; crypto/x509 would silently skip it.
func checkCertificates(content string) error {
	found := 0
	for _, b := range pemBlocks(content) {
		if b.Type != "CERTIFICATE" || len(b.Headers) > 0 { // AppendCertsFromPEM also skips these blocks
			continue
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return fmt.Errorf("contains a certificate that cannot be parsed, number %d in the file; replace or remove it", found+1)
		}
		found++
	}
	// pem.Decode skips a block without its END, so the beginnings are counted.
	switch begun := strings.Count(content, hclread.PEMStart+"CERTIFICATE-----"); {
	case begun == 0:
		return errors.New(`contains no PEM certificate, which begins with -----BEGIN CERTIFICATE-----; convert DER with: openssl x509 -inform der`)
	case found < begun:
		return errors.New("contains a truncated certificate; copy it again from BEGIN to END")
	}
	return nil
}

// checkKey accepts a file with a private key that needs no password.
func checkKey(content string) error {
	for _, b := range pemBlocks(content) {
		switch {
		case b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED"):
			return errors.New("is encrypted, and there is no one to ask for the password; decrypt it with: openssl pkey")
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			return nil
		}
	}
	return errors.New("contains no PEM private key, which begins with -----BEGIN PRIVATE KEY-----")
}

func pemBlocks(content string) []*pem.Block {
	var blocks []*pem.Block
	for b, rest := pem.Decode([]byte(content)); b != nil; b, rest = pem.Decode(rest) {
		blocks = append(blocks, b)
	}
	return blocks
}

// checkServerName accepts ASCII names, as certificates contain them.
func checkServerName(s string) error {
	if !isHost(s) || strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) {
		return errors.New(`is not a host; write it as in a certificate, like "mcp.example.com"`)
	}
	return nil
}

// ServerTLS is the gateway's tls block. Load has checked the PEM texts.
type ServerTLS struct {
	// Certificate is the gateway's chain, and Key its private key.
	Certificate, Key Secret
	// CertFile and KeyFile are the paths of Certificate and Key, for loading a renewed certificate.
	CertFile, KeyFile string
	// ClientCAs sign client certificates. If it is empty, the gateway requests no certificates.
	ClientCAs Secret
	// as is the prefix of the subjects of client certificates.
	as string
}

// ServerConfig returns new TLS settings for clients, without the gateway's certificate. If there are ClientCAs,
// a client certificate is verified if a client sends it, and required if demand is true.
func (t *ServerTLS) ServerConfig(demand bool) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12} // Go's default, but GODEBUG could lower that
	if t.ClientCAs.Reveal() == "" {
		return c
	}
	c.ClientCAs, c.ClientAuth = certPool(t.ClientCAs), tls.VerifyClientCertIfGiven
	if demand {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c
}

func (t *ServerTLS) table(ids *identities) []hclread.Attribute {
	certificate, key := keyPair(&t.Certificate, &t.Key)
	as := hclread.Custom("string", nil, func(b *hclread.Block) {
		switch {
		case b.Has("client_ca_file"):
			ids.decodeAs(b, &t.as, "client certificates")
		case b.Has("as"):
			b.Error(b.ValueRange("as"), "as without client_ca_file", "It is a prefix for the "+
				"subjects of client certificates, which clients are not asked for; remove it, or set client_ca_file.")
		}
	})
	return []hclread.Attribute{
		hclread.FromEnvironment("cert_file", certificate, "The PEM file of the chain; changes are loaded.").Or("required"),
		hclread.FromEnvironment("key_file", key, "Its private key; `cert_file` needs it."),
		hclread.FromEnvironment("client_ca_file", pemFile(&t.ClientCAs, "client_ca_file", checkCertificates),
			"The CAs of client certificates, which are requested only with it."),
		hclread.Plain("as", as, "The prefix of client certificates' subjects: see [auth](#auth)."),
	}
}

func decodeServerTLS(b *hclread.Block, ids *identities) *ServerTLS {
	if b.Lacks("cert_file") && b.Lacks("key_file") {
		b.Error(b.Range(), "Missing cert_file", "A server needs a certificate: set cert_file and key_file.")
	}
	var t ServerTLS
	b.Decode(t.table(ids))
	if t.Certificate.Reveal() != "" {
		cert, _ := b.Text("cert_file")
		key, _ := b.Text("key_file")
		t.CertFile, t.KeyFile = b.ResolvePath(cert.Value), b.ResolvePath(key.Value)
	}
	return &t
}
