package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// TLS is the tls block of an upstream: how its https connections are made. What was in the files is PEM that
// was found sound, in a Secret like all that comes from files.
type TLS struct {
	// CAs are the certificates that vouch for the server, and no others; empty means those of the system.
	CAs Secret
	// Certificate is the chain that the server is shown, and Key its private key; both are empty when there
	// is none to show.
	Certificate, Key Secret
	// ServerName is what the server's certificate must be for; empty means the host of the URL.
	ServerName string
}

// ClientConfig returns the settings of a connection, anew with each call. A nil TLS gives the usual ones. It
// fails only on what [Load] did not make.
func (t *TLS) ClientConfig() (*tls.Config, error) {
	if t == nil {
		return &tls.Config{}, nil
	}
	c := &tls.Config{ServerName: t.ServerName}
	if cas := t.CAs.Reveal(); cas != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(cas)) {
			return nil, errors.New("no certificate of an authority in PEM")
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

// pemStart begins every block of a PEM file.
const pemStart = "-----BEGIN "

// tls reads the tls block of an upstream and the files it names.
func (f fields) tls() *TLS {
	f.items(schema{attributes: []string{"ca_file", "cert_file", "key_file", "server_name"}})
	if len(f.block.Body.Attributes) == 0 && len(f.block.Body.Blocks) == 0 {
		f.error(f.block.DefRange(), "Empty tls", "A block %q without attributes has no effect; https needs none. Remove it, or set ca_file, cert_file and key_file, or server_name.", f.block.Type)
	}
	var t TLS
	t.CAs, _ = f.pem("ca_file", checkCertificates)
	f.keyPair(&t)
	field(f, "server_name", public, &t.ServerName, checked(checkServerName))
	return &t
}

// keyPair reads a certificate and its key.
func (f fields) keyPair(t *TLS) {
	before := len(f.diags)
	cert, haveCert := f.pem("cert_file", checkCertificates)
	key, haveKey := f.pem("key_file", checkKey)
	switch one := f.has("cert_file") != f.has("key_file"); {
	case one || haveCert != haveKey && len(f.diags) == before:
		f.error(f.block.DefRange(), "Half a key pair", "cert_file and key_file go together; set both or none.")
	case haveCert && haveKey:
		// Its error is not shown: it may speak of what is in the files.
		if _, err := tls.X509KeyPair([]byte(cert.Reveal()), []byte(key.Reveal())); err != nil {
			f.error(f.at("key_file"), "Key does not fit", "The key is not that of the first certificate in cert_file; name the two that were made together.")
			return
		}
		t.Certificate, t.Key = cert, key
	}
}

// pem returns the content of the file that an attribute names. The team must have been granted it, as for
// file(). The error of check continues a sentence that starts with the path.
func (f fields) pem(name string, check func(content string) error) (content Secret, ok bool) {
	path, ok := f.string(name, public)
	if !ok || path.unset {
		return Secret{}, false
	}
	if strings.Contains(path.value, pemStart) {
		f.mask(path.at)
		path.sensitive = true
		f.invalid(name, path, errors.New("is PEM itself; write the path of a file that holds it"))
		return Secret{}, false
	}
	read, err := f.scope.read(path)
	if err == nil {
		err = check(read)
	}
	if err != nil {
		f.invalid(name, path, err)
		return Secret{}, false
	}
	return NewSecret(read), true
}

// checkCertificates wants all certificates to be sound, where crypto/x509 would leave some out in silence.
func checkCertificates(content string) error {
	found := 0
	for _, b := range pemBlocks(content) {
		if b.Type != "CERTIFICATE" || len(b.Headers) > 0 { // what AppendCertsFromPEM passes over
			continue
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return fmt.Errorf("holds a certificate that does not parse, the one after %d good ones; replace or remove it", found)
		}
		found++
	}
	switch begun := strings.Count(content, pemStart+"CERTIFICATE-----"); {
	case begun == 0:
		return errors.New(`holds no PEM certificate; convert others with: openssl x509 -inform der`)
	case found < begun:
		return errors.New("holds a certificate that is not whole; copy it again from BEGIN to END")
	}
	return nil
}

// checkKey wants a private key that can be read without a password.
func checkKey(content string) error {
	for _, b := range pemBlocks(content) {
		switch {
		case b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED"):
			return errors.New("is encrypted, and nobody is there to ask for the password; decrypt it with: openssl pkey")
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			return nil
		}
	}
	return errors.New("holds no PEM private key")
}

func pemBlocks(content string) []*pem.Block {
	var blocks []*pem.Block
	for b, rest := pem.Decode([]byte(content)); b != nil; b, rest = pem.Decode(rest) {
		blocks = append(blocks, b)
	}
	return blocks
}

func checkServerName(s string) error {
	if !isHost(s) || strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) {
		return errors.New(`is not a host; write it as certificates have it, like "mcp.example.com"`)
	}
	return nil
}
