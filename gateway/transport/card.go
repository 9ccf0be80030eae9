package transport

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The endpoint can be found by its domain (SEP-2127, an experimental extension of MCP): the catalog
// names the card, the card the endpoint. Both are the same for everybody, and need no credential.
const (
	catalogPath = "/.well-known/ai-catalog.json"
	// cardPath follows that of the endpoint.
	cardPath = "/server-card"

	catalogType = "application/ai-catalog+json"
	cardType    = "application/mcp-server-card+json"
	// cardSchema is the version of the card's format, which a test has a copy of.
	cardSchema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
)

// isCard reports whether a path is that of the card: beneath the endpoint as clients know it, or as
// it is on this host, where a proxy strips a path.
func isCard(path string, s *snapshot.Snapshot) bool {
	settings := &s.Config.Gateway
	endpoint, ok := strings.CutSuffix(path, cardPath)
	return ok && settings.Card && (endpoint == settings.Path || endpoint == settings.PublicEndpoint().Path)
}

// serveCard serves the card, which lists no prompts: what there is depends on the caller.
func (t *Transport) serveCard(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) {
	info := wire.Members(t.requests.ServerInfo()) // as in server/discover
	endpoint := s.Config.Gateway.PublicEndpoint()
	labels := strings.Split(endpoint.Hostname(), ".")
	slices.Reverse(labels)
	remote := wire.Object{}.
		With("type", wire.Quote("streamable-http")).
		With("url", wire.Quote(endpoint.String())).
		With("supportedProtocolVersions", texts(wire.Revisions()))
	servePublic(w, r, s, cardType, wire.Object{}.
		With("$schema", wire.Quote(cardSchema)).
		With("name", wire.Quote(strings.Join(labels, ".")+"/"+requests.Name)).
		With("title", info.Get("name")).
		With("description", wire.Quote("The prompts of many MCP servers at one endpoint.")).
		With("version", info.Get("version")).
		With("remotes", wire.Array([]jsontext.Value{remote.JSON()})))
}

// serveCatalog serves https://github.com/Agent-Card/ai-catalog with what the extension demands of an
// entry.
func (t *Transport) serveCatalog(w http.ResponseWriter, r *http.Request) {
	s := t.publisher.Current()
	if !s.Config.Gateway.Card {
		http.NotFound(w, r)
		return
	}
	endpoint := s.Config.Gateway.PublicEndpoint()
	entry := wire.Object{}.
		With("identifier", wire.Quote("urn:air:"+endpoint.Hostname()+":mcp:"+requests.Name)).
		With("displayName", wire.Quote(requests.Name)).
		With("type", wire.Quote(cardType)).
		With("url", wire.Quote(endpoint.JoinPath(cardPath).String()))
	servePublic(w, r, s, catalogType, wire.Object{}.
		With("specVersion", wire.Quote("1.0")).With("entries", wire.Array([]jsontext.Value{entry.JSON()})))
}

// texts returns a JSON array of strings.
func texts(all []string) jsontext.Value {
	var quoted []jsontext.Value
	for _, text := range all {
		quoted = append(quoted, wire.Quote(text))
	}
	return wire.Array(quoted)
}

// servePublic serves a document to anybody, including pages in browsers.
func servePublic(
	w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot, contentType string, document wire.Object,
) {
	// The host but not the origin: a page may read what is for everybody, but not by rebinding a
	// name.
	if err := s.Origins.Host(r); err != nil {
		refuse(w, http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
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
	body := document.JSON()
	// An ETag that only tells versions apart: nobody gains anything by two documents with the same
	// one.
	hash := fnv.New64a()
	_, _ = hash.Write(body)
	header.Set("Content-Type", contentType)
	header.Set("ETag", fmt.Sprintf(`"%x"`, hash.Sum64()))
	header.Set("Access-Control-Expose-Headers", "ETag")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body)) // which answers If-None-Match
}
