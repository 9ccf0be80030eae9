package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/clientsetup"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// MaxRequest bounds a message or batch of a client, in bytes.
	MaxRequest = 4 << 20
	// maxPrealloc bounds the memory, in bytes, that is allocated for a body before it arrives.
	maxPrealloc = 64 << 10
)

// exchange is one HTTP request and its response.
type exchange struct {
	t *Transport

	w http.ResponseWriter
	r *http.Request
	// conn is the connection of the request. It is nil if a server other than the gateway's accepted
	// the connection.
	conn *edge.Conn
	// snapshot is at first the snapshot that was current when the header arrived. It checks the origin.
	// When the body has arrived, it is replaced by the current snapshot.
	snapshot *snapshot.Snapshot
	// variant is the endpoint's variant. It is empty for the plain endpoint.
	variant config.Variant
	// client is the client's network address. It is set when the body has arrived.
	client string
	// pending is the response while the request waits for an upstream.
	pending pending
	// scope contains everything that release must release.
	scope requests.Scope
	// forwarded is true for a request from another replica.
	forwarded bool
	// recorded is true once the request is in metrics and the audit log.
	recorded bool
}

// protocol is the handling of one era over Streamable HTTP. If a function refuses a request, it has
// written the response.
type protocol struct {
	// admit checks a posted message and its caller. If ok is true, the message is a request to handle in
	// ctx, and status is the HTTP status of its response. Otherwise admit has written the response. raw
	// is the text of the message, for forwarding.
	admit func(x *exchange, request *requests.Request, raw []byte) (ctx context.Context, status int, ok bool)
	// serveBatch serves a posted batch.
	serveBatch func(x *exchange, batch []jsontext.Value)
	// serveStream serves a GET, and end a DELETE.
	serveStream, end func(x *exchange)
}

//nolint:gochecknoglobals // constant tables
var (
	legacy = protocol{
		admit: (*exchange).admitLegacy,
		serveBatch: func(x *exchange, batch []jsontext.Value) {
			x.inSession(func(l *legacyExchange) { l.serveBatch(batch) })
		},
		serveStream: func(x *exchange) {
			if x.acceptsStream() {
				x.inSession((*legacyExchange).serveStream)
			}
		},
		end: func(x *exchange) { x.inSession((*legacyExchange).end) },
	}
	modern = protocol{
		admit:      (*exchange).admitModern,
		serveBatch: func(x *exchange, _ []jsontext.Value) { x.refuse(http.StatusBadRequest, nil, wire.NoBatches()) },
		serveStream: func(x *exchange) {
			refuseMethod(x.w, http.MethodPost, "In this revision, clients listen with subscriptions/listen")
		},
		end: func(x *exchange) { refuseMethod(x.w, http.MethodPost, "This revision has no sessions") },
	}
)

// serve serves Streamable HTTP.
func (x *exchange) serve() {
	// An unknown revision counts as legacy: openSession responds with the supported revisions.
	ofHeader := &legacy
	if wire.KnownModern(wire.Header(x.r.Header, wire.HeaderProtocolVersion)) {
		ofHeader = &modern
	}
	switch x.r.Method {
	case http.MethodPost:
		x.servePost(ofHeader)
	case http.MethodGet:
		if clientsetup.IsBrowser(x.r) {
			servePage(x.w, x.r, x.snapshot)
		} else {
			ofHeader.serveStream(x)
		}
	case http.MethodDelete:
		ofHeader.end(x)
	default:
		refuseMethod(x.w, "POST, GET, DELETE", "Method not allowed")
	}
}

