// Package client is a minimal MCP client that lists prompts and listens for changes. A [Client] speaks 2026-07-28 or, as a legacy
// one, 2025-11-25. It has no connections of its own: a program that holds many streams decides how much memory each may take.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Client is one client of one gateway. Its methods must not be called concurrently.
type Client struct {
	// Endpoint is the URL of the gateway. Token is a bearer token; empty means none.
	Endpoint, Token string
	// Legacy makes the client speak 2025-11-25, for which it must call [Client.Initialize] first.
	Legacy bool
	// Transport carries its requests.
	Transport http.RoundTripper

	session string
}

// meta is the _meta of each request of 2026-07-28.
const meta = `"_meta":{"` + wire.MetaProtocolVersion + `":"` + wire.Rev20260728 + `","` + wire.MetaClientCapabilities + `":{},"` +
	wire.MetaClientInfo + `":{"name":"bench","version":"1"}}`

// Initialize begins a legacy session.
func (c *Client) Initialize(ctx context.Context) error {
	response, err := c.post(ctx, wire.Initialize, `"protocolVersion":"`+wire.Rev20251125+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	c.session = response.Header.Get(wire.HeaderSessionID)
	_, err = io.Copy(io.Discard, response.Body) // not checked: without a session ID the next request fails
	return err
}

// Page returns the prompts of the page at a cursor, and the cursor of the next page. The cursor "" asks for the first page; after the
// last page the next cursor is "".
func (c *Client) Page(ctx context.Context, cursor string) (prompts []Prompt, next string, err error) {
	params := ""
	if cursor != "" {
		params = `"cursor":"` + cursor + `"`
	}
	response, err := c.post(ctx, wire.PromptsList, params)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	var answer struct {
		Error  *json.RawMessage
		Result struct {
			Prompts    []Prompt
			NextCursor string
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, "", err
	}
	if answer.Error != nil {
		return nil, "", fmt.Errorf("%s: %s", wire.PromptsList, *answer.Error)
	}
	_, err = io.Copy(io.Discard, response.Body) // so that the connection can be used again
	return answer.Result.Prompts, answer.Result.NextCursor, err
}

// Prompt has the members of a definition that tell its versions apart.
type Prompt struct{ Name, Description string }

// Listen opens the client's stream of notifications, which [Changes] reads. No change after Listen returns is missed.
func (c *Client) Listen(ctx context.Context) (io.ReadCloser, error) {
	response, err := c.listen(ctx)
	if err != nil {
		return nil, err
	}
	if response.Header.Get("Content-Type") != wire.ContentSSE {
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body) // as much as arrives
		return nil, fmt.Errorf("want an event stream, got %s: %s", response.Status, text)
	}
	return response.Body, nil
}

func (c *Client) listen(ctx context.Context) (*http.Response, error) {
	if !c.Legacy {
		return c.post(ctx, wire.Listen, `"notifications":{"promptsListChanged":true}`)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Endpoint, http.NoBody)
	if err != nil {
		return nil, err
	}
	return c.send(r)
}

// post sends a request. Params are the members of its params, without braces.
func (c *Client) post(ctx context.Context, method, params string) (*http.Response, error) {
	if !c.Legacy {
		if params != "" {
			params += ","
		}
		params += meta
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", wire.ContentJSON)
	if !c.Legacy {
		r.Header.Set(wire.HeaderProtocolVersion, wire.Rev20260728)
		r.Header.Set(wire.HeaderMethod, method)
	}
	return c.send(r)
}

func (c *Client) send(r *http.Request) (*http.Response, error) {
	r.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.session != "" {
		r.Header.Set(wire.HeaderSessionID, c.session)
		r.Header.Set(wire.HeaderProtocolVersion, wire.Rev20251125)
	}
	return c.Transport.RoundTrip(r)
}

// Changes reads a stream until it ends, and calls notified for each list_changed. Its error is never nil.
func Changes(stream io.Reader, notified func()) error {
	lines := bufio.NewReaderSize(stream, 256) // small, because there may be very many streams
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // the method, which comes early in a line, is all that matters
		}
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("data: ")) && bytes.Contains(line, []byte(`"`+wire.PromptsListChanged+`"`)) {
			notified()
		}
	}
}

// Conn is an [http.RoundTripper] over a single connection, for one request after another. It takes a small buffer of memory;
// http.Transport takes two buffers of 4 KiB and two goroutines per connection.
type Conn struct {
	conn   net.Conn
	buffer *bufio.Reader
}

// Dial opens a connection to the host of an endpoint.
func Dial(ctx context.Context, host string) (*Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, bufio.NewReaderSize(conn, 512)}, nil
}

// RoundTrip implements [http.RoundTripper].
func (c *Conn) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Write(c.conn); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.buffer, r)
}

// Close closes the connection, which ends a response that is being read.
func (c *Conn) Close() error { return c.conn.Close() }
