package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/metric"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// retryIdentity is when a client may ask again whose issuer could not be asked, in seconds.
const retryIdentity = "5"

// authenticate finds out who sends a request, or answers it: 401 where that is not known, 403 where the token lacks a
// scope, and 503 where an issuer does not say.
func (g *Gateway) authenticate(w http.ResponseWriter, r *http.Request, id jsontext.Value) (caller, bool) {
	if r.URL.RawQuery != "" && r.URL.Query().Has("access_token") { // it would be in the logs of whatever is on the way
		refuse(w, http.StatusBadRequest, id, wire.NewError(wire.InvalidRequest, "Bad request: a token belongs in the Authorization header"))
		return caller{}, false
	}
	who, err := g.admit(r.Context(), credential(r))
	if err == nil {
		return who, true
	}
	g.refuseCaller(w, r, id, err)
	return caller{}, false
}

// refuseCaller answers a request of somebody who is not let in.
func (g *Gateway) refuseCaller(w http.ResponseWriter, r *http.Request, id jsontext.Value, err error) {
	status, problem, reason := http.StatusUnauthorized, "Unauthorized: the credential is not valid", "bad"
	_, lacksScope := errors.AsType[*identity.ScopeError](err)
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		g.countRefused(r, err, "unavailable")
		w.Header().Set("Retry-After", retryIdentity)
		refuse(w, http.StatusServiceUnavailable, id,
			wire.NewError(wire.InternalError, "Service unavailable: the identity provider did not answer"))
		return
	case lacksScope:
		status, problem, reason = http.StatusForbidden, "Forbidden: the token lacks a required scope", "scope"
	case errors.Is(err, identity.ErrNoCredential):
		problem, reason = "Unauthorized: a bearer token is required", ""
	}
	if reason != "" {
		g.countRefused(r, err, reason)
	}
	w.Header().Set("WWW-Authenticate", g.setup().identity.Challenge(err, g.metadataURL(r)))
	refuse(w, status, id, wire.NewError(wire.InvalidRequest, problem))
}

// countRefused counts a credential that was not good. Anybody can send any number of them, so each is logged for who looks.
func (g *Gateway) countRefused(r *http.Request, err error, reason string) {
	g.metrics.refused.Add(r.Context(), 1, metric.WithAttributes(attrReason.String(reason)))
	g.logger.DebugContext(r.Context(), "caller refused", slog.Any("error", err), slog.String("client", g.clientAddress(r)))
}

// credential is what a request brings: a token and, without one, the certificate of its connection. It holds on to nothing
// else of the request.
func credential(r *http.Request) Credential {
	credentials := r.Header["Authorization"]
	if len(credentials) == 0 && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		certificate := r.TLS.VerifiedChains[0][0]
		return func(_ context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
			return authenticator.FromCertificate(certificate)
		}
	}
	if len(credentials) == 0 {
		return noCredential
	}
	authorization := strings.Join(credentials, ", ") // of two, none is good
	return func(ctx context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
		return authenticator.FromHeader(ctx, authorization)
	}
}

// noCredential is what a request brings that brings nothing.
func noCredential(ctx context.Context, authenticator *identity.Authenticator) (policy.Principal, error) {
	return authenticator.FromHeader(ctx, "")
}

// until returns the context of what may not go on longer than the credential that it was asked for with; one that
// does not end has no expiry.
func until(ctx context.Context, expiry time.Time) (context.Context, context.CancelFunc) {
	if expiry.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, expiry)
}

// wellKnown is where a protected resource says who issues tokens for it (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// resource is the endpoint as clients know it. Where public_url does not say that, with the endpoint's path or without, it
// is at the host that the client asked, which is one of the gateway's.
func (g *Gateway) resource(r *http.Request) *url.URL {
	if u, err := url.Parse(g.setup().cfg.Gateway.PublicURL); err == nil && u.Host != "" {
		if strings.HasSuffix(u.Path, g.setup().cfg.Gateway.Path) {
			return u
		}
		return u.JoinPath(g.setup().cfg.Gateway.Path)
	}
	u := &url.URL{Scheme: "http", Host: r.Host, Path: g.setup().cfg.Gateway.Path}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u
}

// metadataURL is where a client finds the resource's metadata: its path goes between the host and the resource's own.
func (g *Gateway) metadataURL(r *http.Request) string {
	u := g.resource(r)
	u.Path = wellKnown + u.Path
	return u.String()
}

// hasMetadata reports whether a path is one of the metadata: that for the resource as clients know it, as it is on this
// host where something on the way takes a path away, or the root's for clients that try no other.
func (g *Gateway) hasMetadata(r *http.Request) bool {
	of := strings.TrimPrefix(r.URL.Path, wellKnown)
	return of == "" || of == g.setup().cfg.Gateway.Path || of == g.resource(r).Path
}

// serveMetadata serves the resource's metadata to anybody, pages in browsers included.
func (g *Gateway) serveMetadata(w http.ResponseWriter, r *http.Request) {
	if err := g.setup().hosts.checkHost(r); err != nil {
		refuse(w, http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
		return
	}
	if len(g.setup().identity.Issuers()) == 0 || !g.hasMetadata(r) {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", "GET")
		header.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return
	case http.MethodGet, http.MethodHead:
	default:
		refuseMethod(w, "GET, HEAD, OPTIONS", "Method not allowed")
		return
	}
	body, err := json.Marshal(struct {
		Resource             string   `json:"resource"`
		ResourceName         string   `json:"resource_name"`
		AuthorizationServers []string `json:"authorization_servers"`
		ScopesSupported      []string `json:"scopes_supported,omitempty"`
		BearerMethods        []string `json:"bearer_methods_supported"`
	}{g.resource(r).String(), Name, g.setup().identity.Issuers(), g.setup().identity.Scopes(), []string{"header"}})
	if err != nil {
		g.logger.ErrorContext(r.Context(), "metadata not written", slog.Any("error", err))
		refuse(w, http.StatusInternalServerError, nil, wire.NewError(wire.InternalError, "Internal error"))
		return
	}
	_ = writeJSON(w, http.StatusOK, body) // the client has gone
}

// clientAddress is where a request comes from, for logs and traces. A proxy's word on that counts if it is trusted, and
// then that of the one before it, back to the first that is not.
func (g *Gateway) clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	var hops []string
	for _, header := range r.Header.Values("X-Forwarded-For") {
		hops = append(hops, strings.Split(header, ",")...)
	}
	for _, hop := range slices.Backward(hops) {
		hop = strings.TrimSpace(hop)
		if _, err := netip.ParseAddr(hop); err != nil || !g.trusts(host) {
			break
		}
		host = hop
	}
	return host
}

func (g *Gateway) trusts(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(g.setup().cfg.Gateway.TrustedProxies, func(p netip.Prefix) bool {
		return p.Contains(ip.Unmap().WithZone(""))
	})
}
