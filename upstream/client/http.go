package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/client/http1"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sessionEndTimeout is how long the request may take that ends the session at the server.
const sessionEndTimeout = 2 * time.Second

// httpTransport is Streamable HTTP of both eras: a POST for each message, and in the legacy era a
// GET stream for what the server says outside of calls.
type httpTransport struct {
	http *httpSession
	// handshakeTimeout is how long each request of the handshake may take.
	handshakeTimeout time.Duration

	receive func(*wire.Message)
	agreed  atomic.Pointer[agreedHeaders]
	// clockOffset is that of [Session.ClockOffset]. Only a handshake sets it.
	clockOffset time.Duration
	// position is how far the standalone stream was read.
	position streamPosition

	idleTime *idleTime
	once     sync.Once
	lost     chan struct{}
	// logger has one record of the events that are no messages.
	logger *slog.Logger
	stray  sync.Once
}

// agreedHeaders go on each request once they are known.
type agreedHeaders struct {
	revision, sessionID string
	// post is the head of each message.
	post *http1.Head
}

func newHTTPTransport(client *httpClient, handshakeTimeout time.Duration, logger *slog.Logger) *httpTransport {
	t := &httpTransport{
		http: &httpSession{httpClient: client}, handshakeTimeout: handshakeTimeout, idleTime: newIdleTime(),
		lost: make(chan struct{}), logger: logger,
	}
	t.setHeaders("", "")
	return t
}

func (t *httpTransport) start(receive func(*wire.Message)) { t.receive = receive }

func (t *httpTransport) idle() *idleTime { return t.idleTime }

func (t *httpTransport) setRevision(revision string) {
	id := t.sessionID()
	if wire.Modern(revision) {
		id = ""
	}
	t.setHeaders(revision, id)
}

// setHeaders makes the following requests claim a revision and a session.
func (t *httpTransport) setHeaders(revision, sessionID string) {
	a := &agreedHeaders{revision: revision, sessionID: sessionID}
	a.post = t.http.newHead(http.MethodPost, t.http.target, func(header http.Header) {
		a.setHeaders(header)
		header.Set("Content-Type", wire.ContentJSON)
		header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	})
	t.agreed.Store(a)
}

func (a *agreedHeaders) setHeaders(header http.Header) {
	if a.revision != "" {
		header.Set(wire.HeaderProtocolVersion, a.revision)
	}
	if a.sessionID != "" {
		header.Set(wire.HeaderSessionID, a.sessionID)
	}
}

func (t *httpTransport) sessionID() string { return t.agreed.Load().sessionID }

func (t *httpTransport) done() <-chan struct{} { return t.lost }

func (t *httpTransport) err() error { return ErrSessionLost }

func (t *httpTransport) lose() { t.once.Do(func() { close(t.lost) }) }

// roundTrip implements [transport]. A stream of the legacy era that breaks before the response has
// come is resumed.
func (t *httpTransport) roundTrip(ctx context.Context, r *request) error {
	agreed := t.agreed.Load()
	// A handshake is not repeated because it makes a session, and a relayed request because the
	// client may have been asked. But server/discover may be sent twice: it begins nothing.
	mayRepeat := r.onMessage == nil
	if agreed.revision == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.handshakeTimeout)
		defer cancel()
		mayRepeat = r.method != wire.Initialize
	}
	reached := stageBody
	came, err := t.http.send(ctx, agreed.post, r.fields(agreed.revision), r.body(), mayRepeat)
	if err == nil {
		came.idle = t.idleTime
		err = t.readResponse(came, r)
	} else {
		reached = stageOf(err)
		if failed, ok := errors.AsType[*http1.Error](err); ok && failed.HasAnswer {
			err = &startedError{err}
		}
	}
	if err != nil && ctx.Err() != nil {
		return &stageError{error: err, method: r.method, stage: reached}
	}
	if err == nil || r.position.lastEventID == "" || wire.Modern(r.revision) || ctx.Err() != nil || !isInterrupted(err) {
		return err // the modern era resumes nothing
	}
	if r.response, err = t.resume(ctx, &r.position, expected{string(wire.NumberID(r.id)), r.method}, err); err != nil {
		// Events of the response had come, so that the server was at work.
		return &startedError{err}
	}
	return nil
}