// servePost serves a POST. It checks the JSON, then the headers, then the caller.
func (x *exchange) servePost(ofHeader *protocol) {
	if !accepts(x.r, wire.ContentJSON, wire.ContentSSE) {
		x.refuse(http.StatusNotAcceptable, nil,
			wire.NewError(wire.InvalidRequest, "Accept must list application/json and text/event-stream"))
		return
	}
	in, ok := x.receive()
	if !ok {
		return
	}
	if in.batch != nil {
		ofHeader.serveBatch(x, in.batch)
		return
	}
	var (
		request = in.request // below, do not use in: it would keep the body in memory while a stream is open
		raw     []byte       // only for messages that may be forwarded
	)
	x.scope.Request = request
	if !request.Message.IsRequest() || request.IsRepeated() {
		raw = in.raw
	}
	ctx, status, ok := protocolOf(request, ofHeader).admit(x, request, raw)
	if id := request.ParkedID(); ok && id != "" && x.forward(x.w, id, &request.Caller, raw) {
		return
	}
	if ok {
		x.respond(ctx, request, status)
	}
	if !x.recorded {
		request.ResolveTool() // admit may have refused the request before: record a tools/call as a get
		x.t.requests.RecordRefused(x.r.Context(), request, x.r.Header)
	}
}

// protocolOf returns the protocol of a message: modern if its _meta contains a revision, otherwise the
// protocol of the header. An initialize is legacy even with a modern header, because some clients send
// the newest revision in all headers.
func protocolOf(request *requests.Request, ofHeader *protocol) *protocol {
	switch {
	case request.ClaimsModern():
		return &modern
	case request.Message.Method == wire.Initialize:
		return &legacy
	}
	return ofHeader
}

// record records a request that the transport answers without a handler. err is nil for a success.
func (x *exchange) record(ctx context.Context, request *requests.Request, err error) {
	x.recorded = true
	x.t.requests.Record(ctx, request, err)
}

// receive reads and parses the body of a POST. If it fails, it responds with an error and returns
// false.
func (x *exchange) receive() (incoming, bool) {
	if wire.MediaType(wire.Header(x.r.Header, "Content-Type")) != wire.ContentJSON {
		x.refuse(http.StatusUnsupportedMediaType, nil,
			wire.NewError(wire.InvalidRequest, "Content-Type must be application/json"))
		return incoming{}, false
	}
	body, err := x.readBody()
	if err != nil {
		status := http.StatusBadRequest
		refusal := wire.NewError(wire.ParseError, "The message did not arrive in full")
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
			refusal = wire.NewError(wire.InvalidRequest, "The message is too large")
		}
		if errors.Is(err, errNoMemory) {
			x.w.Header().Set("Retry-After", "1")
			status = http.StatusServiceUnavailable
			refusal = requests.Overloaded("Too many large messages at once: send it again later")
		}
		x.refuse(status, nil, refusal)
		return incoming{}, false
	}
	// Use the current snapshot: the body may have taken long, and a reload may have revoked the
	// credential.
	x.snapshot = x.t.publisher.Current()
	x.client = x.clientAddress()
	in, refusal := readIncoming(body)
	if refusal != nil {
		x.refuse(http.StatusBadRequest, in.request.Message.ID, refusal)
		return incoming{}, false
	}
	in.raw, in.header = body, x.r.Header
	in.request.Client, in.request.Variant = x.client, x.variant
	return in, true
}

func (x *exchange) readBody() ([]byte, error) {
	if x.r.ContentLength < 0 || x.r.ContentLength > maxPrealloc {
		return x.readLargeBody()
	}
	body := make([]byte, x.r.ContentLength)
	_, err := io.ReadFull(x.r.Body, body)
	return body, err
}

// errNoMemory means that a body would exceed the memory that its client may use.
var errNoMemory = errors.New("too many bytes are held")

