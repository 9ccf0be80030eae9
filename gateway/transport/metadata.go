package transport

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// wellKnown is where a protected resource says who issues tokens for it (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// serveMetadata serves the resource's metadata to anybody, including pages in browsers.
func (t *Transport) serveMetadata(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Transport: t, w: w, r: r, snapshot: t.publisher.Current()}
	if err := x.snapshot.Origins.Host(r); err != nil {
		x.refuse(http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
		return
	}
	authenticator := x.snapshot.Identity
	if len(authenticator.Issuers()) == 0 || !x.hasMetadata() {
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
		x.refuseMethod("GET, HEAD, OPTIONS", "Method not allowed")
		return
	}
	body, err := json.Marshal(struct {
		Resource             string   `json:"resource"`
		ResourceName         string   `json:"resource_name"`
		AuthorizationServers []string `json:"authorization_servers"`
		ScopesSupported      []string `json:"scopes_supported,omitempty"`
		BearerMethods        []string `json:"bearer_methods_supported"`
	}{x.resource().String(), requests.Name, authenticator.Issuers(), authenticator.Scopes(), []string{"header"}})
	if err != nil {
		t.logger.ErrorContext(r.Context(), "metadata not encoded", slog.Any("error", err))
		x.refuse(http.StatusInternalServerError, nil, wire.NewError(wire.InternalError, "Internal error"))
		return
	}
	_ = writeJSON(w, http.StatusOK, body) // an error means that the client has gone
}

// resource returns the endpoint's URL as clients know it. Without a public_url, it is at the host that the client asked,
// which is one of the gateway's.
func (x *exchange) resource() *url.URL {
	settings := &x.snapshot.Config.Gateway
	if endpoint := settings.PublicEndpoint(); endpoint != nil {
		return endpoint
	}
	u := &url.URL{Scheme: "http", Host: x.r.Host, Path: settings.Path}
	if x.r.TLS != nil {
		u.Scheme = "https"
	}
	return u
}

// metadataURL returns where clients find the metadata: the well-known path goes between the host and the resource's path.
func (x *exchange) metadataURL() string {
	u := x.resource()
	u.Path = wellKnown + u.Path
	return u.String()
}

// hasMetadata reports whether the request's path is one of the metadata: that of the resource as clients know it, that of
// the endpoint on this host, where a proxy strips a path, or the root's, for clients that try no other.
func (x *exchange) hasMetadata() bool {
	of := strings.TrimPrefix(x.r.URL.Path, wellKnown)
	return of == "" || of == x.snapshot.Config.Gateway.Path || of == x.resource().Path
}
