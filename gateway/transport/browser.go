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

// What a browser lets a page of an allowed origin send and read (Fetch standard, "CORS protocol").
// Every header that begins with Mcp- has to be named: where credentials are sent, a browser takes
// no pattern.
const (
	allowedMethods = "GET, POST, DELETE"
	allowedHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, " +
		"Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate"
	// preflightAge is how long a browser may remember the answer, in seconds.
	preflightAge = "7200"
)

// shareWithOrigin lets a page of an allowed origin read the response. It reports whether it has
// answered the request, which then was a preflight: it has no credentials, and asks for nothing of
// the caller's.
func shareWithOrigin(w http.ResponseWriter, r *http.Request, origins origin.Check) (answered bool) {
	origin := origins.Allowed(r)
	if origin == "" {
		return false
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	// A cache must not give one origin's response to another.
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

// serveRoot serves /: a page to browsers, and nothing to anybody else.
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

// servePage tells a person who has opened the endpoint in a browser how to point a client at it. It
// says how clients authenticate, as the refusal of a client without a credential does, and which
// variants there are, and nothing else that depends on the configuration.
func servePage(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) {
	auth := s.Config.Auth
	clientsetup.ServePage(w, resourceOf(r, s).String(), clientsetup.AccessOf(auth), clientsetup.RegistrationOf(auth), s.Config.Gateway.Variants...)
}

// wellKnown is where a protected resource says who issues tokens for it (RFC 9728, section 3).
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
	_, _ = w.Write(metadata.JSON()) // the client is told by what arrives
}

// keySetPath is where servers find the keys that verify the gateway's assertions.
const keySetPath = "/.well-known/jwks.json"

// serveKeySet serves the public keys of the gateway's assertions.
func (t *Transport) serveKeySet(w http.ResponseWriter, r *http.Request) {
	s := t.publisher.Current()
	keys := s.Assertions.KeySet()
	if keys == nil {
		http.NotFound(w, r)
		return
	}
	if allowPublic(w, r, s) {
		w.Header().Set("Content-Type", wire.ContentJSON)
		_, _ = w.Write(keys) // the client is told by what arrives
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

// allowPublic prepares a response that everybody may read, including pages in browsers, or answers
// the request.
func allowPublic(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) (ok bool) {
	// The host but not the origin: a page may read what is for everybody, but not by rebinding a
	// name.
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

// resourceOf returns the endpoint's URL as clients know it. Without a public_url, it is at the host
// that the client asked, which is one of the gateway's.
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

// resourceAt returns the resource at a path, as clients know its URL: HTTP+SSE is one of its own, since
// clients refuse the metadata of another, and the variants belong to the endpoint. The path is known if
// the resource's metadata is there: by its public URL, by the path on this host, where a proxy strips a
// path, and at the root, for clients that try no other.
func resourceAt(path string, r *http.Request, s *snapshot.Snapshot) (u *url.URL, known bool) {
	path = strings.TrimSuffix(path, "/")
	gateway, endpoint := &s.Config.Gateway, resourceOf(r, s)
	if sse := gateway.SSEBeside(endpoint); gateway.SSE && (path == config.SSEPath || path == sse.Path) {
		return sse, true
	}
	return endpoint, path == "" || path == gateway.Path || path == endpoint.Path
}

// metadataURL returns where clients find the metadata of the resource that they requested: the
// well-known path goes between the host and the resource's path.
func metadataURL(r *http.Request, s *snapshot.Snapshot) string {
	u, _ := resourceAt(r.URL.Path, r, s)
	return u.Scheme + "://" + u.Host + wellKnown + u.EscapedPath()
}
