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

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Authenticator authenticates callers by one configuration. Make it with [New].
type Authenticator struct {
	auth *config.Auth // nil without an auth block
	// noCredential is the principal of callers without a credential; nil if one is required.
	noCredential *policy.Principal
	tokens       []token
	issuers      []*issuer
}

// token is a token block: the hash of a bearer token, and its principal.
type token struct {
	sha256    [sha256.Size]byte
	principal policy.Principal
}

// New returns the authenticator of a validated configuration. It logs problems with issuers.
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

// InheritKeys copies the predecessor's keys of the same issuers, so that a reload works while a
// provider is down. Call it before the first use.
func (a *Authenticator) InheritKeys(predecessor *Authenticator) {
	for _, i := range a.issuers {
		for _, old := range predecessor.issuers {
			// Compare the issuer, not the block's label: the label may belong to another issuer
			// now, whose tokens these keys must not verify.
			if old.cfg.Issuer == i.cfg.Issuer && old.cfg.JWKSURL == i.cfg.JWKSURL {
				i.keys.inherit(old.keys)
			}
		}
	}
}

// Required reports whether there is an auth block. Callers without a credential may still be
// allowed.
func (a *Authenticator) Required() bool { return a.auth != nil }

// Header returns the name of the header with the credential of a request.
func (a *Authenticator) Header() string { return cmp.Or(a.auth.Header(), "Authorization") }

// Issuers returns the issuer of each jwt block, each once, where clients get their tokens. It is
// empty if a proxy in front of the gateway signs people in.
func (a *Authenticator) Issuers() []string {
	if a.auth.Header() != "" {
		return nil
	}
	var all []string
	for _, i := range a.issuers {
		if !slices.Contains(all, i.cfg.Issuer) {
			all = append(all, i.cfg.Issuer)
		}
	}
	return all
}

// RequestScopes returns the scopes that clients should request for any jwt block, each once.
func (a *Authenticator) RequestScopes() []string {
	var all []string
	for _, i := range a.issuers {
		for _, scope := range i.cfg.RequestScopes {
			if !slices.Contains(all, scope) {
				all = append(all, scope)
			}
		}
	}
	return all
}

