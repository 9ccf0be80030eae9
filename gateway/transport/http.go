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
	// MaxRequest bounds one message or batch of a client, in bytes.
	MaxRequest = 4 << 20
	// maxPrealloc bounds the memory that a Content-Length alone can claim, in bytes.
	maxPrealloc = 64 << 10
)

// exchange is one HTTP request and its response.
type exchange struct {
	t *Transport

	w http.ResponseWriter
	r *http.Request
	// conn is the connection of the request; nil if it is none of the gateway's listeners.
	conn *edge.Conn
	// snapshot is the one that was current when the request had arrived in full. Until then it is
	// that of the header, by which its origin is checked.
	snapshot *snapshot.Snapshot
	// variant is that of the endpoint; empty for the plain one.
	variant config.Variant
	// client is the client's address, once the request has arrived in full.
	client string
	// What the request holds until it is over, see release: its entry among those in flight and among
	// those that are pending, its response, and memory, that of a request of HTTP/2 and that of a large
	// body.
	inFlight      *cancellable
	pending       pending
	response      requests.Response
	request, body edge.Hold
	// forwarded is set for a request of another replica.
	forwarded bool
}

// serve serves Streamable HTTP.
func (x *exchange) serve() {
	// A GET or DELETE has no message that could tell its era. A revision that is not served is refused
	// where a session is wanted, with a list of those that are.
	modern := wire.KnownModern(wire.Header(x.r.Header, wire.HeaderProtocolVersion))
	switch x.r.Method {
	case http.MethodPost:
		x.servePost(modern)
	case http.MethodGet:
		switch {
		case clientsetup.IsBrowser(x.r):
			servePage(x.w, x.r, x.snapshot)
		case modern:
			refuseMethod(x.w, http.MethodPost, "In this revision, clients listen with subscriptions/listen")
		case x.acceptsStream():
			if l, ok := x.inSession(); ok {
				l.serveStream()
			}
		}
	case http.MethodDelete:
		if modern {
			refuseMethod(x.w, http.MethodPost, "This revision has no sessions")
		} else if l, ok := x.inSession(); ok {
			l.end()
		}
	default:
		refuseMethod(x.w, "POST, GET, DELETE", "Method not allowed")
	}
}

// servePost handles what was posted: first its JSON, then its headers, then its caller.
func (x *exchange) servePost(modernHeader bool) {
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
		if modernHeader {
			x.refuse(http.StatusBadRequest, nil, wire.NoBatches())
			return
		}
		if l, ok := x.inSession(); ok {
			l.serveBatch(in.batch)
		}
		return
	}
	var (
		ctx     context.Context
		status  int
		request = in.request // and no more of in, which would keep the body while a stream is open
		raw     []byte       // of a message that may be for another replica
	)
	if !request.Message.IsRequest() || request.IsRepeated() {
		raw = in.raw
	}
	// The message determines its era: by its _meta, else by the header. A legacy session begins with an
	// initialize, whose params have the revision: some clients send the newest one in all headers.
	if request.ClaimsModern() || modernHeader && request.Message.Method != wire.Initialize {
		ctx, status, ok = x.admitModern(request)
	} else {
		ctx, ok = x.admitLegacy(request, raw)
		status = http.StatusOK
	}
	if id := request.ParkedID(); ok && id != "" && x.forward(x.w, id, &request.Caller, raw) {
		return
	}
	if ok {
		x.respond(ctx, request, status)
	}
	request.ResolveTool() // or a call that its headers have refused would not be recorded as a get
	x.t.requests.RecordRefused(x.r.Context(), request, x.r.Header)
	request.Release()
}

// receive reads the body of a POST, or answers why it cannot be read.
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
	// The body may have taken long to arrive, and a reload may have revoked the credential.
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

// errNoMemory means that a body does not fit beside what its client has sent already.
var errNoMemory = errors.New("too many bytes are held")

