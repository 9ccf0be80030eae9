package upstreamtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// callTied sends a request, and reads the stream until its response. Notifications before it are left
// to [Stream.Next].
func (c *Client) callTied(ctx context.Context, method, params string) (json.RawMessage, error) {
	if err := c.sendTied(ctx, method, params); err != nil {
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

// sendTied sends a request with the next id.
func (c *Client) sendTied(ctx context.Context, method, params string) error {
	c.id++
	body, _ := c.request(c.id, method, params)
	return c.writeTied(ctx, body)
}

func (c *Client) writeTied(ctx context.Context, body string) error {
	if c.Pipe != nil {
		_, err := io.WriteString(c.pipe, body+"\n")
		return err
	}
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

// open opens the stream of a client that is tied. The first event over HTTP+SSE is the URL of posts.
func (c *Client) open(ctx context.Context) error {
	if c.Pipe != nil {
		pipe, err := c.Pipe(ctx)
		if err != nil {
			return err
		}
		c.stream, c.pipe = events(pipe), pipe
		c.stream.bare = true
		return nil
	}
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

// Stream reads events whose data are messages.
type Stream struct {
	// ID is that of the last event, ended or not.
	ID string

	// bare says that lines are data.
	bare    bool
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
		if s.bare {
			return line, nil
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			s.ID = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "" {
			return data, nil
		}
	}
}
