package transport

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// closeBound is how long hijacked streams may take to send their last message when the gateway stops.
const closeBound = 5 * time.Second

// hijacked are the streams whose connections were taken from the HTTP server, which no longer waits for them or ends them.
// The zero value is ready.
type hijacked struct {
	mu      sync.Mutex // guards what follows
	conns   map[net.Conn]struct{}
	stopped bool
	open    sync.WaitGroup
}

// serveStream opens an event stream and has it served until the client goes or the caller's credential expires. Over
// HTTP/1.1 the connection leaves its server, and serveStream returns at once: most of what an idle stream costs, about 10
// KiB, is what the server would keep for it, namely two buffers of 4 KiB, the request, and a stack that grew to read it.
func (x *exchange) serveStream(stream openedStream, expires time.Time, serve func(ctx context.Context, out *eventStream)) {
	if x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close") // the server never sees the connection again
	}
	out := openStream(x.w)
	conn, ok := out.hijack(x.w, x.r)
	if !ok {
		ctx, cancel := withExpiry(x.r.Context(), expires)
		defer cancel()
		defer stream.release()
		serve(ctx, out)
		out.end()
		return
	}
	if !x.hijacked.add(conn) {
		_ = conn.Close()
		stream.release()
		return
	}
	ctx, cancel := withExpiry(context.Background(), expires)
	x.hijacked.open.Go(func() {
		defer cancel()
		var b [1]byte
		_, _ = conn.Read(b[:]) // returns when the client goes; a client that sends on its stream violates the protocol
	})
	go x.Transport.serveHijacked(ctx, conn, out, stream.release, serve)
}

// serveHijacked is the one goroutine that writes to a hijacked stream. If it panics, it ends alone, like a handler of the
// HTTP server.
func (t *Transport) serveHijacked(
	ctx context.Context, conn net.Conn, out *eventStream, leave func(), serve func(context.Context, *eventStream),
) {
	defer t.hijacked.remove(conn)
	defer leave()
	defer func() {
		if err := recover(); err != nil {
			t.logger.ErrorContext(ctx, "stream panicked", slog.Any("error", err), slog.String("stack", string(debug.Stack())))
		}
	}()
	serve(ctx, out)
	out.extend()
	_, _ = io.WriteString(conn, "0\r\n\r\n") // an error means that the client has gone
}

// hijack takes the connection from the HTTP server in the middle of the response, which continues in chunks. Ok is false
// where that is impossible.
func (s *eventStream) hijack(w http.ResponseWriter, r *http.Request) (conn net.Conn, ok bool) {
	if s.err != nil || !r.ProtoAtLeast(1, 1) || r.ProtoMajor != 1 {
		return nil, false
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, false
	}
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

// wait returns when all streams are closed. After closeBound it closes those whose clients do not read.
func (h *hijacked) wait() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	defer time.AfterFunc(closeBound, h.closeAll).Stop()
	h.open.Wait()
}

func (h *hijacked) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn := range h.conns {
		_ = conn.Close()
	}
}
