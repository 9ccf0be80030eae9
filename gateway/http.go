package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/httpconn"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxRequest bounds the body of a client's request, in bytes.
	maxRequest = 4 << 20
	// maxPromised bounds the room that is made for a body before it is there, in bytes.
	maxPromised = 64 << 10
	// maxCounted is up to how many bytes the HTTP server finds out by itself how long a response is.
	maxCounted = 2 << 10
	// maxBuffered is up to how many bytes a response fits, with its header, into the buffer of the HTTP server.
	maxBuffered = 3 << 10
	// maxPooled bounds the buffers that are kept for the next response, in bytes.
	maxPooled = 1 << 20
)

// Handler serves the MCP endpoint: Streamable HTTP of both eras, decided request by request. It is mounted at the
// configured path and answers there, and at /sse where HTTP+SSE is, only.
//
//	POST    initialize, or a session id     legacy (2024-11-05 to 2025-11-25)
//	        _meta or header says so         modern (2026-07-28)
//	GET     legacy stream of notifications
//	DELETE  end of a legacy session
//
// How long a request may take to arrive is for the server to bound, by its ReadTimeout: it is over once the body has been
// read, however long the response then lasts.
//
// Where access tokens are accepted it also serves, to anybody, who issues them: below /.well-known.
func (g *Gateway) Handler() http.Handler {
	path, endpoint := g.setup().cfg.Gateway.Path, g.guarded(g.serveHTTP) // a reload that changes the path is refused
	mux := http.NewServeMux()
	mux.Handle(path, endpoint)
	mux.Handle(ssePath, g.guarded(g.serveSSE))
	mux.HandleFunc(wellKnown, g.serveMetadata)
	mux.HandleFunc(wellKnown+"/", g.serveMetadata)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path { // as nearly always
			endpoint.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// guarded serves requests that name this gateway, and refuses others.
func (g *Gateway) guarded(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.setup().hosts.check(r); err != nil {
			refuse(w, http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
			return
		}
		serve(w, r)
	})
}

func (g *Gateway) serveHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		g.servePost(w, r)
	case http.MethodGet:
		g.serveLegacyStream(w, r)
	case http.MethodDelete:
		g.serveDelete(w, r)
	default:
		refuseMethod(w, "POST, GET, DELETE", "Method not allowed")
	}
}

// refuseMethod answers an HTTP method that is not served.
func refuseMethod(w http.ResponseWriter, allow, problem string) {
	w.Header().Set("Allow", allow)
	refuse(w, http.StatusMethodNotAllowed, nil, wire.NewError(wire.InvalidRequest, problem))
}

// refuse answers with an HTTP status of its own and a JSON-RPC error, with the request's id where that is known.
func refuse(w http.ResponseWriter, status int, id jsontext.Value, err *wire.Error) {
	_ = writeJSON(w, status, wire.AppendError(nil, id, err)) // the client has gone
}

// contentJSON is shared by all responses: nobody changes a header's values in place.
var contentJSON = []string{wire.ContentJSON} //nolint:gochecknoglobals // a constant

func writeJSON(w http.ResponseWriter, status int, parts ...[]byte) error {
	return writeSince(w, time.Now(), status, parts...)
}

