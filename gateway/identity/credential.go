package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/gateway/policy"
)

// The reasons why a caller is not authenticated. The first two call for 401 and the
// [Authenticator.Challenge], a [*ScopeError] for 403 and the Challenge.
var (
	// ErrNoCredential means that there is no credential, and that one is required.
	ErrNoCredential = errors.New("no credential")
	// ErrBadCredential means that there is a credential, and that it is not valid.
	ErrBadCredential = errors.New("bad credential")
	// ErrUnavailable means that the keys that would verify the credential could not be fetched from
	// its issuer.
	ErrUnavailable = errors.New("identity provider not available")
)

// ScopeError means that a token is valid but lacks some of the required scopes.
type ScopeError struct{ Required []string }

func (e *ScopeError) Error() string {
	return "the token lacks one of the required scopes: " + strings.Join(e.Required, " ")
}

// Credential identifies a client to whichever [Authenticator] is current: after a reload it is
// presented again.
type Credential func(context.Context, *Authenticator) (policy.Principal, error)

// Vouched is the credential of a principal that the operator vouches for. Without an auth block, it
// is in every team.
func Vouched(principal policy.Principal) Credential {
	return func(_ context.Context, a *Authenticator) (policy.Principal, error) {
		p := principal
		p.EveryTeam = !a.Required()
		return p, nil
	}
}

// FromCertificate authenticates a client by its certificate, which the TLS handshake verified
// against an authority of the configuration. The error is [ErrBadCredential].
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

// certifiedName returns the most specific name in a certificate: a URI, as in SPIFFE, else an
// e-mail address, else the common name.
func certifiedName(leaf *x509.Certificate) string {
	switch {
	case len(leaf.URIs) > 0:
		return leaf.URIs[0].String()
	case len(leaf.EmailAddresses) > 0:
		return leaf.EmailAddresses[0]
	}
	return leaf.Subject.CommonName
}

// ClientAddress returns where a request comes from, for logs, spans, and bounds on callers without
// a credential. It follows X-Forwarded-For from hop to hop, for as long as the hop that added an
// address is a trusted proxy.
func ClientAddress(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	var hops []string
	for _, header := range r.Header["X-Forwarded-For"] {
		hops = append(hops, strings.Split(header, ",")...)
	}
	for _, hop := range slices.Backward(hops) {
		hop = strings.TrimSpace(hop)
		if _, err := netip.ParseAddr(hop); err != nil || !isTrusted(trusted, host) {
			break
		}
		host = hop
	}
	return host
}

// FromProxy reports whether a trusted proxy has sent the request.
func FromProxy(r *http.Request, trusted []netip.Prefix) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // of no port comes an empty host, which is none
	return isTrusted(trusted, host)
}

func isTrusted(proxies []netip.Prefix, host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(proxies, func(p netip.Prefix) bool {
		return p.Contains(ip.Unmap().WithZone(""))
	})
}
