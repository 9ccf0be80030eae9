package gateway

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
	w       io.Writer
	control control
	err     error
}

// control bounds and hurries what is written to a stream.
type control interface {
	SetWriteDeadline(time.Time) error
	Flush() error
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

// detached are the streams whose connections have left the HTTP server, which neither waits for them nor ends them any
// more. The zero value is ready.
type detached struct {
	mu    sync.Mutex // guards what follows
	conns map[net.Conn]struct{}
	ended bool
	open  sync.WaitGroup
}

// closeBound is how long streams may take to say goodbye when the gateway ends.
const closeBound = 5 * time.Second

// keep counts a connection in, unless the streams have ended already.
func (d *detached) keep(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	if d.conns == nil {
		d.conns = map[net.Conn]struct{}{}
	}
	d.conns[conn] = struct{}{}
	d.open.Add(1)
	return true
}

func (d *detached) leave(conn net.Conn) {
	_ = conn.Close() // and so its reader ends
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, conn)
	d.open.Done()
}

// end waits until all streams have ended, and after closeBound cuts off those whose clients do not read.
func (d *detached) end() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	defer time.AfterFunc(closeBound, d.cut).Stop()
	d.open.Wait()
}

func (d *detached) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		_ = conn.Close()
	}
}

// serveDetached opens a stream and has it served; ctx ends when the client goes. Over HTTP/1.1 the connection leaves
// its server first, and serveDetached returns at once: what an idle stream would keep alive otherwise (the server's two
// buffers of 4 KiB, the request, and a stack that has been grown to read it) is most of what it costs.
func (g *Gateway) serveDetached(w http.ResponseWriter, r *http.Request, serve func(ctx context.Context, out *eventStream)) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // the server never sees the connection again
	}
	out := openStream(w)
	conn, ok := out.detach(w, r)
	if !ok {
		serve(r.Context(), out)
		out.end()
		return
	}
	if !g.detached.keep(conn) {
		_ = conn.Close()
		return
	}
	ctx, gone := context.WithCancel(context.Background())
	g.detached.open.Go(func() {
		defer gone()
		var b [1]byte
		_, _ = conn.Read(b[:]) // returns when the client goes; what one says on its stream breaks the protocol
	})
	go g.serveStream(ctx, conn, out, serve)
}

// serveStream is the one goroutine that writes to a detached stream. Like a handler of the HTTP server it ends alone when it panics.
func (g *Gateway) serveStream(ctx context.Context, conn net.Conn, out *eventStream, serve func(context.Context, *eventStream)) {
	defer g.detached.leave(conn)
	defer func() {
		if err := recover(); err != nil {
			g.logger.ErrorContext(ctx, "stream broke", slog.Any("error", err), slog.String("stack", string(debug.Stack())))
		}
	}()
	serve(ctx, out)
	out.extend()
	_, _ = io.WriteString(conn, "0\r\n\r\n") // the client has gone, or reads it
}

// detach takes the connection from the HTTP server in the midst of the response, which goes on in chunks. Ok is false
// where that cannot be.
func (s *eventStream) detach(w http.ResponseWriter, r *http.Request) (conn net.Conn, ok bool) {
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

// chunked writes each write as one chunk of an HTTP/1.1 response.
type chunked struct{ net.Conn }

func (c chunked) Write(p []byte) (int, error) {
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	chunk := append(strconv.AppendInt((*buffer)[:0], int64(len(p)), 16), "\r\n"...)
	chunk = append(append(chunk, p...), "\r\n"...)
	*buffer = chunk
	if _, err := c.Conn.Write(chunk); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (chunked) Flush() error { return nil }

// stream keeps an HTTP stream open until the client goes, ctx ends, the gateway drains or a reload does not accept the
// caller any more, and calls changed whenever the client's view has become another. It reports whether the gateway ended it.
func (g *Gateway) stream(ctx context.Context, out *eventStream, who *caller, sub *subscriber, changed func()) (drained bool) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for out.err == nil {
		select {
		case <-sub.wake:
			changed()
		case <-alive.C:
			out.comment()
		case <-who.by.replaced:
			if !g.remain(ctx, sub, who) {
				return true
			}
		case <-g.closing:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return false
}
