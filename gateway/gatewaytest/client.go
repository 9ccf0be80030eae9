package gatewaytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Latest is the protocol revision of the modern era.
const Latest = "2026-07-28"

// LegacyRevisions are the protocol revisions of the legacy era, oldest first.
var LegacyRevisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} //nolint:gochecknoglobals // a constant list

// Meta is the member _meta of a request of the modern era.
const Meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}`

// Client speaks one revision over Streamable HTTP.
type Client struct {
	*Server

	// TB may differ from the server's if a subtest uses a client.
	TB       testing.TB
	Revision string
	// Headers are sent with each request.
	Headers Headers
}

// At returns the server with the endpoint of a variant in place of the plain one.
func (s *Server) At(variant string) *Server {
	at := *s
	at.URL += "/" + variant
	return &at
}

// Modern returns a client of the modern era, without credentials if the token is "".
func (s *Server) Modern(token string) *Client {
	return &Client{Server: s, TB: s.TB, Revision: Latest, Headers: Bearer(token)}
}

// ModernWith returns a function that calls the gateway as a client of the modern era with
// capabilities.
func (s *Server) ModernWith(token, capabilities string) func(method, params string) Response {
	c := s.Modern(token)
	return func(method, params string) Response {
		body, h := c.Encode("7", method, params)
		body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`,
			`"io.modelcontextprotocol/clientCapabilities":`+capabilities, 1)
		return Send(s.TB, http.MethodPost, s.URL, body, h)
	}
}

// Legacy returns a client of the legacy era that has initialized a session.
func (s *Server) Legacy(revision, token string) *Client {
	s.TB.Helper()
	return s.LegacyWith(revision, token, "{}")
}

// LegacyWith is [Server.Legacy] for a client with capabilities.
func (s *Server) LegacyWith(revision, token, capabilities string) *Client {
	s.TB.Helper()
	c := &Client{Server: s, TB: s.TB, Revision: revision, Headers: Bearer(token)}
	r := c.Call("initialize", strings.Replace(InitializeParams(revision), `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	r.Want(s.TB, http.StatusOK)
	c.Headers = append(c.Headers, "Mcp-Session-Id", r.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revision)
	Send(s.TB, http.MethodPost, s.URL, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.Headers).Want(s.TB, http.StatusAccepted)
	return c
}

// Call makes a request and returns its response, which must satisfy the schema of the client's
// revision.
func (c *Client) Call(method, params string) Response {
	c.TB.Helper()
	return c.CallWithID("1", method, params)
}

// Begin makes a get in the background.
func (c *Client) Begin(name string) <-chan Response {
	response := make(chan Response, 1)
	go func() { response <- c.Call("prompts/get", GetParams(name)) }()
	return response
}

// CallWithID is [Client.Call] with an id and with more headers.
func (c *Client) CallWithID(id, method, params string, more ...string) Response {
	c.TB.Helper()
	body, h := c.Encode(id, method, params)
	r := Send(c.TB, http.MethodPost, c.URL, body, append(h, more...))
	CheckSchema(c.TB, c.Revision, method, r.Body)
	return r
}

// CallUnchecked is [Client.Call] for requests and responses that no schema allows.
func (c *Client) CallUnchecked(method, params string) Response {
	c.TB.Helper()
	body, h := c.Encode("1", method, params)
	return Send(c.TB, http.MethodPost, c.URL, body, h)
}

// Encode returns the body and the headers of a request. Params of the modern era get a _meta unless
// they have one.
func (c *Client) Encode(id, method, params string) (string, Headers) {
	h := append(Headers{}, c.Headers...)
	if params == "" {
		params = "{}"
	}
	if c.Revision == Latest {
		if !strings.Contains(params, `"_meta"`) {
			params = strings.TrimSuffix(strings.TrimSuffix(params, "}"), ",") + "," + Meta + "}"
			params = strings.Replace(params, "{,", "{", 1)
		}
		h = append(Headers{"Mcp-Protocol-Version", Latest, "Mcp-Method", method}, h...)
		var named struct{ Name, URI string }
		if json.Unmarshal([]byte(params), &named) == nil && (method == "prompts/get" || method == "resources/read" || method == "tools/call") {
			h = append(Headers{"Mcp-Name", named.Name + named.URI}, h...)
		}
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params), h
}

// List returns the names on all pages of the list.
func (c *Client) List() []string {
	c.TB.Helper()
	names, params := []string{}, ""
	for {
		page := c.Call("prompts/list", params)
		names = append(names, page.Names(c.TB)...)
		cursor := page.Result(c.TB, "nextCursor")
		if cursor == nil {
			return names
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

// WantList fails the test if the client lists other names.
func (c *Client) WantList(names ...string) {
	c.TB.Helper()
	if got := c.List(); !slices.Equal(names, got) {
		c.TB.Errorf("%s lists (-want +got):\n%s", c.Revision, cmp.Diff(names, got))
	}
}

// Reply replies to a server request.
func (c *Client) Reply(id, result string) {
	c.TB.Helper()
	Send(c.TB, http.MethodPost, c.URL, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result), c.Headers).Want(c.TB, http.StatusAccepted)
}

// InitializeParams returns the params of an initialize request.
func InitializeParams(revision string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"test","version":"1"}}`, revision)
}

// GetParams returns the params of a get without arguments.
func GetParams(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }

// CompleteParams returns the params of a completion of the argument "a".
func CompleteParams(name string) string {
	return fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":""}}`, name)
}