// readLargeBody reads a body that is large or has an unknown length. Its memory grows with the bytes
// that have arrived, and counts for the client's address: the principal is not known yet.
func (x *exchange) readLargeBody() ([]byte, error) {
	// If the body is too large, MaxBytesReader also makes the server close the connection.
	source := http.MaxBytesReader(x.w, x.r.Body, MaxRequest)
	share, client := x.snapshot.Config.Gateway.MaxBuffered, edge.AddressKey(x.clientAddress())
	var ok bool
	if x.scope.Message, ok = x.t.ledger.Acquire(share, client, "", maxPrealloc); !ok {
		return nil, errNoMemory
	}
	body := make([]byte, 0, maxPrealloc)
	for {
		if len(body) == cap(body) {
			// Count the memory before allocating it.
			if !x.scope.Message.Grow(share, 2*cap(body)) {
				return nil, errNoMemory
			}
			body = append(make([]byte, 0, 2*cap(body)), body...)
		}
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		// io.EOF means a complete body. For an incomplete body, the error is io.ErrUnexpectedEOF or
		// another error.
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// respond handles a request and writes its response. The response is JSON, or an event stream if
// messages precede the response or if it takes longer than streamAfter. ctx ends when the client
// leaves.
func (x *exchange) respond(ctx context.Context, request *requests.Request, status int) {
	buffer := getBuffer()
	x.recorded = true
	x.t.pendings.add(&x.pending, x.w, request)
	var response requests.Response
	if request.Relay == nil {
		request.InParts = true
		response = x.t.requests.Handle(ctx, request, &x.scope, *buffer)
	} else {
		response = x.respondRelaying(ctx, request, *buffer)
	}
	if stream := x.t.pendings.end(&x.pending); stream != nil {
		stream.event("", slices.Concat(response.Parts()...))
		stream.end()
		if stream.err == nil { // after an error, a write may still be using the buffer
			putBuffer(buffer, response.JSON)
		}
		return
	}
	// In the modern era, this error has its own HTTP status. For a legacy client, it can only be an
	// error of the upstream.
	if request.Modern() && response.Code == wire.MissingClientCapability {
		status = http.StatusBadRequest
	}
	parts, through := response.Parts(), x.scope.Limited() // a limit counts the request until the response is sent
	// After an error, a write may still be using the memory: over HTTP/2, it returns as soon as the
	// client resets the stream.
	if err := write(ctx, x.w, response.Ready, status, through, parts...); err != nil {
		x.scope.KeepMemory()
		return
	}
	putBuffer(buffer, response.JSON)
}

// respondRelaying handles a request that may send messages to the client before the response. It
// cancels the request if such a message cannot be written.
func (x *exchange) respondRelaying(ctx context.Context, request *requests.Request, buffer []byte) requests.Response {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if x.forwarded {
		x.pending.comment() // sends the header: the other replica waits only a limited time for it
	}
	return x.t.handleRelaying(ctx, request, &x.scope, buffer, outlet{
		send: func(message []byte) {
			if !x.pending.send(message) {
				giveUp()
			}
		},
	})
}

// refuse responds with an HTTP status and a JSON-RPC error. The id of the request may be nil.
func (x *exchange) refuse(status int, id jsontext.Value, err *wire.Error) {
	refuse(x.w, status, id, err)
}

func refuse(w http.ResponseWriter, status int, id jsontext.Value, err *wire.Error) {
	_ = writeJSON(w, status, wire.AppendError(nil, id, err)) // an error means that the client has left
}

// refuseMethod responds with 405 to an unsupported HTTP method.
func refuseMethod(w http.ResponseWriter, allow, problem string) {
	w.Header().Set("Allow", allow)
	refuse(w, http.StatusMethodNotAllowed, nil, wire.NewError(wire.InvalidRequest, problem))
}

// acceptsStream reports whether the request accepts an event stream. If not, it responds with 406.
func (x *exchange) acceptsStream() bool {
	if accepts(x.r, wire.ContentSSE) {
		return true
	}
	x.refuse(http.StatusNotAcceptable, nil, wire.NewError(wire.InvalidRequest, "Accept must list text/event-stream"))
	return false
}

// usualAccept is the Accept header of most clients.
const usualAccept = wire.ContentJSON + ", " + wire.ContentSSE

// accepts reports whether a request's Accept header allows all of the content types, or is missing.
func accepts(r *http.Request, contentTypes ...string) bool {
	values := r.Header["Accept"]
	if len(values) == 0 || values[0] == usualAccept {
		return true
	}
	return !slices.ContainsFunc(contentTypes, func(contentType string) bool { return !allows(values, contentType) })
}

// allows reports whether the values of an Accept header list a content type.
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
