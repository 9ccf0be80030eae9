package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Authenticator authenticates callers by one configuration. Make it with [New].
type Authenticator struct {
	auth *config.Auth // nil if there is no auth block
	// noCredential is the principal of callers without a credential, or nil if a credential is
	// required.
	noCredential *policy.Principal
	tokens       []token
	issuers      []*issuer
}

// token is a token block: the hash of a bearer token, and the principal that it identifies.
type token struct {
	sha256    [sha256.Size]byte
	principal policy.Principal
}

// New returns the authenticator of a validated configuration. The authenticator logs if an issuer's
// keys cannot be fetched.
func New(cfg *config.Config, logger *slog.Logger) *Authenticator {
	anonymous := policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	if cfg.Auth == nil {
		anonymous.EveryTeam = true
		return &Authenticator{noCredential: &anonymous}
	}
	a := &Authenticator{auth: cfg.Auth}
	if cfg.Auth.Anonymous {
		a.noCredential = &anonymous
	}
	for _, t := range cfg.Auth.Tokens {
		who := policy.Principal{
			Subject: "user:" + config.Qualify(t.As, t.Subject),
			Groups:  groups(t.As, t.Groups),
		}
		a.tokens = append(a.tokens, token{t.SHA256, who})
	}
	for _, j := range cfg.Auth.JWTs {
		a.issuers = append(a.issuers, newIssuer(j, &cfg.Gateway, logger))
	}
	return a
}

// InheritKeys copies the keys of the same issuers from the predecessor. So tokens can still be
// verified after a reload while an issuer is down. Call it before the first use.
func (a *Authenticator) InheritKeys(predecessor *Authenticator) {
	for _, i := range a.issuers {
		for _, old := range predecessor.issuers {
			// Compare issuers, not labels: a label may now belong to another issuer, and these keys
			// must not verify its tokens.
			if old.cfg.Issuer == i.cfg.Issuer && old.cfg.JWKSURL == i.cfg.JWKSURL {
				i.keys.inherit(old.keys)
			}
		}
	}
}

// Required reports whether there is an auth block. The block may allow callers without a credential.
func (a *Authenticator) Required() bool { return a.auth != nil }

// Header returns the name of the request header that contains the credential.
func (a *Authenticator) Header() string { return cmp.Or(a.auth.Header(), "Authorization") }

// Issuers returns the issuers from which clients get their tokens, each once. It returns nil if a
// proxy in front of the gateway gets the tokens.
func (a *Authenticator) Issuers() []string {
	if a.auth.Header() != "" {
		return nil
	}
	all := exslices.CastFunc(a.issuers, func(i *issuer) string { return i.cfg.Issuer })
	return exslices.DeduplicateUnsorted(all)
}

// RequestScopes returns the scopes that clients should request, for all jwt blocks, each once.
func (a *Authenticator) RequestScopes() []string {
	var all []string
	for _, i := range a.issuers {
		all = append(all, i.cfg.RequestScopes...)
	}
	return exslices.DeduplicateUnsorted(all)
}

// Challenge returns the value of the WWW-Authenticate header for an error (RFC 6750, section 3). If
// there are issuers, it contains metadata, the URL of the protected resource metadata (RFC 9728,
// section 5.1).
func (a *Authenticator) Challenge(err error, metadata string) string {
	if len(a.Issuers()) == 0 {
		return "Bearer"
	}
	scopes, code := a.RequestScopes(), "" // RFC 6750 has no error code for a missing credential
	switch scope, ok := errors.AsType[*ScopeError](err); {
	case ok:
		scopes, code = scope.Request, "insufficient_scope"
	case errors.Is(err, ErrBadCredential):
		code = "invalid_token"
	}
	challenge := `Bearer resource_metadata="` + metadata + `"`
	if len(scopes) > 0 {
		challenge += `, scope="` + strings.Join(scopes, " ") + `"`
	}
	if code != "" {
		challenge += `, error="` + code + `"`
	}
	return challenge
}

// FromHeader authenticates a request by a header. It ignores a header other than
// [Authenticator.Header]; value is empty if the request has no such header. The error is
// [ErrNoCredential], [ErrBadCredential], [ErrUnavailable] or a [*ScopeError].
func (a *Authenticator) FromHeader(ctx context.Context, name, value string) (policy.Principal, error) {
	value = strings.Trim(value, " \t")
	switch {
	case a.auth == nil || value == "" || name != a.Header():
		return a.anonymous()
	case a.auth.Header() != "": // a proxy's header contains only the token
		return a.fromBearer(ctx, value)
	}
	// RFC 6750: "Bearer" 1*SP b64token, with the scheme in any case (RFC 9110).
	scheme, credential, _ := strings.Cut(value, " ")
	credential = strings.TrimLeft(credential, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return policy.Principal{}, fmt.Errorf("%w: the authentication scheme is not Bearer", ErrBadCredential)
	case credential == "" || strings.Contains(credential, " ") ||
		strings.Contains(credential, "\t"):
		return policy.Principal{}, fmt.Errorf("%w: Bearer is not followed by exactly one token",
			ErrBadCredential)
	}
	return a.fromBearer(ctx, credential)
}

