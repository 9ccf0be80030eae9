package upstreamtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Client is an MCP client of 2026-07-28 or, as a legacy one, of 2025-11-25. Its methods may be called
// concurrently, once a legacy one is initialized; those of one over HTTP+SSE or stdio one after
// another.
type Client struct {
	// Endpoint is the URL of the gateway. Token is a bearer token; empty means none.
	Endpoint, Token string
	// Legacy makes the client speak 2025-11-25, for which it must call [Client.Initialize] first.
	Legacy bool
	// SSE makes a legacy client use HTTP+SSE: [Client.Initialize] opens its stream, which
	// [Client.Listen] returns.
	SSE bool
	// Pipe makes a client of either era use stdio: [Client.Initialize] opens it, and the stream that
	// [Client.Listen] returns closes it.
	Pipe func(ctx context.Context) (io.ReadWriteCloser, error)
	// Transport carries its requests; nil means http.DefaultTransport.
	Transport http.RoundTripper

	session []string // header lines
	// Where it is tied: the stream, where requests go, and the last one's id.
	stream *Stream
	post   string
	pipe   io.Writer
	id     int
}

// Tied reports whether all responses come on one stream.
func (c *Client) Tied() bool { return c.SSE || c.Pipe != nil }

// Message is one of JSON-RPC, with the results of the requests that rigs make.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// Error is the error of a response.
type Error struct {
	Code    int                     `json:"code"`
	Message string                  `json:"message"`
	Data    struct{ Reason string } `json:"data"`
}

// Error implements the interface error.
func (e *Error) Error() string {
	return fmt.Sprintf("error %d %s: %s", e.Code, e.Data.Reason, e.Message)
}

const listenParams = `"notifications":{"promptsListChanged":true}`

const info = `{"name":"rig","version":"1"}`

// request returns a request. Params are the members of its params, without braces.
func (c *Client) request(id int, method, params string) (body string, header []string) {
	header = c.session
	if !c.Legacy {
		header = append(slices.Clip(header), wire.HeaderProtocolVersion+": "+wire.Rev20260728, wire.HeaderMethod+": "+method)
		var named struct{ Name, URI string }
		if (method == wire.PromptsGet || method == wire.ResourcesRead) && json.Unmarshal([]byte("{"+params+"}"), &named) == nil {
			header = append(header, wire.HeaderName+": "+cmp.Or(named.Name, named.URI))
		}
		params = strings.TrimPrefix(fmt.Sprintf(`%s,"_meta":{%q:%q,%q:{},%q:%s}`, params,
			wire.MetaProtocolVersion, wire.Rev20260728, wire.MetaClientCapabilities, wire.MetaClientInfo, info), ",")
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params), header
}

// Raw returns the bytes of an HTTP request.
func (c *Client) Raw(id int, method, params string) []byte {
	body, header := c.request(id, method, params)
	var raw bytes.Buffer
	r, err := c.newRequest(context.Background(), http.MethodPost, c.Endpoint, body, header...)
	if err == nil {
		err = r.Write(&raw)
	}
	if err != nil {
		panic(err) // the endpoint is no URL
	}
	return raw.Bytes()
}

// Do makes a request and returns the response, whose body must be closed.
func (c *Client) Do(ctx context.Context, method, params string) (*http.Response, error) {
	body, header := c.request(1, method, params)
	return c.Send(ctx, http.MethodPost, c.Endpoint, body, header...)
}

func (c *Client) newRequest(ctx context.Context, method, target, body string, header ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", wire.ContentJSON)
	r.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return r, nil
}

// Send sends an HTTP request with header lines.
func (c *Client) Send(ctx context.Context, method, target, body string, header ...string) (*http.Response, error) {
	r, err := c.newRequest(ctx, method, target, body, header...)
	if err != nil {
		return nil, err
	}
	if c.Transport == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return c.Transport.RoundTrip(r)
}

