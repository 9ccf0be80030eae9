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

// sessionEndTimeout bounds the request that ends the session at the server.
const sessionEndTimeout = 2 * time.Second

// httpTransport is Streamable HTTP of both eras. Each message is a POST. In the legacy era a GET
// stream carries the server's messages outside of calls.
type httpTransport struct {
	http *httpSession

	receive func(*wire.Message)
	agreed  atomic.Pointer[agreedHeaders]
	// clockOffset is [Session.ClockOffset]. Only the handshake sets it.
	clockOffset time.Duration
	// position is the position in the standalone stream.
	position streamPosition

	idleTime *idleTime
	once     sync.Once
	lost     chan struct{}
	// logger logs invalid events. stray limits the records to one.
	logger *slog.Logger
	stray  sync.Once
}

// agreedHeaders are the headers that the handshake determines, for all later requests.
type agreedHeaders struct {
	revision, sessionID string
	// post is the head of the POSTs that carry messages.
	post *http1.Head
}

func newHTTPTransport(client *httpClient, logger *slog.Logger) *httpTransport {
	t := &httpTransport{
		http: &httpSession{httpClient: client}, idleTime: newIdleTime(), lost: make(chan struct{}), logger: logger,
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

// setHeaders sets the revision and session id for the following requests. If a value is empty, its
// header is left out.
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

// roundTrip implements [transport]. If a stream of the legacy era breaks before the response has
// arrived, it is resumed.
func (t *httpTransport) roundTrip(ctx context.Context, r *request) error {
	agreed := t.agreed.Load()
	// initialize is not repeated, because it opens a session. A relayed request is not repeated, because the client may
	// have received a server request.
	mayRepeat := r.onMessage == nil && r.method != wire.Initialize
	reached := stageAnswer
	came, err := t.http.send(ctx, agreed.post, r.fields(agreed.revision), r.body(), mayRepeat)
	if err == nil {
		reached = stageBody
		came.idle = t.idleTime
		err = t.readResponse(came, r)
	} else if failed, ok := errors.AsType[*http1.Error](err); ok {
		reached = [...]stage{http1.Connect: stageConnect, http1.Handshake: stageTLS, http1.Exchange: stageAnswer}[failed.Step]
		if failed.HasAnswer {
			err = &startedError{err}
		}
	}
	if err != nil && ctx.Err() != nil {
		return &stageError{error: err, method: r.method, stage: reached}
	}
	if err == nil || r.position.lastEventID == "" || wire.Modern(r.revision) || ctx.Err() != nil || !isInterrupted(err) {
		return err // a modern stream cannot be resumed
	}
	if r.response, err = t.resume(ctx, &r.position, expected{string(wire.NumberID(r.id)), r.method}, err); err != nil {
		// Events of the response have arrived: the server had started.
		return &startedError{err}
	}
	return nil
}

// body returns the JSON-RPC message of a request.
func (r *request) body() []byte {
	const envelope = 80 // bytes at most, without method and params
	return wire.AppendRequest(make([]byte, 0, envelope+len(r.method)+len(r.params)), r.id, r.method, r.params)
}

// fields returns the headers of one request, in addition to the headers of the session.
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

// readResponse reads the response to a request, and closes its HTTP response.
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
		if sent, err := http.ParseTime(came.Header.Get("Date")); err == nil {
			t.clockOffset = time.Until(sent).Round(time.Second)
		}
	}
	if r.method == wire.Initialize {
		// Set the session id before the body is read: the server may send requests on this stream,
		// and replies must name the session.
		t.setHeaders("", came.Header.Get(wire.HeaderSessionID))
	}
	switch contentType := came.contentType(); contentType {
	case wire.ContentJSON:
		r.response, err = t.readJSON(came, expected{id, r.method}, onMessage, r.memory)
	case wire.ContentSSE:
		r.response, err = t.readStream(came, &r.position, expected{id, r.method}, onMessage)
	default:
		problem := fmt.Sprintf("content type is %q, want %s or %s", contentType, wire.ContentJSON, wire.ContentSSE)
		err = &ProtocolError{problem: problem, foreign: true, contentType: contentType}
	}
	switch {
	case err == nil:
		came.drain()
	case came.read > 0: // the server had started: a repeated request could run twice
		err = &startedError{err}
	}
	return err
}

