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

// eventStream is a response of server-sent events. Only one goroutine may write at a time.
type eventStream struct {
	w       io.Writer
	control *http.ResponseController
	err     error // the first error; later writes do nothing
}

// openStream begins the response and flushes its header. Call [eventStream.end] at the end.
func openStream(w http.ResponseWriter) *eventStream {
	header := w.Header()
	header.Set("Content-Type", wire.ContentSSE)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // asks reverse proxies not to buffer events
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	s.extend()
	w.WriteHeader(http.StatusOK)
	// Flush now: clients wait for the header, and the first event may come hours later.
	s.err = s.control.Flush()
	return s
}

// extend sets the write deadline to writeTimeout from now. The server's WriteTimeout would count from
// the request.
func (s *eventStream) extend() {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails for writers without deadlines, as in tests
}

// end extends the deadline once more: the HTTP server must still write the end of the body.
func (s *eventStream) end() { s.extend() }

// event writes an event. The id may be empty, and data may be nil.
func (s *eventStream) event(id string, data []byte) {
	frame := make([]byte, 0, len("id: \ndata: \n\n")+len(id)+len(data))
	if id != "" {
		frame = append(append(append(frame, "id: "...), id...), '\n')
	}
	s.write(appendData(frame, data))
}

// named writes an event with a type. The type must not contain a line break.
func (s *eventStream) named(name string, data []byte) {
	frame := make([]byte, 0, len("event: \ndata: \n\n")+len(name)+len(data))
	s.write(appendData(append(append(append(frame, "event: "...), name...), '\n'), data))
}

func appendData(frame, data []byte) []byte {
	return append(append(append(frame, "data: "...), wire.SingleLine(data)...), "\n\n"...)
}

// comment writes a comment line. Clients ignore it.
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

// serveStream opens an event stream and calls serve. The context of serve ends when the client leaves
// or the caller's credential expires. At the end, serveStream calls release and closes the
// subscription.
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
	// writeTimeout is the time that a client may take to read a response or event. After it, the
	// connection is closed.
	writeTimeout = 30 * time.Second
	// maxCounted is the size in bytes up to which the HTTP server computes Content-Length itself.
	maxCounted = 2 << 10
	// maxBuffered is the size in bytes up to which a response fits, with its header, into the HTTP
	// server's buffer.
	maxBuffered = 3 << 10
	// maxPooled bounds the size of a buffer that is reused for later responses, in bytes.
	maxPooled = 1 << 20
)

// contentJSON saves an allocation per response. Nothing modifies header values in place.
var contentJSON = []string{wire.ContentJSON} //nolint:gochecknoglobals // a constant

// writeJSON writes a small JSON response.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	return write(context.Background(), w, time.Now(), status, false, body)
}

// write writes a JSON response, which the client must read within writeTimeout. A response that does
// not fit into the HTTP server's buffer is written in one system call. ctx is the context of the HTTP
// request. If through is true, write flushes the server's buffer, so that the operating system has the
// whole response when write returns.
func write(
	ctx context.Context, w http.ResponseWriter, now time.Time, status int, through bool, parts ...[]byte,
) (err error) {
	header, size := w.Header(), 0
	for _, part := range parts {
		size += len(part)
	}
	header["Content-Type"] = contentJSON
	if through || size > maxCounted { // without Content-Length, the response would be chunked
		header["Content-Length"] = []string{strconv.Itoa(size)}
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(now.Add(writeTimeout)) // fails for writers without deadlines, as in tests
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

// buffers saves the allocation of each response: a page of a list may have megabytes.
var buffers = sync.Pool{ //nolint:gochecknoglobals // a pool is shared by nature
	New: func() any { return new([]byte) },
}

// getBuffer returns an empty buffer.
func getBuffer() *[]byte {
	buffer, _ := buffers.Get().(*[]byte)
	*buffer = (*buffer)[:0]
	return buffer
}

// putBuffer returns a buffer to the pool. appended is the slice into which the buffer has grown.
func putBuffer(buffer *[]byte, appended []byte) {
	if cap(appended) <= maxPooled {
		*buffer = appended[:0]
		buffers.Put(buffer)
	}
}
