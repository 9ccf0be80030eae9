package light

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Client is an MCP client of 2026-07-28 or, as a legacy one, of 2025-11-25. Its methods may be called
// concurrently, once a legacy one is initialized; those of one over HTTP+SSE one after another.
type Client struct {
	// Endpoint is the URL of the gateway. Token is a bearer token; empty means none.
	Endpoint, Token string
	// Legacy makes the client speak 2025-11-25, for which it must call [Client.Initialize] first.
	Legacy bool
	// SSE makes a legacy client use HTTP+SSE: [Client.Initialize] opens its stream, which
	// [Client.Listen] returns.
	SSE bool
	// Transport carries its requests; nil means http.DefaultTransport.
	Transport http.RoundTripper

	session []string // header lines
	// Over HTTP+SSE: the stream, the URL of posts, and the last request's id.
	stream *Stream
	post   string
	id     int
}

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

const info = `{"name":"rig","version":"1"}`

// request returns a request. Params are the members of its params, without braces.
func (c *Client) request(id int, method, params string) (body string, header []string) {
	header = c.session
	if !c.Legacy {
		header = append(slices.Clip(header), wire.HeaderProtocolVersion+": "+wire.Rev20260728, wire.HeaderMethod+": "+method)
		var named struct{ Name string }
		if method == wire.PromptsGet && json.Unmarshal([]byte("{"+params+"}"), &named) == nil {
			header = append(header, wire.HeaderName+": "+named.Name)
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
	if c.SSE {
		return c.callOverSSE(ctx, method, params)
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

// callOverSSE posts a request, and reads the stream until its response. Notifications before it are
// left to [Stream.Next].
func (c *Client) callOverSSE(ctx context.Context, method, params string) (json.RawMessage, error) {
	c.id++
	body, _ := c.request(c.id, method, params)
	if err := c.postOverSSE(ctx, body); err != nil {
		return nil, err
	}
	for {
		m, err := c.stream.read()
		switch {
		case err != nil:
			return nil, err
		case string(m.ID) != strconv.Itoa(c.id):
			c.stream.pending = append(c.stream.pending, m)
		case m.Error != nil:
			return nil, m.Error
		default:
			return m.Result, nil
		}
	}
}

func (c *Client) postOverSSE(ctx context.Context, body string) error {
	response, err := c.Send(ctx, http.MethodPost, c.post, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(response.Body) // as much as arrives
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return nil
}

// openSSE opens a stream over HTTP+SSE, whose first event is the URL of posts.
func (c *Client) openSSE(ctx context.Context) error {
	base := strings.TrimSuffix(c.Endpoint, "/mcp")
	response, err := c.Send(ctx, http.MethodGet, base+"/sse", "") //nolint:bodyclose // closed with the stream
	if err != nil {
		return err
	}
	c.stream = events(response.Body)
	path, err := c.stream.data()
	c.post = base + path
	return err
}

// Initialize begins a legacy session.
func (c *Client) Initialize(ctx context.Context) error {
	if !c.Legacy {
		return nil
	}
	params := fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":%s`, wire.Rev20251125, info)
	if c.SSE {
		if err := c.openSSE(ctx); err != nil {
			return err
		}
		if _, err := c.Call(ctx, wire.Initialize, params); err != nil {
			return err
		}
		return c.postOverSSE(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, wire.Initialized))
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
	_, err := c.Text(ctx, name)
	return err
}

// Text gets a prompt, and returns the text of its first message.
func (c *Client) Text(ctx context.Context, name string) (string, error) {
	result, err := c.Call(ctx, wire.PromptsGet, fmt.Sprintf(`"name":%q,"arguments":{"code":"x"}`, name))
	if err != nil {
		return "", err
	}
	var got struct {
		Messages []struct{ Content struct{ Text string } }
	}
	if err := json.Unmarshal(result, &got); err != nil || len(got.Messages) == 0 {
		return "", fmt.Errorf("neither messages nor an error: %.200s", result)
	}
	return got.Messages[0].Content.Text, nil
}

// List is one page of prompts.
type List struct {
	Prompts    []struct{ Name string }
	NextCursor string
	Meta       struct {
		Partial []struct{ Upstream string } `json:"promptweir/partial"`
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
	if c.SSE {
		return c.stream, nil
	}
	var response *http.Response
	var err error
	if c.Legacy {
		header := c.session
		if last != "" {
			header = append([]string{"Last-Event-ID: " + last}, header...)
		}
		response, err = c.Send(ctx, http.MethodGet, c.Endpoint, "", header...)
	} else {
		response, err = c.Do(ctx, wire.Listen, `"notifications":{"promptsListChanged":true}`)
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

// Stream reads events whose data are messages.
type Stream struct {
	// ID is that of the last event, ended or not.
	ID string

	body    io.Closer
	lines   *bufio.Reader
	pending []*Message // were read, and not returned yet
}

// events returns those of a body. Its buffer is small, because there may be very many streams.
func events(body io.ReadCloser) *Stream {
	return &Stream{body: body, lines: bufio.NewReaderSize(body, 256)}
}

// Close ends the stream.
func (s *Stream) Close() { _ = s.body.Close() }

// Next returns the next message.
func (s *Stream) Next() (*Message, error) {
	if len(s.pending) > 0 {
		m := s.pending[0]
		s.pending = s.pending[1:]
		return m, nil
	}
	return s.read()
}

func (s *Stream) read() (*Message, error) {
	data, err := s.data()
	if err != nil {
		return nil, err
	}
	m := &Message{}
	return m, json.Unmarshal([]byte(data), m)
}

// data returns that of the next event that has any.
func (s *Stream) data() (string, error) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimRight(line, "\r\n")
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			s.ID = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "" {
			return data, nil
		}
	}
}