// Call makes a request and returns its result. An error of the gateway is an [Error].
func (c *Client) Call(ctx context.Context, method, params string) (json.RawMessage, error) {
	if c.Tied() {
		return c.callTied(ctx, method, params)
	}
	response, err := c.Do(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return Answer(response)
}

// Answer reads the response to one request, as JSON or as the last event of a stream.
func Answer(response *http.Response) (json.RawMessage, error) {
	defer response.Body.Close()
	var m *Message
	if strings.HasPrefix(response.Header.Get("Content-Type"), wire.ContentSSE) {
		stream := events(response.Body)
		for m == nil || m.Method != "" {
			var err error
			if m, err = stream.Next(); err != nil {
				return nil, err
			}
		}
	} else {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(body, &m); err != nil || m == nil {
			return nil, fmt.Errorf("HTTP %s: %.200s", response.Status, body)
		}
	}
	if m.Error != nil {
		return nil, m.Error
	}
	return m.Result, nil
}

// Initialize begins a legacy session, and opens the stream of a client that is tied.
func (c *Client) Initialize(ctx context.Context) error {
	if c.Tied() {
		if err := c.open(ctx); err != nil {
			return err
		}
	}
	if !c.Legacy {
		return nil
	}
	params := fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":%s`, wire.Rev20251125, info)
	if c.Tied() {
		_, err := c.Call(ctx, wire.Initialize, params)
		if err == nil {
			err = c.writeTied(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, wire.Initialized))
		}
		if err != nil {
			c.stream.Close()
		}
		return err
	}
	response, err := c.Do(ctx, wire.Initialize, params)
	if err != nil {
		return err
	}
	if _, err := Answer(response); err != nil {
		return err
	}
	c.session = []string{wire.HeaderProtocolVersion + ": " + wire.Rev20251125}
	if id := response.Header.Get(wire.HeaderSessionID); id != "" {
		c.session = append(c.session, wire.HeaderSessionID+": "+id)
	}
	return nil
}

// Get gets a prompt.
func (c *Client) Get(ctx context.Context, name string) error {
	_, _, err := c.Text(ctx, name)
	return err
}

// Text gets a prompt, and returns the text of its first message and the link in its last one.
func (c *Client) Text(ctx context.Context, name string) (text, link string, err error) {
	result, err := c.Call(ctx, wire.PromptsGet, fmt.Sprintf(`"name":%q,"arguments":{"code":"x"}`, name))
	if err != nil {
		return "", "", err
	}
	var got struct {
		Messages []struct{ Content struct{ Text, URI string } }
	}
	if err := json.Unmarshal(result, &got); err != nil || len(got.Messages) == 0 {
		return "", "", fmt.Errorf("neither messages nor an error: %.200s", result)
	}
	return got.Messages[0].Content.Text, got.Messages[len(got.Messages)-1].Content.URI, nil
}

// List is one page of prompts.
type List struct {
	Prompts    []struct{ Name string }
	NextCursor string
	Meta       struct {
		Partial []struct{ Upstream string } `json:"io.github.promptweir/partial"`
	} `json:"_meta"`
}

// Page returns the page at a cursor. The cursor "" asks for the first page; after the last page the next cursor is "".
func (c *Client) Page(ctx context.Context, cursor string) (page List, err error) {
	params := ""
	if cursor != "" {
		params = fmt.Sprintf(`"cursor":%q`, cursor)
	}
	result, err := c.Call(ctx, wire.PromptsList, params)
	if err != nil {
		return page, err
	}
	return page, json.Unmarshal(result, &page)
}

// Walk lists all pages and returns the names.
func (c *Client) Walk(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := c.Page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		for _, p := range page.Prompts {
			if names[p.Name] {
				return nil, fmt.Errorf("%s is on two pages", p.Name)
			}
			names[p.Name] = true
		}
		cursor = page.NextCursor
	}
	return names, nil
}

// Listen opens the client's stream of notifications, which must be closed. A legacy one goes on after
// the event last; "" begins a new one. No change after Listen returns is missed.
func (c *Client) Listen(ctx context.Context, last string) (*Stream, error) {
	var response *http.Response
	var err error
	switch {
	case c.Tied() && c.Legacy:
		return c.stream, nil
	case c.Tied():
		return c.stream, c.sendTied(ctx, wire.Listen, listenParams)
	case c.Legacy:
		header := c.session
		if last != "" {
			header = append([]string{"Last-Event-ID: " + last}, header...)
		}
		response, err = c.Send(ctx, http.MethodGet, c.Endpoint, "", header...)
	default:
		response, err = c.Do(ctx, wire.Listen, listenParams)
	}
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), wire.ContentSSE) {
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body) // as much as arrives
		return nil, fmt.Errorf("want an event stream, got %s: %s", response.Status, text)
	}
	return events(response.Body), nil
}
