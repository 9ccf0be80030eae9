package transport

import (
	"io"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// eventStream is a response of server-sent events. One goroutine writes to it. After the first error it writes nothing.
type eventStream struct {
	w       io.Writer
	control control
	err     error
}

// control sets deadlines for, and flushes, what is written to a stream.
type control interface {
	SetWriteDeadline(time.Time) error
	Flush() error
}

// openStream begins the response. [eventStream.end] must follow.
func openStream(w http.ResponseWriter) *eventStream {
	header := w.Header()
	header.Set("Content-Type", wire.ContentSSE)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // asks reverse proxies not to buffer events
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	s.extend()
	w.WriteHeader(http.StatusOK)
	s.err = s.control.Flush()
	return s
}

// extend moves the write deadline. The server's WriteTimeout would count from the request on.
func (s *eventStream) extend() {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeBound)) // a writer without deadlines stays unbounded
}

// end leaves the rest to the HTTP server, which still writes the end of the body.
func (s *eventStream) end() { s.extend() }

// event writes one event. The id may be empty; data may be nil for an event that only carries its id.
func (s *eventStream) event(id string, data []byte) {
	frame := make([]byte, 0, len("id: \ndata: \n\n")+len(id)+len(data))
	if id != "" {
		frame = append(append(append(frame, "id: "...), id...), '\n')
	}
	s.write(appendData(frame, data))
}

// named writes an event of a type, which must be a single line.
func (s *eventStream) named(name string, data []byte) {
	frame := make([]byte, 0, len("event: \ndata: \n\n")+len(name)+len(data))
	s.write(appendData(append(append(append(frame, "event: "...), name...), '\n'), data))
}

func appendData(frame, data []byte) []byte {
	return append(append(append(frame, "data: "...), wire.SingleLine(data)...), "\n\n"...)
}

// comment writes a line that clients ignore.
func (s *eventStream) comment() { s.write([]byte(": keep-alive\n\n")) }

func (s *eventStream) write(frame []byte) {
	if s.err != nil {
		return
	}
	s.extend()
	if _, s.err = s.w.Write(frame); s.err == nil {
		s.err = s.control.Flush()
	}
}