// body returns the message that carries a request.
func (r *request) body() []byte {
	const envelope = 80 // bytes at most, without method and params
	return wire.AppendRequest(make([]byte, 0, envelope+len(r.method)+len(r.params)), r.id, r.method, r.params)
}

// fields returns the headers that a request has beside those of each message of its session.
func (r *request) fields(agreed string) (f http1.Fields) {
	if r.assertion.Value != "" {
		f.Add(r.assertion.Header, r.assertion.Value)
	}
	if !wire.Modern(r.revision) {
		return f
	}
	if r.revision != agreed {
		f.Add(wire.HeaderProtocolVersion, r.revision)
	}
	f.Add(wire.HeaderMethod, r.method)
	if r.name != "" {
		f.Add(wire.HeaderName, wire.EncodeHeader(r.name))
	}
	return f
}

// readResponse reads the response to a request, and closes the HTTP response in which it comes.
func (t *httpTransport) readResponse(came *httpResponse, r *request) (err error) {
	defer came.Body.Close()
	id, onMessage := string(wire.NumberID(r.id)), r.onMessage
	if onMessage == nil {
		onMessage = t.receive
	}
	if came.StatusCode != http.StatusOK {
		r.response, err = t.readRefusal(came, r.method, id)
		return err
	}
	if t.agreed.Load().revision == "" {
		t.clockOffset = clockOffset(came.Header)
	}
	if r.method == wire.Initialize {
		// Before the body is read: the server may send requests on its stream, whose replies must
		// name the session.
		t.setHeaders("", came.Header.Get(wire.HeaderSessionID))
	}
	switch contentType := came.contentType(); contentType {
	case wire.ContentJSON:
		r.response, err = t.readJSON(came, expected{id, r.method}, onMessage)
	case wire.ContentSSE:
		r.response, err = t.readStream(came, &r.position, expected{id, r.method}, onMessage)
	default:
		problem := fmt.Sprintf("content type is %q, want %s or %s", contentType, wire.ContentJSON, wire.ContentSSE)
		err = &ProtocolError{problem: problem, foreign: true, contentType: contentType}
	}
	switch {
	case err == nil:
		came.drain()
	case came.read > 0: // the server was at work: to send the request again could do it twice
		err = &startedError{err}
	}
	return err
}

// readRefusal reads a response whose status is not 200. A JSON-RPC error that names the request is
// the server's answer to it, whatever the status is.
func (t *httpTransport) readRefusal(came *httpResponse, method, id string) (*wire.Message, error) {
	refusal := came.statusError()
	var (
		message = new(wire.Message)
		answer  *wire.Error
	)
	raw, err := came.readAll(t.http.maxMessage)
	// Even if the rest broke off: such a server has not read the request.
	refusal.tls = tlsRefusalIn(came.StatusCode, raw)
	if err == nil {
		if messages, err := t.parse(raw, ""); err == nil && len(messages) == 1 {
			message = &messages[0]
		}
	}
	if message.Error != nil {
		answer, _ = wire.ReadError(message.Error) // nil if it is not an error object
	}
	// A 404 with a session means that the session is gone (2025-11-25, Transports, "Session
	// Management"), unless the server says that it does not know the method, for which some use 404
	// too. It counts where the gateway asks for itself. Others say 404 of a prompt, and a caller that
	// gets one must not end the session of all: a list decides, see [Outcome].
	named := answer != nil && wire.CanonicalID(message.ID) == id
	lost := came.StatusCode == http.StatusNotFound && t.sessionID() != "" &&
		(!named || answer.Code != wire.MethodNotFound)
	switch {
	case lost && (method == wire.Ping || method == wire.PromptsList):
		t.lose()
		return nil, ErrSessionLost
	case named && refusal.AsksForPause():
		refusal.unnamed = answer // which [StatusError.RetryAfter] must not get lost beside
	case named && !refusal.RefusesCaller() && !lost:
		came.drain()
		return message, nil
	case named, answer != nil && message.ID == nil && came.StatusCode < http.StatusInternalServerError:
		refusal.unnamed = answer // a 5xx error that names no request may be a proxy's
	}
	return nil, refusal
}

// clockOffset returns by how much the server's clock is ahead, by the Date of its response (RFC
// 9110, section 6.6.1).
func clockOffset(header http.Header) time.Duration {
	told, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0
	}
	return time.Until(told).Round(time.Second)
}