// readLargeBody reads a body that is large or may be. Its memory grows with what has arrived, and
// counts for the client's address: who the caller is will be found out from the message.
func (x *exchange) readLargeBody() ([]byte, error) {
	// MaxBytesReader has the server close the connection, too, in place of reading on what a client
	// goes on sending.
	source := http.MaxBytesReader(x.w, x.r.Body, MaxRequest)
	share, client := x.snapshot.Config.Gateway.MaxBuffered, edge.AddressKey(x.clientAddress())
	var ok bool
	if x.body, ok = x.t.ledger.Acquire(share, client, "", maxPrealloc); !ok {
		return nil, errNoMemory
	}
	body := make([]byte, 0, maxPrealloc)
	for {
		if len(body) == cap(body) {
			// Before the memory is taken.
			if !x.body.Grow(share, 2*cap(body)) {
				return nil, errNoMemory
			}
			body = append(make([]byte, 0, 2*cap(body)), body...)
		}
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		// A body that breaks off ends with another error, such as io.ErrUnexpectedEOF.
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// respond carries out a request, in a context that ends when the client goes, and writes its
// response as JSON, or as an event stream if messages precede the response or it takes long.
func (x *exchange) respond(ctx context.Context, request *requests.Request, status int) {
	buffer := getBuffer()
	x.t.pendings.add(&x.pending, x.w, request)
	if request.Relay == nil {
		request.InParts = true
		x.response = x.t.requests.Handle(ctx, request, *buffer)
	} else {
		x.response = x.respondRelaying(ctx, request, *buffer)
	}
	if stream := x.t.pendings.end(&x.pending); stream != nil {
		stream.event("", slices.Concat(x.response.Parts()...))
		stream.end()
		// As below: the failed write may still use the buffer.
		if stream.err == nil {
			putBuffer(buffer, x.response.JSON)
		}
		return
	}
	if request.Modern() && x.response.Code == wire.MissingClientCapability {
		status = http.StatusBadRequest // the only error of a method that has an HTTP status
	}
	parts, through := x.response.Parts(), x.response.Limited() // or its limit is free before it is sent
	// A write that failed may still be under way, since HTTP/2 returns from it when the client
	// resets the stream.
	if err := write(ctx, x.w, request.Answered(), status, through, parts...); err == nil {
		putBuffer(buffer, x.response.JSON)
	}
}

// respondRelaying carries out a request during which messages may have to be sent to the client,
// before the response.
func (x *exchange) respondRelaying(
	ctx context.Context, request *requests.Request, buffer []byte,
) requests.Response {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if x.forwarded { // the other replica waits for the header, and for no longer than answerTimeout
		x.pending.comment()
	}
	return x.t.handleRelaying(ctx, request, buffer, outlet{
		send: func(message []byte) {
			if !x.pending.send(message) {
				giveUp()
			}
		},
	})
}

// refuse answers with an HTTP status and a JSON-RPC error, which has the request's id if that is
// known.
func (x *exchange) refuse(status int, id jsontext.Value, err *wire.Error) {
	refuse(x.w, status, id, err)
}

func refuse(w http.ResponseWriter, status int, id jsontext.Value, err *wire.Error) {
	_ = writeJSON(w, status, wire.AppendError(nil, id, err)) // an error means that the client has gone
}

// refuseMethod answers an HTTP method that is not served.
func refuseMethod(w http.ResponseWriter, allow, problem string) {
	w.Header().Set("Allow", allow)
	refuse(w, http.StatusMethodNotAllowed, nil, wire.NewError(wire.InvalidRequest, problem))
}

// acceptsStream reports whether the request accepts an event stream, or answers that it must.
func (x *exchange) acceptsStream() bool {
	if accepts(x.r, wire.ContentSSE) {
		return true
	}
	x.refuse(http.StatusNotAcceptable, nil, wire.NewError(wire.InvalidRequest, "Accept must list text/event-stream"))
	return false
}

// usualAccept is what clients that follow the specification send.
const usualAccept = wire.ContentJSON + ", " + wire.ContentSSE

// accepts reports whether a request's Accept header allows all of the content types. Without the
// header, all are allowed.
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
