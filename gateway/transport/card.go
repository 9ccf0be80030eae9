package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

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

// aiCatalog is https://github.com/Agent-Card/ai-catalog with what the extension demands of an entry.
type aiCatalog struct {
	SpecVersion string           `json:"specVersion"`
	Entries     []aiCatalogEntry `json:"entries"`
}

type aiCatalogEntry struct {
	Identifier  string `json:"identifier"`
	DisplayName string `json:"displayName"`
	Type        string `json:"type"`
	URL         string `json:"url"`
}

type serverCard struct {
	Schema      string       `json:"$schema"`
	Name        string       `json:"name"`
	Title       string       `json:"title"`
	Description string       `json:"description"`
	Version     string       `json:"version"`
	Remotes     []cardRemote `json:"remotes"`
}

type cardRemote struct {
	Type      string   `json:"type"`
	URL       string   `json:"url"`
	Revisions []string `json:"supportedProtocolVersions"`
}

// isCard reports whether a path is that of the card: beneath the endpoint as clients know it, or as
// it is on this host, where a proxy strips a path.
func isCard(path string, s *snapshot.Snapshot) bool {
	settings := &s.Config.Gateway
	endpoint, ok := strings.CutSuffix(path, cardPath)
	return ok && settings.Card && (endpoint == settings.Path || endpoint == settings.PublicEndpoint().Path)
}

// serveCard serves the card, which lists no prompts: what there is depends on the caller.
func (t *Transport) serveCard(w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot) {
	var info struct{ Name, Version string } // as in server/discover
	if err := json.Unmarshal(t.requests.ServerInfo(), &info); err != nil {
		t.logger.ErrorContext(r.Context(), "server info not read", slog.Any("error", err))
	}
	endpoint := s.Config.Gateway.PublicEndpoint()
	labels := strings.Split(endpoint.Hostname(), ".")
	slices.Reverse(labels)
	servePublic(w, r, s, t.logger, cardType, serverCard{
		Schema:      cardSchema,
		Name:        strings.Join(labels, ".") + "/" + info.Name,
		Title:       info.Name,
		Description: "The prompts of many MCP servers at one endpoint.",
		Version:     info.Version,
		Remotes:     []cardRemote{{"streamable-http", endpoint.String(), wire.Revisions()}},
	})
}

func (t *Transport) serveCatalog(w http.ResponseWriter, r *http.Request) {
	s := t.publisher.Current()
	if !s.Config.Gateway.Card {
		http.NotFound(w, r)
		return
	}
	endpoint := s.Config.Gateway.PublicEndpoint()
	servePublic(w, r, s, t.logger, catalogType, aiCatalog{"1.0", []aiCatalogEntry{{
		Identifier:  "urn:air:" + endpoint.Hostname() + ":mcp:" + requests.Name,
		DisplayName: requests.Name,
		Type:        cardType,
		URL:         endpoint.JoinPath(cardPath).String(),
	}}})
}

// servePublic serves a document to anybody, including pages in browsers.
func servePublic(
	w http.ResponseWriter, r *http.Request, s *snapshot.Snapshot, logger *slog.Logger, contentType string, document any,
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
	body, err := json.Marshal(document)
	if err != nil {
		logger.ErrorContext(r.Context(), "document not encoded", slog.Any("error", err))
		refuse(w, http.StatusInternalServerError, nil, wire.NewError(wire.InternalError, "Internal error"))
		return
	}
	// An ETag that only tells versions apart: nobody gains anything by two documents with the same
	// one.
	hash := fnv.New64a()
	_, _ = hash.Write(body)
	header.Set("Content-Type", contentType)
	header.Set("ETag", fmt.Sprintf(`"%x"`, hash.Sum64()))
	header.Set("Access-Control-Expose-Headers", "ETag")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body)) // which answers If-None-Match
}
