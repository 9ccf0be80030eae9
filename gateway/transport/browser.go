package transport

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/clientsetup"
	"github.com/promptweir/promptweir/gateway/origin"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The methods and headers that a page of an allowed origin may send and read (Fetch standard, "CORS
// protocol"). A wildcard is not possible: browsers ignore it for requests with credentials.
const (
	allowedMethods = "GET, POST, DELETE"
	allowedHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, " +
		"Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate"
	// preflightAge is the time in seconds for which a browser may cache the response to a preflight
	// request.
	preflightAge = "7200"
)

// shareWithOrigin lets a page of an allowed origin read the response. If the request is a preflight
// request, it responds and returns true.
func shareWithOrigin(w http.ResponseWriter, r *http.Request, origins origin.Check) (answered bool) {
	origin := origins.Allowed(r)
	if origin == "" {
		return false
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	// Vary keeps caches from returning one origin's response to another.
	header.Set("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
		return false
	}
	header.Set("Access-Control-Allow-Methods", allowedMethods)
	header.Set("Access-Control-Allow-Headers", allowedHeaders)
	header.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// serveRoot serves the path /: a page for browsers, and 404 for other clients.
func (t *Transport) serveRoot(w http.ResponseWriter, r *http.Request) {
	s := t.publisher.Current()
	switch err := s.Origins.Request(r); {
	case err != nil:
		refuse(w, http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
	case clientsetup.IsBrowser(r):
		servePage(w, r, s)
	default:
		http.NotFound(w, r)
	}
}

// servePage serves a page about connecting clients. The page needs no credential: it contains the
// endpoint's URL, the variants and the way to authenticate.
func servePage(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) {
	auth := s.Config.Auth
	clientsetup.ServePage(w, resourceOf(r, s).String(), clientsetup.AccessOf(auth), clientsetup.RegistrationOf(auth), s.Config.Gateway.Variants...)
}

// wellKnown is the path of the protected resource metadata (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// serveMetadata serves the protected resource metadata, which names the issuers. It responds with 404
// if there are no issuers.
func (t *Transport) serveMetadata(w http.ResponseWriter, r *http.Request) {
	s := t.publisher.Current()
	authenticator := s.Identity
	resource, ok := resourceAt(strings.TrimPrefix(r.URL.Path, wellKnown), r, s)
	if len(authenticator.Issuers()) == 0 || !ok {
		http.NotFound(w, r)
		return
	}
	if !allowPublic(w, r, s) {
		return
	}
	metadata := wire.Object{}.
		With("resource", wire.Quote(resource.String())).
		With("resource_name", wire.Quote(requests.Name)).
		With("authorization_servers", texts(authenticator.Issuers()))
	if scopes := authenticator.RequestScopes(); len(scopes) > 0 {
		metadata = metadata.With("scopes_supported", texts(scopes))
	}
	metadata = metadata.With("bearer_methods_supported", texts([]string{"header"}))
	w.Header().Set("Content-Type", wire.ContentJSON)
	_, _ = w.Write(metadata.JSON()) // the client notices an incomplete response
}

// keySetPath is the path of the public keys for the gateway's assertions.
const keySetPath = "/.well-known/jwks.json"

// serveKeySet serves the public keys for assertions. It responds with 404 if there are none.
func (t *Transport) serveKeySet(w http.ResponseWriter, r *http.Request) {
	s := t.publisher.Current()
	keys := s.Assertions.KeySet()
	if keys == nil {
		http.NotFound(w, r)
		return
	}
	if allowPublic(w, r, s) {
		w.Header().Set("Content-Type", wire.ContentJSON)
		_, _ = w.Write(keys) // the client notices an incomplete response
	}
}

// texts returns a JSON array of strings.
func texts(all []string) jsontext.Value { return wire.Array(exslices.CastFunc(all, wire.Quote)) }

// allowPublic prepares the response to a GET or HEAD that everyone may read, including pages of any
// origin. For any other method or a foreign host, it responds and returns false.
func allowPublic(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) (ok bool) {
	// Check the host, against DNS rebinding, but not the origin.
	if err := s.Origins.Host(r); err != nil {
		refuse(w, http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
		return false
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", "GET")
		header.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
	default:
		refuseMethod(w, "GET, HEAD, OPTIONS", "Method not allowed")
	}
	return false
}

// resourceOf returns the endpoint's URL for clients. Without a public_url, the URL contains the
// request's host, which the origin check has accepted.
func resourceOf(r *http.Request, s *snapshot.Snapshot) *url.URL {
	settings := &s.Config.Gateway
	if endpoint := settings.PublicEndpoint(); endpoint != nil {
		return endpoint
	}
	u := &url.URL{Scheme: "http", Host: r.Host, Path: settings.Path}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u
}

// resourceAt returns the public URL of the protected resource at a path: HTTP+SSE or the endpoint with
// its variants. HTTP+SSE is a separate resource, because a client refuses metadata whose resource is
// not the URL that it uses. hasMetadata is true if the resource's metadata is served below wellKnown at
// this path. That is the path of the public URL, the path on this host if a proxy strips a part, and
// the root, for clients that try only the root.
func resourceAt(path string, r *http.Request, s *snapshot.Snapshot) (u *url.URL, hasMetadata bool) {
	path = strings.TrimSuffix(path, "/")
	gateway, endpoint := &s.Config.Gateway, resourceOf(r, s)
	if sse := gateway.SSEBeside(endpoint); gateway.SSE && (path == config.SSEPath || path == sse.Path) {
		return sse, true
	}
	return endpoint, path == "" || path == gateway.Path || path == endpoint.Path
}

// metadataURL returns the URL of the metadata of the requested resource: the well-known path, followed
// by the resource's path.
func metadataURL(r *http.Request, s *snapshot.Snapshot) string {
	u, _ := resourceAt(r.URL.Path, r, s)
	return u.Scheme + "://" + u.Host + wellKnown + u.EscapedPath()
}
