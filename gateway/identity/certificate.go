package identity

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/gateway/policy"
)

// FromCertificate authenticates a client by its certificate, which the TLS handshake verified against an authority of the
// configuration. The error is [ErrBadCredential].
func (a *Authenticator) FromCertificate(leaf *x509.Certificate) (policy.Principal, error) {
	if a.certificates == nil {
		return a.anonymous()
	}
	// The handshake checked this too, but a connection may outlast its certificate.
	if !time.Now().Before(leaf.NotAfter) {
		return policy.Principal{}, fmt.Errorf("%w: the certificate has expired", ErrBadCredential)
	}
	subject, err := subject(a.certificates.As, certifiedName(leaf))
	if err != nil {
		return policy.Principal{}, err
	}
	return policy.Principal{Subject: subject, Source: "certificate", Expires: leaf.NotAfter}, nil
}

// certifiedName returns the most specific name in a certificate: a URI, as in SPIFFE, else an e-mail address, else the
// common name.
func certifiedName(leaf *x509.Certificate) string {
	switch {
	case len(leaf.URIs) > 0:
		return leaf.URIs[0].String()
	case len(leaf.EmailAddresses) > 0:
		return leaf.EmailAddresses[0]
	}
	return leaf.Subject.CommonName
}
