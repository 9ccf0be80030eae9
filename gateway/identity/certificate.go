package identity

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/gateway/policy"
)

// FromCertificate says whom a client's certificate stands for, which an authority of the configuration was found to vouch
// for when the connection was made. The error is [ErrBadCredential].
func (a *Authenticator) FromCertificate(leaf *x509.Certificate) (policy.Principal, error) {
	if a.certificates == nil {
		return a.anonymous()
	}
	if !time.Now().Before(leaf.NotAfter) { // a connection may outlast it
		return policy.Principal{}, fmt.Errorf("%w: the certificate has expired", ErrBadCredential)
	}
	subject, err := subject(a.certificates.As, certified(leaf))
	if err != nil {
		return policy.Principal{}, err
	}
	return policy.Principal{Subject: subject, Source: "certificate", Expires: leaf.NotAfter}, nil
}

// certified is the name in a certificate that says most exactly who it is: a URI as SPIFFE has them, else an e-mail
// address, else the common name.
func certified(leaf *x509.Certificate) string {
	switch {
	case len(leaf.URIs) > 0:
		return leaf.URIs[0].String()
	case len(leaf.EmailAddresses) > 0:
		return leaf.EmailAddresses[0]
	}
	return leaf.Subject.CommonName
}
