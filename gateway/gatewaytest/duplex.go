package gatewaytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Duplex is a client whose messages travel over one connection in both directions.
type Duplex struct {
	tb testing.TB
	// send sends a message, next waits for one.
	send func(message string)
	next func() string
}

// Send sends a message.
func (d *Duplex) Send(message string) {
	d.tb.Helper()
	d.send(message)
}

// Request sends a request. Params are the members of an object, without its braces.
func (d *Duplex) Request(id, method, params string) {
	d.tb.Helper()
	d.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
}

// WantMessage waits for the next message, which must have all of the parts in it.
func (d *Duplex) WantMessage(parts ...string) string {
	d.tb.Helper()
	message := d.next()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			d.tb.Fatalf("got %s, want %s in it", message, part)
		}
	}
	return message
}

// SSEClient speaks HTTP+SSE: its requests go to an endpoint of their own, and all responses arrive
// on its stream.
type SSEClient struct {
	*Stream
	*Duplex

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
	c.Duplex = &Duplex{tb: s.TB, send: c.post, next: c.nextMessage}
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
	c.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	// A post is accepted before it is handled. The response to a later request shows that the
	// session is told of changes.
	c.Request(`"ready"`, "ping", "")
	c.WantMessage(`"id":"ready"`)
	return c
}

// post sends a body, which the gateway must accept.
func (c *SSEClient) post(body string) {
	c.TB.Helper()
	r := Send(c.TB, http.MethodPost, c.Endpoint, body, append(Headers{"Accept", "*/*"}, c.Headers...))
	if r.Status != http.StatusAccepted || r.Body != "" {
		c.TB.Fatalf("status %d, body %q, want 202 and an empty body", r.Status, r.Body)
	}
}

func (c *SSEClient) nextMessage() string {
	c.TB.Helper()
	event := c.Next()
	if event.Type != "message" {
		c.TB.Fatalf("got the event %+v, want a message", event)
	}
	return event.Data
}

// StdioClient is a client of ServeStdio.
type StdioClient struct {
	*Duplex

	// In is the gateway's input.
	In *io.PipeWriter
	// Lines has the gateway's output, and is closed at its end.
	Lines chan string
	// Stop ends the context of ServeStdio.
	Stop context.CancelFunc

	ended chan error // the result of ServeStdio
}

// Anybody returns the principal of a caller where there is no auth block.
func Anybody() policy.Principal {
	return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}
}

// Stdio serves a client as a principal such as "user:ann", or as anybody.
func (s *Server) Stdio(as string) *StdioClient {
	s.TB.Helper()
	who := Anybody()
	if as != "" {
		var err error
		if who, err = identity.ParsePrincipal(as); err != nil {
			s.TB.Fatal(err)
		}
	}
	in, inWriter := io.Pipe()
	outReader, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := &StdioClient{In: inWriter, Lines: make(chan string, 100), ended: make(chan error, 1), Stop: cancel}
	c.Duplex = &Duplex{tb: s.TB, send: c.write, next: c.Next}
	go func() {
		err := s.ServeStdio(ctx, identity.Vouched(who), in, out)
		_ = out.Close()
		c.ended <- err
	}()
	go func() {
		defer close(c.Lines)
		for scanner := bufio.NewScanner(outReader); scanner.Scan(); {
			c.Lines <- scanner.Text()
		}
	}()
	s.TB.Cleanup(func() {
		cancel()
		_ = inWriter.Close()
	})
	return c
}

func (c *StdioClient) write(line string) {
	c.tb.Helper()
	if _, err := io.WriteString(c.In, line+"\n"); err != nil {
		c.tb.Fatal(err)
	}
}

// Next returns the next line of the output.
func (c *StdioClient) Next() string {
	c.tb.Helper()
	line, ok := await(c.tb, "a line", c.Lines)
	if !ok {
		c.tb.Fatal("the output has ended")
	}
	return line
}

// WantEnd waits until ServeStdio has returned, without an error.
func (c *StdioClient) WantEnd() {
	c.tb.Helper()
	if err, _ := await(c.tb, "the end of ServeStdio", c.ended); err != nil {
		c.tb.Errorf("ServeStdio: %v", err)
	}
}

// await returns the next value of a channel; ok is false once that is closed.
func await[T any](tb testing.TB, what string, c <-chan T) (value T, ok bool) {
	tb.Helper()
	select {
	case value, ok = <-c:
	case <-time.After(Timeout):
		tb.Fatalf("waited %v for %s", Timeout, what)
	}
	return value, ok
}

// SDKTransport returns a transport of the official SDK to the gateway: "http", "sse" or "stdio".
func (s *Server) SDKTransport(tb testing.TB, kind string) mcp.Transport {
	tb.Helper()
	switch kind {
	case "http":
		return &mcp.StreamableClientTransport{Endpoint: s.URL}
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: s.SSEURL()}
	}
	in, toGateway := io.Pipe()
	fromGateway, out := io.Pipe()
	who := Anybody()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// A client that closes both pipes at once does not read the last messages.
		if err := s.ServeStdio(context.WithoutCancel(tb.Context()), identity.Vouched(who), in, out); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			tb.Errorf("ServeStdio: %v", err)
		}
	}()
	tb.Cleanup(func() {
		_ = toGateway.Close()
		_ = fromGateway.Close()
		<-ended
	})
	return &mcp.IOTransport{Reader: fromGateway, Writer: toGateway}
}
