package gatewaytest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// SSEClient speaks HTTP+SSE: its requests go to an endpoint of their own, and all responses arrive
// on its stream.
type SSEClient struct {
	*Stream

	// Endpoint is where it posts its messages.
	Endpoint string
	Headers  Headers
}

// SSEURL returns the URL that opens a session of HTTP+SSE.
func (s *Server) SSEURL() string { return strings.TrimSuffix(s.URL, "/mcp") + "/sse" }

// SSE opens a session of HTTP+SSE without initializing it.
func (s *Server) SSE(token string) *SSEClient {
	s.TB.Helper()
	at := *s
	at.URL = s.SSEURL()
	opening := &Client{Server: &at, TB: s.TB}
	c := &SSEClient{Headers: Bearer(token)}
	c.Stream = opening.OpenStream(http.MethodGet, "", append(Headers{"Accept", "text/event-stream"}, c.Headers...))
	first := c.Next()
	base, err := url.Parse(at.URL)
	if err != nil {
		s.TB.Fatal(err)
	}
	endpoint, err := base.Parse(first.Data)
	if err != nil || first.Type != "endpoint" || first.LastEventID != "" {
		s.TB.Fatalf("the first event is %+v, want the endpoint", first)
	}
	c.Endpoint = endpoint.String()
	return c
}

// SSESession opens and initializes a session of HTTP+SSE.
func (s *Server) SSESession(revision, token string) *SSEClient {
	s.TB.Helper()
	c := s.SSE(token)
	c.Request(`"init"`, "initialize", strings.Trim(InitializeParams(revision), "{}")+"}")
	c.WantMessage(`"id":"init"`, `"protocolVersion":"`+revision+`"`)
	c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	// A post is accepted before it is handled. The response to a later request shows that the
	// session is told of changes.
	c.Request(`"heard"`, "ping", "")
	c.WantMessage(`"id":"heard"`)
	return c
}

// Post sends a body, which the gateway must accept.
func (c *SSEClient) Post(body string) {
	c.TB.Helper()
	if r := Send(c.TB, http.MethodPost, c.Endpoint, body, append(Headers{"Accept", "*/*"}, c.Headers...)); r.Status != http.StatusAccepted || r.Body != "" {
		c.TB.Fatalf("status %d, body %q, want 202 and an empty body", r.Status, r.Body)
	}
}

// Request sends a request. Params are the members of an object, without its braces.
func (c *SSEClient) Request(id, method, params string) {
	c.TB.Helper()
	c.Post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
}

// WantMessage waits for the next event, which must be a message with all of the parts in it.
func (c *SSEClient) WantMessage(parts ...string) string {
	c.TB.Helper()
	event := c.Next()
	if event.Type != "message" {
		c.TB.Fatalf("got the event %+v, want a message", event)
	}
	for _, part := range parts {
		if !strings.Contains(event.Data, part) {
			c.TB.Fatalf("got %s, want %s in it", event.Data, part)
		}
	}
	return event.Data
}
