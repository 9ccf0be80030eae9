package transport

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/clientsetup"
	"github.com/promptweir/promptweir/gateway/origin"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The methods and headers that a page of an allowed origin may send and read (Fetch standard, "CORS
// protocol"). Each Mcp- header is listed, because a browser that sends credentials accepts no
// wildcard.
const (
	allowedMethods = "GET, POST, DELETE"
	allowedHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, " +
		"Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate"
	// preflightAge is the time that a browser may cache the response, in seconds.
	preflightAge = "7200"
)

// shareWithOrigin lets a page of an allowed origin read the response. It returns true if it has
// responded to a preflight request, which has neither a credential nor a message.
func shareWithOrigin(w http.ResponseWriter, r *http.Request, origins origin.Check) (answered bool) {
	origin := origins.Allowed(r)
	if origin == "" {
		return false
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	// Caches must not give one origin's response to another.
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

// serveRoot serves / with a page for browsers. Other clients get 404.
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

// servePage shows a person who opens the endpoint in a browser how to connect a client. Like the
// refusal of a client without a credential, it shows how clients authenticate. It also shows the
// endpoint's URL and the variants.
func servePage(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) {
	auth := s.Config.Auth
	clientsetup.ServePage(w, resourceOf(r, s).String(), clientsetup.AccessOf(auth), clientsetup.RegistrationOf(auth), s.Config.Gateway.Variants...)
}

// wellKnown is the path of the metadata of a protected resource, which names its issuers (RFC 9728,
// section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// serveMetadata serves the resource's metadata.
func (t *Transport) serveMetadata(w http.ResponseWriter, r *http.Request) {
	s := t.publisher.Current()
	authenticator := s.Identity
	resource, known := resourceAt(strings.TrimPrefix(r.URL.Path, wellKnown), r, s)
	if len(authenticator.Issuers()) == 0 || !known {
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

// keySetPath is the path of the keys that verify the gateway's assertions.
const keySetPath = "/.well-known/jwks.json"

// serveKeySet serves the public keys of assertions.
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
func texts(all []string) jsontext.Value {
	var quoted []jsontext.Value
	for _, text := range all {
		quoted = append(quoted, wire.Quote(text))
	}
	return wire.Array(quoted)
}

// allowPublic prepares a response that everyone may read, including pages in browsers. Otherwise it
// responds to the request.
func allowPublic(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) (ok bool) {
	// Check the host but not the origin: any page may read the response, but not by DNS rebinding.
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

// resourceOf returns the endpoint's URL for clients. Without a public_url it has the host of the
// request. Callers check that this is a host of the gateway.
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

// resourceAt returns the public URL of the resource at a path. HTTP+SSE is a resource of its own,
// because clients refuse the metadata of another resource. A variant belongs to the endpoint's
// resource. known is true if the resource's metadata is served at the path: the path of the public
// URL, the path on this host if a proxy strips part of it, or the root, for clients that try only
// the root.
func resourceAt(path string, r *http.Request, s *snapshot.Snapshot) (u *url.URL, known bool) {
	path = strings.TrimSuffix(path, "/")
	gateway, endpoint := &s.Config.Gateway, resourceOf(r, s)
	if sse := gateway.SSEBeside(endpoint); gateway.SSE && (path == config.SSEPath || path == sse.Path) {
		return sse, true
	}
	return endpoint, path == "" || path == gateway.Path || path == endpoint.Path
}

// metadataURL returns the URL of the requested resource's metadata. The well-known path is between
// the host and the resource's path.
func metadataURL(r *http.Request, s *snapshot.Snapshot) string {
	u, _ := resourceAt(r.URL.Path, r, s)
	return u.Scheme + "://" + u.Host + wellKnown + u.EscapedPath()
}
