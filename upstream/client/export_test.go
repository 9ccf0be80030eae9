package client

import (
	"errors"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// StreamReader returns a function that reads an event stream, like a session over Streamable HTTP, until the response with
// the id has come.
func StreamReader(maxMessage int) func(stream io.Reader, id string, onMessage func(wire.Message)) (wire.Message, error) {
	t := newHTTPTransport(&httpClient{maxMessage: maxMessage, target: new(url.URL)}, time.Second, slog.New(slog.DiscardHandler))
	return func(stream io.Reader, id string, onMessage func(wire.Message)) (wire.Message, error) {
		response, err := t.readStream(stream, &streamPosition{}, expected{id: id}, func(m *wire.Message) { onMessage(*m) })
		if err != nil {
			return wire.Message{}, err
		}
		return *response, nil
	}
}

// Event is one event of a stream.
type Event struct {
	Kind, Data string
	// LastEventID is the id that the stream would be resumed from after the event, and Retry after how long.
	LastEventID string
	Retry       time.Duration
}

// Events reads an event stream to its end. The error is nil if that is between two events.
func Events(stream io.Reader, maxMessage int) ([]Event, error) {
	var (
		p    streamPosition
		read []event
		all  []Event
	)
	events := newEventReader(stream, maxMessage, &p)
	for {
		e, err := events.next()
		if err != nil {
			for i := range read { // not before, because data may be kept
				all[i].Data = string(read[i].data)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all, err
		}
		read = append(read, e)
		all = append(all, Event{Kind: e.kind, LastEventID: p.lastEventID, Retry: p.retry})
	}
}

// BuffersHeld returns the size of the buffers that a reader of a stream holds when it has read all of it.
func BuffersHeld(stream io.Reader) int {
	events := newEventReader(stream, 64<<20, new(streamPosition))
	for {
		if _, err := events.next(); err != nil {
			held := events.source.Size()
			if events.data != nil {
				held += events.data.Cap()
			}
			return held
		}
	}
}