// FromToken authenticates a caller by a bare token, for example from the environment. token is empty
// if there is no credential. It ignores white space around the token: a token from a file ends with a
// line break. It returns the same errors as [Authenticator.FromHeader].
func (a *Authenticator) FromToken(ctx context.Context, token string) (policy.Principal, error) {
	token = strings.TrimSpace(token)
	if a.auth == nil || token == "" {
		return a.anonymous()
	}
	return a.fromBearer(ctx, token)
}

// anonymous returns the principal of callers without a credential, or [ErrNoCredential] if a
// credential is required.
func (a *Authenticator) anonymous() (policy.Principal, error) {
	if a.noCredential == nil {
		return policy.Principal{}, ErrNoCredential
	}
	return *a.noCredential, nil
}

// fromBearer authenticates a caller by a bearer token: a token that a token block lists, or a JWT.
func (a *Authenticator) fromBearer(ctx context.Context, credential string) (policy.Principal, error) {
	var buffer [1 << 10]byte // saves an allocation for tokens of up to 1 KiB
	sum := sha256.Sum256(append(buffer[:0], credential...))
	// Compare all tokens, even after a match: the time must not depend on which token matches.
	found := -1
	for i := range a.tokens {
		equal := subtle.ConstantTimeCompare(sum[:], a.tokens[i].sha256[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	switch {
	case found >= 0:
		return a.tokens[found].principal, nil
	case strings.Count(credential, ".") == 2: // a signed JWT has three parts
		return a.fromJWT(ctx, credential, sum)
	}
	return policy.Principal{}, fmt.Errorf("%w: unknown token", ErrBadCredential)
}

// Issuer returns the issuer's URL for a [policy.Principal.Source] that stands for a jwt block. It
// returns any other source, such as "certificate", unchanged.
func (a *Authenticator) Issuer(source string) string {
	for _, i := range a.issuers {
		if i.source == source {
			return i.cfg.Issuer
		}
	}
	return source
}

// The errors for a caller who is not authenticated.
var (
	// ErrNoCredential means that a required credential is missing (HTTP 401, with an
	// [Authenticator.Challenge]).
	ErrNoCredential = errors.New("no credential")
	// ErrBadCredential means that the credential is not valid (HTTP 401, with an
	// [Authenticator.Challenge]).
	ErrBadCredential = errors.New("bad credential")
	// ErrUnavailable means that a JWT could not be verified, because the issuer's keys could not be
	// fetched.
	ErrUnavailable = errors.New("identity provider not available")
)

// ScopeError means that a valid token lacks required scopes (HTTP 403, with an
// [Authenticator.Challenge]). Clients should get a new token with the scopes in Request.
type ScopeError struct{ Required, Request []string }

func (e *ScopeError) Error() string {
	return "the token lacks one of the required scopes: " + strings.Join(e.Required, " ")
}

// Credential authenticates a client with the current [Authenticator]. It is called again after each
// reload.
type Credential func(context.Context, *Authenticator) (policy.Principal, error)

// Vouched returns the credential of a principal that the operator has named, as with --as. It is
// always accepted. If there is no auth block, the principal is in every team.
func Vouched(principal policy.Principal) Credential {
	return func(_ context.Context, a *Authenticator) (policy.Principal, error) {
		p := principal
		p.EveryTeam = !a.Required()
		return p, nil
	}
}

// FromCertificate authenticates a client by its certificate, which the TLS handshake has verified. If
// the configuration accepts no certificates, the client counts as a client without a credential. The
// error is [ErrNoCredential] or [ErrBadCredential].
func (a *Authenticator) FromCertificate(leaf *x509.Certificate) (policy.Principal, error) {
	if a.auth == nil || a.auth.ClientCertificates == nil {
		return a.anonymous()
	}
	// Check again after the handshake: a connection may outlast its certificate.
	if !time.Now().Before(leaf.NotAfter) {
		return policy.Principal{}, fmt.Errorf("%w: the certificate has expired", ErrBadCredential)
	}
	subject, err := subject(a.auth.ClientCertificates.As, certifiedName(leaf))
	if err != nil {
		return policy.Principal{}, err
	}
	return policy.Principal{Subject: subject, Source: "certificate", Expires: leaf.NotAfter}, nil
}

// certifiedName returns the most specific name in a certificate: a URI, as in SPIFFE, or an e-mail
// address, or the common name.
func certifiedName(leaf *x509.Certificate) string {
	switch {
	case len(leaf.URIs) > 0:
		return leaf.URIs[0].String()
	case len(leaf.EmailAddresses) > 0:
		return leaf.EmailAddresses[0]
	}
	return leaf.Subject.CommonName
}

// ClientAddress returns the network address of a request's client: the peer of the connection or, if
// that is a trusted proxy, the last address in X-Forwarded-For that is not a trusted proxy's.
func ClientAddress(r *http.Request, gateway *config.Gateway) string {
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
		if _, err := netip.ParseAddr(hop); err != nil || !gateway.IsProxy(host) {
			break
		}
		host = hop
	}
	return host
}

// FromProxy reports whether the peer of the request's connection is a trusted proxy.
func FromProxy(r *http.Request, gateway *config.Gateway) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // after an error, host is empty, which is no proxy
	return gateway.IsProxy(host)
}
