package upstream

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// UseTransport replaces the network of a connector that has not started.
func UseTransport(c *Connector, transport http.RoundTripper) {
	for _, e := range c.endpoints {
		if a, ok := e.opts.client.network.(*authorized); ok {
			a.RoundTripper, a.tokens.client.Transport = transport, transport
			continue
		}
		e.opts.client.network = transport
	}
}

// StreamReader returns what reads an event stream as a session over Streamable HTTP does that waits for the response with
// an id.
func StreamReader(maxMessage int) func(stream io.Reader, id string, said func(wire.Message)) (wire.Message, error) {
	t := newHTTPTransport(&httpClient{maxMessage: maxMessage}, time.Second)
	return func(stream io.Reader, id string, said func(wire.Message)) (wire.Message, error) {
		answer, err := t.readStream(stream, &bookmark{}, id, func(m *wire.Message) { said(*m) })
		if err != nil {
			return wire.Message{}, err
		}
		return *answer, nil
	}
}

// Event is one of an event stream.
type Event struct {
	Kind, Data string
	// Place is the id that the stream would be gone on with from, and Rest after how long, at the event.
	Place string
	Rest  time.Duration
}

// Events reads an event stream to its end. The error is nil where that stands between two events.
func Events(stream io.Reader, maxMessage int) ([]Event, error) {
	var (
		place bookmark
		read  []event
		all   []Event
	)
	events := eventReader{source: stream, maxMessage: maxMessage, place: &place}
	defer events.close()
	for {
		e, err := events.next()
		if err != nil {
			for i := range read { // only now, because what was read may be kept
				all[i].Data = string(read[i].data)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all, err
		}
		read = append(read, e)
		all = append(all, Event{Kind: e.kind, Place: place.id, Rest: place.retry})
	}
}

// RoomLeft returns how much room is kept for what a stream says next, in bytes, when all that it said was read.
func RoomLeft(stream io.Reader) int {
	events := eventReader{source: stream, maxMessage: 64 << 20, place: new(bookmark)}
	defer events.close()
	for {
		if _, err := events.next(); err != nil {
			return len(events.room.bytes)
		}
	}
}