// writeSince is writeJSON for a response that was made at a time that is known.
func writeSince(w http.ResponseWriter, made time.Time, status int, parts ...[]byte) error {
	writeHeader(w, made, status, parts)
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// writeHeader sets the header of a JSON response and the time by which the client must have taken it.
func writeHeader(w http.ResponseWriter, made time.Time, status int, parts [][]byte) {
	header := w.Header()
	header["Content-Type"] = contentJSON
	if length := length(parts); length > maxCounted {
		header["Content-Length"] = []string{strconv.Itoa(length)}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(made.Add(writeBound)) // one without deadlines has no bound
	w.WriteHeader(status)
}

func length(parts [][]byte) (sum int) {
	for _, part := range parts {
		sum += len(part)
	}
	return sum
}

// writeWhole is writeSince for a response that may be large: it leaves at once. Ctx is the request's.
func writeWhole(ctx context.Context, w http.ResponseWriter, made time.Time, status int, parts ...[]byte) error {
	if length(parts) <= maxBuffered {
		return writeSince(w, made, status, parts...)
	}
	writeHeader(w, made, status, parts)
	return httpconn.Write(ctx, w, parts...)
}

// servePost handles what was sent at once: its JSON first, then its headers, then who sent it.
func (g *Gateway) servePost(w http.ResponseWriter, r *http.Request) {
	if !accepts(r, wire.ContentJSON, wire.ContentSSE) {
		refuse(w, http.StatusNotAcceptable, nil,
			wire.NewError(wire.InvalidRequest, "Accept must list application/json and text/event-stream"))
		return
	}
	in, ok := receive(w, r)
	if ok && in.call != nil {
		g.cameBy(r, in.call)
	}
	switch {
	case !ok:
	case in.batch != nil && wire.Modern(wire.Header(r.Header, wire.HeaderProtocolVersion)):
		refuse(w, http.StatusBadRequest, nil, wire.NoBatches())
	case in.batch != nil:
		g.serveBatch(w, r, in.batch)
	case isModern(r, in.call):
		g.serveModern(w, r, in.call)
	default:
		g.serveLegacy(w, r, in.call)
	}
	if in.call == nil {
		return
	}
	if in.call.message.IsRequest() && !in.call.operation.begun() {
		g.metrics.measure(extractTrace(r.Context(), in.call.meta, r.Header), in.call, errRefused)
	}
	in.call.release()
}

// cameBy notes by which HTTP request a client's came.
func (g *Gateway) cameBy(r *http.Request, call *request) {
	if !g.metrics.silent {
		call.client = func() string { return g.clientAddress(r) }
	}
}

// receive reads the body of a POST, or answers why it cannot be read.
func receive(w http.ResponseWriter, r *http.Request) (incoming, bool) {
	if wire.MediaType(wire.Header(r.Header, "Content-Type")) != wire.ContentJSON {
		refuse(w, http.StatusUnsupportedMediaType, nil, wire.NewError(wire.InvalidRequest, "Content-Type must be application/json"))
		return incoming{}, false
	}
	body, err := readBody(w, r)
	if err != nil {
		refuseBody(w, err)
		return incoming{}, false
	}
	in, refusal := readIncoming(body)
	if refusal != nil {
		refuse(w, http.StatusBadRequest, in.call.message.ID, refusal)
		return incoming{}, false
	}
	in.header = r.Header
	return in, true
}

// readBody reads a request's body whole.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > maxPromised {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

func refuseBody(w http.ResponseWriter, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(w, http.StatusRequestEntityTooLarge, nil, wire.NewError(wire.InvalidRequest, "The message is too large"))
		return
	}
	refuse(w, http.StatusBadRequest, nil, wire.NewError(wire.ParseError, "The message did not arrive whole"))
}

// usualAccept is what the clients that keep to the specification send.
const usualAccept = wire.ContentJSON + ", " + wire.ContentSSE

// accepts reports whether a request's Accept header allows the content types, of the transport's. No header allows all.
func accepts(r *http.Request, contentTypes ...string) bool {
	values := r.Header["Accept"]
	if len(values) == 0 || values[0] == usualAccept {
		return true
	}
	return !slices.ContainsFunc(contentTypes, func(contentType string) bool { return !allows(values, contentType) })
}

// allows reports whether an Accept header's values list the content type.
func allows(values []string, contentType string) bool {
	major, _, _ := strings.Cut(contentType, "/")
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case contentType, "*/*", major + "/*":
				return true
			}
		}
	}
	return false
}

// acceptsStream reports whether a request allows an event stream, or answers that it must.
func acceptsStream(w http.ResponseWriter, r *http.Request) bool {
	if accepts(r, wire.ContentSSE) {
		return true
	}
	refuse(w, http.StatusNotAcceptable, nil, wire.NewError(wire.InvalidRequest, "Accept must list text/event-stream"))
	return false
}

// isModern decides a message's era: what it says of itself in _meta, else its header. An initialize without either
// is how the legacy era begins.
func isModern(r *http.Request, call *request) bool {
	return call.claimsModern() || wire.Modern(wire.Header(r.Header, wire.HeaderProtocolVersion))
}

// buffers are reused between responses, so that a page of the list costs no allocation of its size.
var buffers = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool is shared by nature

// serveRequest carries a request out, in a context that ends when the client goes, and writes its response as JSON. What
// there is to be said before makes it a stream of events.
func (g *Gateway) serveRequest(ctx context.Context, w http.ResponseWriter, call *request, status int) {
	buffer, _ := buffers.Get().(*[]byte)
	call.cut.wanted = call.talk == nil // else it may become a line of an event stream
	var (
		response []byte
		code     int64
		stream   *eventStream
	)
	if call.talk == nil {
		response, code = g.respond(ctx, (*buffer)[:0], call)
	} else {
		response, code, stream = g.respondOver(ctx, w, (*buffer)[:0], call)
	}
	if stream != nil {
		stream.event("", response)
		stream.end()
		if stream.err == nil {
			keepBuffer(buffer, response)
		}
		return
	}
	if call.modern() && code == wire.MissingClientCapability {
		status = http.StatusBadRequest // the one error of a method's own that has a status
	}
	// A write that failed may still be under way: HTTP/2 returns from it when the client resets the stream.
	parts := [][]byte{response}
	if c := &call.cut; c.part != nil {
		parts = [][]byte{response[:c.at], c.part, response[c.at:]}
	}
	if err := writeWhole(ctx, w, call.answered, status, parts...); err == nil {
		keepBuffer(buffer, response)
	}
}

// keepBuffer keeps the memory of a response for the next.
func keepBuffer(buffer *[]byte, response []byte) {
	if cap(response) <= maxPooled {
		*buffer = response[:0]
		buffers.Put(buffer)
	}
}

// respondOver carries a request out whose client may be talked to. The stream is the one that the response belongs on; nil
// where nothing was said before it.
func (g *Gateway) respondOver(
	ctx context.Context, w http.ResponseWriter, dst []byte, call *request,
) (response []byte, code int64, stream *eventStream) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	write := func(write func()) {
		if write(); stream.err != nil {
			giveUp()
		}
	}
	response, code = g.respondTalking(ctx, dst, call, speaker{
		say: func(message []byte) {
			if stream == nil {
				stream = openStream(w)
			}
			write(func() { stream.event("", message) })
		},
		quiet: func() {
			if stream != nil {
				write(stream.comment)
			}
		},
	})
	return response, code, stream
}
