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
	// required is set if there is an auth block.
	required bool
	// noCredential is the principal of callers without a credential; nil if one is required.
	noCredential *policy.Principal
	tokens       []token
	issuers      []*issuer
	// header is the one that carries the credential in place of Authorization; empty for that.
	header string
	// certificates is nil if client certificates are not accepted.
	certificates *config.ClientCertificates
}

// token is a token block: the hash of a bearer token, and whose it is.
type token struct {
	sha256    [sha256.Size]byte
	principal policy.Principal
}

// New returns the authenticator of a validated configuration. It logs what goes wrong with issuers.
func New(cfg *config.Config, logger *slog.Logger) *Authenticator {
	anonymous := policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	if cfg.Auth == nil {
		anonymous.EveryTeam = true
		return &Authenticator{noCredential: &anonymous}
	}
	a := &Authenticator{required: true, certificates: cfg.Auth.ClientCertificates, header: cfg.Auth.Header()}
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

// InheritKeys copies what a predecessor knows of the keys of the same issuers, so that a reload
// works while a provider is down. Call it before the first use.
func (a *Authenticator) InheritKeys(predecessor *Authenticator) {
	for _, i := range a.issuers {
		for _, old := range predecessor.issuers {
			// Not by the block's name: it may name another issuer now, whose tokens these keys must
			// not verify.
			if old.cfg.Issuer == i.cfg.Issuer && old.cfg.JWKSURL == i.cfg.JWKSURL {
				i.keys.inherit(old.keys)
			}
		}
	}
}

// Required reports whether there is an auth block. Even then, callers without a credential may be
// allowed.
func (a *Authenticator) Required() bool { return a.required }

// Header returns the name of the header that carries the credential of a request.
func (a *Authenticator) Header() string { return cmp.Or(a.header, "Authorization") }

// Issuers returns the issuer of each jwt block, each once: where clients get their tokens. It is empty where
// a proxy in front of the gateway signs people in.
func (a *Authenticator) Issuers() []string {
	var all []string
	if a.header != "" {
		return nil
	}
	for _, i := range a.issuers {
		if !slices.Contains(all, i.cfg.Issuer) {
			all = append(all, i.cfg.Issuer)
		}
	}
	return all
}

// RequestScopes returns the scopes that clients are to request for any jwt block, each once.
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

// Challenge returns the value of the WWW-Authenticate header for an error (RFC 6750, section 3). If
// there are issuers it names the URL of the metadata that tells a client about them (RFC 9728,
// section 5.1).
func (a *Authenticator) Challenge(err error, metadata string) string {
	if len(a.Issuers()) == 0 {
		return "Bearer"
	}
	scopes, code := a.RequestScopes(), "" // without a credential, RFC 6750 wants no error code
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

// FromHeader authenticates the sender of a request by the value of a header of that name, "" if there is none.
// A header that is no longer the [Authenticator.Header] counts as none. The error is [ErrNoCredential], [ErrBadCredential], [ErrUnavailable] or a
// [*ScopeError].
func (a *Authenticator) FromHeader(ctx context.Context, name, value string) (policy.Principal, error) {
	value = strings.Trim(value, " \t")
	switch {
	case !a.required || value == "" || name != a.Header():
		return a.anonymous()
	case a.header != "": // of two values, joined by a comma, none is a token
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

// FromToken authenticates a caller by a bare token, such as one from the environment, "" if there
// is none. White space around it is ignored: a token that was read from a file ends with a line
// break. Errors are those of [Authenticator.FromHeader].
func (a *Authenticator) FromToken(ctx context.Context, token string) (policy.Principal, error) {
	token = strings.TrimSpace(token)
	if !a.required || token == "" {
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

// fromBearer looks the credential up among the token blocks and, if it looks like a JWT, gives it
// to the issuers.
func (a *Authenticator) fromBearer(ctx context.Context, credential string) (policy.Principal, error) {
	var buffer [1 << 10]byte // large enough for most tokens, which then cost no allocation
	sum := sha256.Sum256(append(buffer[:0], credential...))
	// Every token is compared, even after a match, so that the time taken does not depend on which
	// one matches.
	found := -1
	for i := range a.tokens {
		equal := subtle.ConstantTimeCompare(sum[:], a.tokens[i].sha256[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	switch {
	case found >= 0:
		return a.tokens[found].principal, nil
	// Three parts make a JWT. Anything else is refused without troubling an issuer.
	case strings.Count(credential, ".") == 2:
		return a.fromJWT(ctx, credential, sum)
	}
	return policy.Principal{}, fmt.Errorf("%w: unknown token", ErrBadCredential)
}

// Issuer returns who vouches for the principals of a source: an issuer's URL, else the source
// itself, see [policy.Principal].
func (a *Authenticator) Issuer(source string) string {
	for _, i := range a.issuers {
		if i.source == source {
			return i.cfg.Issuer
		}
	}
	return source
}

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

// ScopeError means that a token is valid but lacks some of the required scopes. Request has the
// scopes that a client requests to get them.
type ScopeError struct{ Required, Request []string }

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
