package gatewaytest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tmaxmax/go-sse"
)

// Stream is an open stream of server-sent events.
type Stream struct {
	TB     testing.TB
	Status int
	Header http.Header
	// Events is closed when the stream has ended.
	Events chan sse.Event
	// Close closes the client's end.
	Close context.CancelFunc
}

// Listen opens the client's stream of changes: the subscription with the id in the modern era, else
// the stream of a GET.
func (c *Client) Listen(id string, more ...string) *Stream {
	c.TB.Helper()
	if c.Revision != Latest {
		return c.OpenStream(http.MethodGet, "", append(append(Headers{"Accept", "text/event-stream"}, c.Headers...), more...))
	}
	body, h := c.Encode(id, "subscriptions/listen", `{"notifications":{"promptsListChanged":true,"toolsListChanged":true}}`)
	s := c.OpenStream(http.MethodPost, body, append(h, more...))
	ack := s.Next()
	CheckSchema(c.TB, Latest, "notifications/subscriptions/acknowledged", ack.Data)
	if want := `"notifications":{"promptsListChanged":true}`; !strings.Contains(ack.Data, want) || !strings.Contains(ack.Data, `"io.modelcontextprotocol/subscriptionId":`+id) {
		c.TB.Fatalf("acknowledgment %s, want %s and the id %s in it", ack.Data, want, id)
	}
	return s
}

// ListenAll opens a stream of changes for a client of each kind that there is over Streamable HTTP:
// of the modern era, of the latest legacy revision, whose streams can be resumed, and of one whose
// streams cannot.
func (s *Server) ListenAll(token string) map[*Client]*Stream {
	s.TB.Helper()
	modern, resumable, older := s.Modern(token), s.Legacy("2025-11-25", token), s.Legacy("2025-03-26", token)
	streams := map[*Client]*Stream{modern: modern.Listen("1"), resumable: resumable.Listen(""), older: older.Listen("")}
	streams[resumable].Next() // the event id to resume from
	return streams
}

// GetStream makes a get whose response must be a stream.
func (c *Client) GetStream(id, params string) *Stream {
	c.TB.Helper()
	body, h := c.Encode(id, "prompts/get", params)
	return c.OpenStream(http.MethodPost, body, h)
}

// OpenStream makes an HTTP request whose response must be a stream.
func (c *Client) OpenStream(method, body string, h Headers) *Stream {
	c.TB.Helper()
	ctx, cancel := context.WithCancel(c.TB.Context())
	response, err := http.DefaultClient.Do(NewRequest(ctx, c.TB, method, c.URL, body, h)) //nolint:bodyclose // closed by the goroutine below
	if err != nil {
		c.TB.Fatal(err)
	}
	s := &Stream{TB: c.TB, Status: response.StatusCode, Header: response.Header, Events: make(chan sse.Event, 100), Close: cancel}
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		c.TB.Fatalf("no stream: status %d, content type %q, %s", response.StatusCode, got, text)
	}
	ended := make(chan struct{})
	c.TB.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		defer close(s.Events)
		for event, err := range sse.Read(response.Body, nil) {
			if err != nil {
				// The test itself may have cut all connections.
				if ctx.Err() == nil && !strings.Contains(err.Error(), "connection reset") {
					c.TB.Errorf("stream: %v", err)
				}
				return
			}
			s.Events <- event
		}
	}()
	return s
}

// Next returns the next event.
func (s *Stream) Next() sse.Event {
	s.TB.Helper()
	event, ok := await(s.TB, "an event", s.Events)
	if !ok {
		s.TB.Fatal("the stream has ended")
	}
	return event
}

// WantChange waits for a list_changed notification.
func (s *Stream) WantChange() sse.Event {
	s.TB.Helper()
	event := s.Next()
	if !strings.Contains(event.Data, `"notifications/prompts/list_changed"`) {
		s.TB.Fatalf("got %q, want list_changed", event.Data)
	}
	return event
}

// WantElicitation waits for an elicitation and returns its id.
func (s *Stream) WantElicitation(revision string) (id string) {
	s.TB.Helper()
	data := s.Next().Data
	var message struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(data), &message); err != nil || message.Method != "elicitation/create" || message.ID == nil {
		s.TB.Fatalf("got %s, want an elicitation", data)
	}
	CheckSchema(s.TB, revision, "elicitation/create", data)
	return string(message.ID)
}

// WantSilence fails the test if an event has arrived that the test has not read.
func (s *Stream) WantSilence() {
	s.TB.Helper()
	select {
	case event := <-s.Events:
		s.TB.Fatalf("unexpected event: %s", event.Data)
	default:
	}
}

// WantEnd waits for the end of the stream, before which no other event may arrive.
func (s *Stream) WantEnd() {
	s.TB.Helper()
	if event, ok := await(s.TB, "the end of the stream", s.Events); ok {
		s.TB.Fatalf("an event before the end: %s", event.Data)
	}
}