// expected is the response that a body or stream is read for: the id of its request, and the
// method. Both are empty if it is read for none.
type expected struct{ id, method string }

// readJSON reads the expected response from a JSON body. Other messages in it go to onMessage.
func (t *httpTransport) readJSON(
	came *httpResponse, want expected, onMessage func(*wire.Message),
) (*wire.Message, error) {
	raw, err := came.readAll(t.http.maxMessage)
	if err != nil {
		return nil, err
	}
	messages, err := t.parse(raw, want.method) // without an error at least one
	if err != nil {
		return nil, notAMessage(err)
	}
	if response := pickResponse(messages, want.id, onMessage); response != nil {
		return response, nil
	}
	// An error without an id can only mean this request.
	if only := &messages[0]; len(messages) == 1 && only.Error != nil && only.ID == nil {
		return only, nil
	}
	return nil, &ProtocolError{problem: "the id of the response is not that of the request"}
}

// parse reads one JSON text that came in response to a method.
func (t *httpTransport) parse(raw []byte, method string) ([]wire.Message, error) {
	raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
	messages, err := wire.ParseAll(raw, t.agreed.Load().revision)
	if err != nil {
		return parseTolerantly(raw, method, err)
	}
	return messages, nil
}

// readStream reads an event stream until the expected response has come; to its end if none is
// expected. Other messages go to onMessage.
func (t *httpTransport) readStream(
	body io.Reader, p *streamPosition, want expected, onMessage func(*wire.Message),
) (*wire.Message, error) {
	events := newEventReader(body, t.http.maxMessage, p)
	for {
		event, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errStreamEnded
		case err != nil:
			return nil, err
		case !event.isMessage():
			continue
		}
		// The revision may have been agreed on since the stream began, and decides whether batches
		// are allowed.
		messages, err := t.parse(event.data, want.method)
		if err != nil {
			if slices.ContainsFunc(wire.ClaimedIDs(event.data), func(id jsontext.Value) bool { return wire.CanonicalID(id) == want.id }) {
				return nil, &ProtocolError{problem: "an event is not a JSON-RPC message: " + err.Error()}
			}
			t.stray.Do(func() { t.logger.Warn("event ignored", slog.Any("error", err)) })
			continue
		}
		if response := pickResponse(messages, want.id, onMessage); response != nil {
			return response, nil
		}
	}
}

// pickResponse returns the response with the id, or nil, and hands on the messages that are not
// responses.
func pickResponse(messages []wire.Message, id string, onMessage func(*wire.Message)) (response *wire.Message) {
	for i := range messages {
		switch message := &messages[i]; {
		case message.Method != "":
			onMessage(message)
		case id != "" && (string(message.ID) == id || wire.CanonicalID(message.ID) == id):
			response = message
		}
	}
	return response
}

func (t *httpTransport) send(ctx context.Context, message []byte) error {
	if wire.Modern(t.agreed.Load().revision) {
		return nil // the modern era has no such messages over HTTP: closing a stream says the same
	}
	return t.http.do(ctx, t.agreed.Load().post, message, (*httpResponse).success)
}

// standalone resumes the last stream if the server can do that.
func (t *httpTransport) standalone(ctx context.Context, ready func()) error {
	if err := t.position.pause(ctx, 0); err != nil {
		return err
	}
	_, err := t.getStream(ctx, &t.position, expected{}, ready)
	// Perhaps it only cannot resume from there.
	if errors.Is(err, ErrNoStream) && t.position.lastEventID != "" {
		t.position = streamPosition{opened: true}
		_, err = t.getStream(ctx, &t.position, expected{}, ready)
	}
	return err
}

// close ends the session at the server, best effort. It does not interrupt calls.
func (t *httpTransport) close() {
	select {
	// The server has forgotten the session, so that there is nothing to end.
	case <-t.lost:
		return
	default:
		t.lose()
	}
	if t.sessionID() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sessionEndTimeout)
	defer cancel()
	head := t.http.newHead(http.MethodDelete, t.http.target, t.agreed.Load().setHeaders)
	_ = t.http.do(ctx, head, nil, func(*httpResponse) error { return nil }) // the server may not support DELETE
}
