package transport

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/upstream/wire"
)

// eventStream is a response of server-sent events. One goroutine at a time writes to it. After the
// first error it writes nothing more.
type eventStream struct {
	w       io.Writer
	control *http.ResponseController
	err     error
}

// openStream begins the response. Call [eventStream.end] in the end.
func openStream(w http.ResponseWriter) *eventStream {
	header := w.Header()
	header.Set("Content-Type", wire.ContentSSE)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // asks reverse proxies not to buffer events
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	s.extend()
	w.WriteHeader(http.StatusOK)
	// Flush at once: clients wait for the header, and the first event may come hours later.
	s.err = s.control.Flush()
	return s
}

// extend moves the write deadline.
func (s *eventStream) extend() {
	// The server's WriteTimeout would count from the request on. A writer without deadlines remains
	// unbounded.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
}

// end extends the deadline once more: the HTTP server still writes the end of the body.
func (s *eventStream) end() { s.extend() }

// event writes one event. id may be empty. data may be nil for an event with only an id.
func (s *eventStream) event(id string, data []byte) {
	frame := make([]byte, 0, len("id: \ndata: \n\n")+len(id)+len(data))
	if id != "" {
		frame = append(append(append(frame, "id: "...), id...), '\n')
	}
	s.write(appendData(frame, data))
}

// named writes an event with a type, which must be a single line.
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

// serveStream opens an event stream and serves it until the client leaves or the caller's
// credential expires. At the end it calls release and the subscription's Close.
func (x *exchange) serveStream(
	release func(), sub *publish.Subscription, expires time.Time,
	serve func(ctx context.Context, out *eventStream),
) {
	defer release()
	defer sub.Close()
	ctx, cancel := withExpiry(x.r.Context(), expires)
	defer cancel()
	out := openStream(x.w)
	serve(ctx, out)
	out.end()
}

const (
	// writeTimeout is the time that a client may delay a response or event before its connection is
	// closed.
	writeTimeout = 30 * time.Second
	// maxCounted is the size in bytes up to which the HTTP server computes Content-Length itself.
	maxCounted = 2 << 10
	// maxBuffered is the size in bytes up to which a response and its header fit into the HTTP
	// server's buffer.
	maxBuffered = 3 << 10
	// maxPooled bounds the buffers that are kept for later responses, in bytes.
	maxPooled = 1 << 20
)

// contentJSON is shared by all responses. Header values are never changed in place.
var contentJSON = []string{wire.ContentJSON} //nolint:gochecknoglobals // a constant

// writeJSON writes a small response.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	return write(context.Background(), w, time.Now(), status, false, body)
}

// write writes a JSON response. The client must read it within writeTimeout. A response that does
// not fit into the HTTP server's buffer is written in one system call. ctx is the HTTP request's.
// If through is true, nothing remains in the server's buffer: when write returns, the operating
// system has the whole response.
func write(
	ctx context.Context, w http.ResponseWriter, now time.Time, status int, through bool, parts ...[]byte,
) (err error) {
	header, size := w.Header(), 0
	for _, part := range parts {
		size += len(part)
	}
	header["Content-Type"] = contentJSON
	if through || size > maxCounted { // otherwise a flush would make the response chunked
		header["Content-Length"] = []string{strconv.Itoa(size)}
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(now.Add(writeTimeout)) // a writer without deadlines remains unbounded
	w.WriteHeader(status)
	if size > maxBuffered {
		err = edge.Write(ctx, w, parts...)
	} else {
		for i := 0; i < len(parts) && err == nil; i++ {
			_, err = w.Write(parts[i])
		}
	}
	if err == nil && through {
		err = control.Flush()
	}
	return err
}

// buffers are reused, so that a page of the list does not allocate its size.
var buffers = sync.Pool{ //nolint:gochecknoglobals // a pool is shared by nature
	New: func() any { return new([]byte) },
}

// getBuffer returns an empty buffer.
func getBuffer() *[]byte {
	buffer, _ := buffers.Get().(*[]byte)
	*buffer = (*buffer)[:0]
	return buffer
}

// putBuffer keeps a buffer for the next response, with the memory to which it has grown.
func putBuffer(buffer *[]byte, appended []byte) {
	if cap(appended) <= maxPooled {
		*buffer = appended[:0]
		buffers.Put(buffer)
	}
}