// readRefusal reads a response whose status is not 200. If it contains a JSON-RPC error with the
// request's id, that is the server's answer, unless the status refuses the caller, asks for a pause
// or may mean a lost session.
func (t *httpTransport) readRefusal(came *httpResponse, method, id string) (*wire.Message, error) {
	refusal, message := came.statusError(), new(wire.Message)
	var answer *wire.Error
	raw, err := came.readAll(t.http.maxMessage, nil)
	// Search an incomplete body as well: a server that refuses TLS closes the connection without reading the request.
	refusal.tls = tlsRefusalIn(came.StatusCode, raw)
	if err == nil {
		if messages, err := t.parse(raw, ""); err == nil && len(messages) == 1 {
			message = &messages[0]
		}
	}
	if message.Error != nil {
		answer, _ = wire.ReadError(message.Error) // nil for an invalid error object
	}
	// With a session, 404 means that the session is lost (2025-11-25, Transports, "Session Management"), unless the
	// body answers with MethodNotFound. Some servers also send 404 for an unknown prompt, and one caller must not end
	// the session of all others. So only ping and prompts/list, which the gateway itself sends, end the session. After a
	// 404 for a get, a list decides: see [Outcome].
	named := answer != nil && wire.CanonicalID(message.ID) == id
	lost := came.StatusCode == http.StatusNotFound && t.sessionID() != "" &&
		(!named || answer.Code != wire.MethodNotFound)
	switch {
	case lost && (method == wire.Ping || method == wire.PromptsList):
		t.lose()
		return nil, ErrSessionLost
	case named && refusal.AsksForPause():
		refusal.unnamed = answer // return the StatusError, because the answer lacks RetryAfter
	case named && !refusal.RefusesCaller() && !lost:
		came.drain()
		return message, nil
	case named, answer != nil && message.ID == nil && came.StatusCode < http.StatusInternalServerError:
		refusal.unnamed = answer // a 5xx error without the request's id may come from a proxy
	}
	return nil, refusal
}

// expected identifies the response that a body or stream should contain by the id and method of its request. Both are
// empty if no response is expected.
type expected struct{ id, method string }

// readJSON reads the expected response from a JSON body, into memory unless that is nil. Other messages in the body go to
// onMessage.
func (t *httpTransport) readJSON(
	came *httpResponse, want expected, onMessage func(*wire.Message), memory *[]byte,
) (*wire.Message, error) {
	raw, err := came.readAll(t.http.maxMessage, memory)
	if err != nil {
		return nil, err
	}
	messages, err := t.parse(raw, want.method) // without an error, at least one message
	if err != nil {
		return nil, notAMessage(err)
	}
	if len(messages) == 1 && messages[0].Method == "" && string(messages[0].ID) == want.id {
		return &messages[0], nil
	}
	if memory != nil { // other messages may outlast the call
		*memory = nil
	}
	if response := pickResponse(messages, want.id, onMessage); response != nil {
		return response, nil
	}
	// An error without an id can only belong to this request.
	if only := &messages[0]; len(messages) == 1 && only.Error != nil && only.ID == nil {
		return only, nil
	}
	return nil, &ProtocolError{problem: "the id of the response is not that of the request"}
}

// parse parses one JSON text. method is the method of the request that the text may answer, or "" if no response is
// expected.
func (t *httpTransport) parse(raw []byte, method string) ([]wire.Message, error) {
	raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
	messages, err := wire.ParseAll(raw, t.agreed.Load().revision)
	if err != nil {
		messages, err = parseTolerantly(raw, method, err)
	}
	return messages, err
}

// readStream reads an event stream until the expected response arrives, or to its end if no
// response is expected. Other messages go to onMessage.
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
		// parse loads the revision for each event: it may have been agreed on since the stream began, and decides
		// whether batches are allowed.
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

// pickResponse returns the response with the id, or nil. It passes the other messages to onMessage.
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
		return nil // over HTTP, a modern client closes the stream to cancel
	}
	return t.http.do(ctx, t.agreed.Load().post, message, (*httpResponse).success)
}

// standalone opens the standalone stream. It resumes the last stream if the server supports that.
func (t *httpTransport) standalone(ctx context.Context, ready func()) error {
	if err := t.position.pause(ctx, 0); err != nil {
		return err
	}
	_, err := t.getStream(ctx, &t.position, expected{}, ready)
	// The server may offer a new stream although it cannot resume the last one.
	if errors.Is(err, ErrNoStream) && t.position.lastEventID != "" {
		t.position = streamPosition{opened: true}
		_, err = t.getStream(ctx, &t.position, expected{}, ready)
	}
	return err
}

// close ends the session at the server. It ignores errors and does not interrupt calls.
func (t *httpTransport) close() {
	select {
	case <-t.lost: // the server has no session to end
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
	_ = t.http.do(ctx, head, nil, func(*httpResponse) error { return nil }) // servers need not support DELETE
}
