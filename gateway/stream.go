package gateway

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// keepAlive is how often a quiet stream shows that it is alive, so that nothing on the way gives it up.
	keepAlive = 15 * time.Second
	// writeBound is how long a client may keep a response or a stream's event from being written before it is dropped.
	writeBound = 30 * time.Second
)

// eventStream is a response of server-sent events. One goroutine writes to it; after the first error it is silent.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

// openStream begins the response. To be followed by end.
func openStream(w http.ResponseWriter) *eventStream {
	header := w.Header()
	header.Set("Content-Type", wire.ContentSSE)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // asks reverse proxies not to hold events back
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	s.extend()
	w.WriteHeader(http.StatusOK)
	s.err = s.control.Flush()
	return s
}

// extend gives what is written next its time. The server's own WriteTimeout would count from the request on.
func (s *eventStream) extend() {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeBound)) // a writer without deadlines has no bound
}

// end leaves the rest to the HTTP server: it still writes the end of the body.
func (s *eventStream) end() { s.extend() }

// event writes one event; id may be empty, and data nil for an event that only carries its id.
func (s *eventStream) event(id string, data []byte) {
	var frame bytes.Buffer
	if id != "" {
		frame.WriteString("id: " + id + "\n")
	}
	frame.WriteString("data: ")
	frame.Write(wire.SingleLine(data))
	frame.WriteString("\n\n")
	s.write(frame.Bytes())
}

// named writes an event of a type, which must be a single line.
func (s *eventStream) named(name string, data []byte) {
	var frame bytes.Buffer
	frame.WriteString("event: " + name + "\ndata: ")
	frame.Write(wire.SingleLine(data))
	frame.WriteString("\n\n")
	s.write(frame.Bytes())
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

// stream keeps an HTTP stream open until the client goes, ctx ends or the gateway drains, and calls changed whenever
// the client's view has become another. It reports whether the gateway ended it.
func (g *Gateway) stream(ctx context.Context, out *eventStream, sub *subscriber, changed func()) (drained bool) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for out.err == nil {
		select {
		case <-sub.wake:
			changed()
		case <-alive.C:
			out.comment()
		case <-g.closing:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return false
}
