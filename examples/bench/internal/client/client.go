// Package client answers: what is the least client that lists prompts and hears when they change? A [Client] speaks
// 2026-07-28 or, as a legacy one, 2025-11-25. It brings no connections of its own: the programs that hold many streams
// decide what each may cost.
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

// Client is one client of one gateway. Its methods are not to be called concurrently.
type Client struct {
	// Endpoint is the gateway's URL, and Token the credential; empty means none.
	Endpoint, Token string
	// Legacy makes it speak 2025-11-25: [Client.Initialize] comes first then.
	Legacy bool
	// Transport carries its requests.
	Transport http.RoundTripper

	session string
}

// meta is what each modern request says of its client.
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
	_, err = io.Copy(io.Discard, response.Body) // whatever else it says: without a session id the next request fails
	return err
}

// Page returns the prompts of a page, as name and definition, and the cursor of the next; "" is before the first and
// after the last.
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

// Prompt is what tells one version of a prompt from another.
type Prompt struct{ Name, Description string }

// Listen opens the client's stream of changes. It returns once nothing can be missed; [Changes] reads the stream.
func (c *Client) Listen(ctx context.Context) (io.ReadCloser, error) {
	response, err := c.listen(ctx)
	if err != nil {
		return nil, err
	}
	if response.Header.Get("Content-Type") != wire.ContentSSE {
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body) // as much as there is
		return nil, fmt.Errorf("no stream: %s: %s", response.Status, text)
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

// post sends a request whose params have these members.
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

// Changes reads a stream and calls heard for each list_changed, until the stream ends; its error is never nil.
func Changes(stream io.Reader, heard func()) error {
	lines := bufio.NewReaderSize(stream, 256) // there may be very many
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // what follows the method is of no interest
		}
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("data: ")) && bytes.Contains(line, []byte(`"`+wire.PromptsListChanged+`"`)) {
			heard()
		}
	}
}

// Conn is an http.RoundTripper over a single connection, one request after the other. It costs a client no more memory
// than a small buffer, where http.Transport has two of 4 KiB and two goroutines for each connection.
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

// RoundTrip implements http.RoundTripper.
func (c *Conn) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Write(c.conn); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.buffer, r)
}

// Close ends the connection and whatever is read from it.
func (c *Conn) Close() error { return c.conn.Close() }
