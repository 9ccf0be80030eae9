package transport

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// eventStream is a response of server-sent events. One goroutine writes to it. After the first
// error it writes nothing.
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
	// At once: clients wait for the header of a stream on which nothing may happen for hours.
	// hijack needs an empty buffer, too.
	s.err = s.control.Flush()
	return s
}

// extend moves the write deadline.
func (s *eventStream) extend() {
	// The server's WriteTimeout would count from the request on.
	// A writer without deadlines stays unbounded.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
}

// end leaves the rest to the HTTP server, which still writes the end of the body.
func (s *eventStream) end() { s.extend() }

// event writes one event. The id may be empty; data may be nil for an event that only carries its
// id.
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

// closeTimeout is how long hijacked streams may take to send their last message when the gateway
// stops.
const closeTimeout = 5 * time.Second

// hijacked are the streams whose connections were taken from the HTTP server, which no longer waits
// for them or ends them. The zero value is ready.
type hijacked struct {
	mu      sync.Mutex // guards what follows
	conns   map[net.Conn]struct{}
	stopped bool
	open    sync.WaitGroup
}

// serveStream opens an event stream and has it served until the client goes or the caller's
// credential expires. Over HTTP/1.1 the connection leaves its server, and serveStream returns at
// once: most of what an idle stream costs, about 10 KiB, is what the server would keep for it,
// namely two buffers of 4 KiB, the request, and a stack that grew to read it. When the stream is
// over, it is released and its subscription closed.
func (x *exchange) serveStream(
	release func(), sub *snapshot.Subscription, expires time.Time,
	serve func(ctx context.Context, out *eventStream),
) {
	leave := func() {
		sub.Close()
		release()
	}
	if x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close") // the server never sees the connection again
	}
	out := openStream(x.w)
	conn, ok := out.hijack(x.w, x.r)
	if !ok {
		ctx, cancel := withExpiry(x.r.Context(), expires)
		defer cancel()
		defer leave()
		serve(ctx, out)
		out.end()
		return
	}
	if !x.t.hijacked.add(conn) {
		_ = conn.Close()
		leave()
		return
	}
	// The request's context ends when its handler returns.
	ctx, cancel := withExpiry(context.Background(), expires)
	x.t.hijacked.open.Go(func() {
		defer cancel()
		var b [1]byte
		// Returns when the client goes; a client that sends on its stream violates the protocol.
		_, _ = conn.Read(b[:])
	})
	go x.t.serveHijacked(ctx, conn, out, leave, serve)
}

// serveHijacked is the one goroutine that writes to a hijacked stream.
func (t *Transport) serveHijacked(
	ctx context.Context, conn net.Conn, out *eventStream, leave func(), serve func(context.Context, *eventStream),
) {
	defer t.hijacked.remove(conn)
	defer leave()
	defer t.recovered(ctx, nil)
	serve(ctx, out)
	out.extend()
	_, _ = io.WriteString(conn, "0\r\n\r\n") // an error means that the client has gone
}

// hijack takes the connection from the HTTP server in the middle of the response, which continues
// in chunks. Ok is false where that is impossible.
func (s *eventStream) hijack(w http.ResponseWriter, r *http.Request) (conn net.Conn, ok bool) {
	if s.err != nil || !r.ProtoAtLeast(1, 1) || r.ProtoMajor != 1 {
		return nil, false
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, false
	}
	// openStream has flushed, so that the server's buffer is empty and the chunks continue the
	// body.
	s.w, s.control = chunked{conn}, chunked{conn}
	return conn, true
}

// chunked writes each write as one chunk of an HTTP/1.1 response (RFC 9112, section 7.1).
type chunked struct{ net.Conn }

func (c chunked) Write(p []byte) (int, error) {
	buffer := getBuffer()
	chunk := append(strconv.AppendInt(*buffer, int64(len(p)), 16), "\r\n"...)
	chunk = append(append(chunk, p...), "\r\n"...)
	defer putBuffer(buffer, chunk)
	if _, err := c.Conn.Write(chunk); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush implements control.
func (chunked) Flush() error { return nil }

// add registers a connection, unless the gateway has stopped.
func (h *hijacked) add(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return false
	}
	if h.conns == nil {
		h.conns = map[net.Conn]struct{}{}
	}
	h.conns[conn] = struct{}{}
	h.open.Add(1)
	return true
}

func (h *hijacked) remove(conn net.Conn) {
	_ = conn.Close() // which ends the goroutine that reads from it
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, conn)
	h.open.Done()
}

// wait returns when all streams are closed. After closeTimeout it closes those whose clients do not
// read.
func (h *hijacked) wait() {
	h.mu.Lock()
	// First: a WaitGroup must not be added to from zero while somebody waits for it.
	h.stopped = true
	h.mu.Unlock()
	defer time.AfterFunc(closeTimeout, h.closeAll).Stop()
	h.open.Wait()
}

func (h *hijacked) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn := range h.conns {
		_ = conn.Close()
	}
}

const (
	// writeTimeout is how long a client may delay the writing of a response, or of an event, before
	// it is dropped.
	writeTimeout = 30 * time.Second
	// maxCounted is the size in bytes up to which the HTTP server computes a response's
	// Content-Length by itself.
	maxCounted = 2 << 10
	// maxBuffered is the size in bytes up to which a response and its header fit into the HTTP
	// server's buffer.
	maxBuffered = 3 << 10
	// maxPooled bounds the buffers that are kept for later responses, in bytes.
	maxPooled = 1 << 20
)

// contentJSON is shared by all responses. Nobody changes a header's values in place.
var contentJSON = []string{wire.ContentJSON} //nolint:gochecknoglobals // a constant

// writeJSON writes a small response.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	return write(context.Background(), w, time.Now(), status, false, body)
}

// write writes a JSON response, which its client must have read writeTimeout from now. What does
// not fit into the HTTP server's buffer leaves in one system call; ctx is the HTTP request's. If
// through, nothing is left in that buffer either: when write returns, the client has read the
// response, or the system has it.
func write(
	ctx context.Context, w http.ResponseWriter, now time.Time, status int, through bool, parts ...[]byte,
) (err error) {
	header, size := w.Header(), 0
	for _, part := range parts {
		size += len(part)
	}
	header["Content-Type"] = contentJSON
	if through || size > maxCounted { // or a flush would make it a response in chunks
		header["Content-Length"] = []string{strconv.Itoa(size)}
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(now.Add(writeTimeout)) // a writer without deadlines stays unbounded
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

// buffers are reused between responses, so that a page of the list costs no allocation of its size.
var buffers = sync.Pool{ //nolint:gochecknoglobals // a pool is shared by nature
	New: func() any { return new([]byte) },
}

// getBuffer returns an empty buffer.
func getBuffer() *[]byte {
	buffer, _ := buffers.Get().(*[]byte)
	*buffer = (*buffer)[:0]
	return buffer
}

// putBuffer keeps the memory of what was appended to a buffer for the next response.
func putBuffer(buffer *[]byte, appended []byte) {
	if cap(appended) <= maxPooled {
		*buffer = appended[:0]
		buffers.Put(buffer)
	}
}