// Challenge returns the value of the WWW-Authenticate header for an error (RFC 6750, section 3).
// With issuers, it contains the URL of the metadata about them (RFC 9728, section 5.1).
func (a *Authenticator) Challenge(err error, metadata string) string {
	if len(a.Issuers()) == 0 {
		return "Bearer"
	}
	scopes, code := a.RequestScopes(), "" // without a credential, RFC 6750 has no error code
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

// FromHeader authenticates a request by the value of a header; "" for no header. A header other
// than [Authenticator.Header] is ignored. The error is [ErrNoCredential], [ErrBadCredential],
// [ErrUnavailable] or a [*ScopeError].
func (a *Authenticator) FromHeader(ctx context.Context, name, value string) (policy.Principal, error) {
	value = strings.Trim(value, " \t")
	switch {
	case a.auth == nil || value == "" || name != a.Header():
		return a.anonymous()
	case a.auth.Header() != "": // two values, joined by a comma, are not a token
		return a.fromBearer(ctx, value)
	}
	// RFC 6750: "Bearer" 1*SP b64token, with the scheme in any case (RFC 9110).
	scheme, credential, _ := strings.Cut(value, " ")
	credential = strings.TrimLeft(credential, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return policy.Principal{}, fmt.Errorf("%w: the authentication scheme is not Bearer",
			ErrBadCredential)
	case credential == "" || strings.Contains(credential, " ") ||
		strings.Contains(credential, "\t"):
		return policy.Principal{}, fmt.Errorf("%w: Bearer is not followed by exactly one token",
			ErrBadCredential)
	}
	return a.fromBearer(ctx, credential)
}

// FromToken authenticates a caller by a bare token, such as one from the environment; "" for none.
// White space around it is ignored, since a token from a file ends with a line break. It returns
// the same errors as [Authenticator.FromHeader].
func (a *Authenticator) FromToken(ctx context.Context, token string) (policy.Principal, error) {
	token = strings.TrimSpace(token)
	if a.auth == nil || token == "" {
		return a.anonymous()
	}
	return a.fromBearer(ctx, token)
}

// anonymous returns the principal of callers without a credential, if they are allowed.
func (a *Authenticator) anonymous() (policy.Principal, error) {
	if a.noCredential == nil {
		return policy.Principal{}, ErrNoCredential
	}
	return *a.noCredential, nil
}

// fromBearer compares the credential with the token blocks. If it looks like a JWT, it passes it to
// the issuers.
func (a *Authenticator) fromBearer(ctx context.Context, credential string) (policy.Principal, error) {
	var buffer [1 << 10]byte // avoids an allocation for most tokens
	sum := sha256.Sum256(append(buffer[:0], credential...))
	// Compare all tokens, even after a match, so that the time does not depend on the position of
	// the matching token.
	found := -1
	for i := range a.tokens {
		equal := subtle.ConstantTimeCompare(sum[:], a.tokens[i].sha256[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	switch {
	case found >= 0:
		return a.tokens[found].principal, nil
	// A JWT has three parts. Anything else is refused without asking an issuer.
	case strings.Count(credential, ".") == 2:
		return a.fromJWT(ctx, credential, sum)
	}
	return policy.Principal{}, fmt.Errorf("%w: unknown token", ErrBadCredential)
}

// Issuer returns the issuer of the jwt block to which a [policy.Principal.Source] belongs. It
// returns any other source, such as "certificate", unchanged.
func (a *Authenticator) Issuer(source string) string {
	for _, i := range a.issuers {
		if i.source == source {
			return i.cfg.Issuer
		}
	}
	return source
}

// The reasons why a caller is not authenticated. The first two result in 401 with the
// [Authenticator.Challenge], a [*ScopeError] in 403 with it.
var (
	// ErrNoCredential means that a credential is required and there is none.
	ErrNoCredential = errors.New("no credential")
	// ErrBadCredential means that the credential is not valid.
	ErrBadCredential = errors.New("bad credential")
	// ErrUnavailable means that the issuer's keys, which would verify the credential, could not be
	// fetched.
	ErrUnavailable = errors.New("identity provider not available")
)

// ScopeError means that a valid token lacks required scopes. Request contains the scopes that
// clients should request.
type ScopeError struct{ Required, Request []string }

func (e *ScopeError) Error() string {
	return "the token lacks one of the required scopes: " + strings.Join(e.Required, " ")
}

// Credential authenticates a client with the current [Authenticator]. It is used again after a
// reload.
type Credential func(context.Context, *Authenticator) (policy.Principal, error)

// Vouched returns the credential of a principal that the operator has named. Without an auth block,
// the principal is in every team.
func Vouched(principal policy.Principal) Credential {
	return func(_ context.Context, a *Authenticator) (policy.Principal, error) {
		p := principal
		p.EveryTeam = !a.Required()
		return p, nil
	}
}

// FromCertificate authenticates a client by its certificate. The TLS handshake has verified it
// against an authority of the configuration. The error is [ErrBadCredential] or, if the
// configuration accepts no certificates, [ErrNoCredential].
func (a *Authenticator) FromCertificate(leaf *x509.Certificate) (policy.Principal, error) {
	if a.auth == nil || a.auth.ClientCertificates == nil {
		return a.anonymous()
	}
	// The handshake checked this as well, but a connection may outlast its certificate.
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

// ClientAddress returns the network address of a request's client, for logs, spans, and bounds on
// callers without a credential. It follows X-Forwarded-For from hop to hop while the hop that added
// an address is a trusted proxy.
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

// FromProxy reports whether a trusted proxy has sent the request.
func FromProxy(r *http.Request, gateway *config.Gateway) bool {
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // without a port, the host is empty and not trusted
	return gateway.IsProxy(host)
}
