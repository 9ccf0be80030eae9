package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/promptweir/promptweir/upstream/wire"
)

// sseTransport is HTTP+SSE of 2024-11-05. One GET stream carries all messages of the server. Each
// message to the server is a POST to the address in the first event:
//
//	GET url ──▶ event: endpoint, data: /messages?id=…   address of the POSTs
//	            event: message,  data: {…}              …
//	POST /messages?id=… ──▶ 202                         the response arrives on the stream
//
// The session ends with the stream.
type sseTransport struct {
	mux
	http *httpSession

	// opened is closed once endpoint is set. Messages can be sent from then on.
	opened   chan struct{}
	endpoint *url.URL // nil before the first endpoint event
	// hangUp ends the stream.
	hangUp  context.CancelCauseFunc
	reading sync.WaitGroup
}

func (t *sseTransport) start(receive func(*wire.Message)) {
	t.receive = receive
	// Do not use the handshake's context: the stream ends when the transport is closed.
	ctx, hangUp := context.WithCancelCause(context.Background())
	t.hangUp = hangUp
	t.reading.Go(func() {
		err := RecoverToError(t.logger, func() error { return t.read(ctx) })
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		t.end(err)
	})
}

// read opens the stream and reads it until it ends.
func (t *sseTransport) read(ctx context.Context) error {
	head := t.http.newHead(http.MethodGet, t.http.target, func(header http.Header) { header.Set("Accept", wire.ContentSSE) })
	return t.http.do(ctx, head, nil, func(came *httpResponse) error {
		if err := came.success(); err != nil {
			return err
		}
		if got := came.contentType(); got != wire.ContentSSE {
			return &ProtocolError{problem: fmt.Sprintf("content type is %q, want %s", got, wire.ContentSSE), foreign: true, contentType: got}
		}
		came.idle = t.idleTime // comments count as bytes
		return t.readStream(came)
	})
}

func (t *sseTransport) readStream(body io.Reader) error {
	// The stream cannot be resumed, so nothing reads its position.
	events := newEventReader(body, t.http.maxMessage, new(streamPosition))
	var stray sync.Once
	for {
		event, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return errStreamEnded
		case err != nil:
			return err
		case t.endpoint == nil:
			if event.kind != "endpoint" {
				stray.Do(func() { t.logger.Warn("event ignored", slog.String("event", event.kind)) })
				continue
			}
			if t.endpoint, err = resolveSameOrigin(t.http.target, string(event.data)); err != nil {
				return err
			}
			// Closing opened publishes endpoint. Readers wait for opened or for the end, and it is
			// not written again.
			close(t.opened)
		case event.isMessage():
			if err := t.dispatch(event.data); err != nil { // an invalid message does not end the session
				t.logger.Warn("event ignored", slog.Any("error", err))
			}
		}
	}
}

// resolveSameOrigin resolves a reference against a URL. The result must have the same origin, because the credentials for
// the server are sent to it.
func resolveSameOrigin(from *url.URL, reference string) (*url.URL, error) {
	to, err := from.Parse(reference)
	if err != nil {
		return nil, &ProtocolError{problem: "the endpoint that the server names is not a URL"}
	}
	if origin(from) != origin(to) {
		return nil, &ProtocolError{problem: "the endpoint that the server names has another origin"}
	}
	// Credentials in the reference must not replace the configured ones.
	to.User, to.Fragment = from.User, ""
	return to, nil
}

// origin returns scheme, host and port (RFC 6454).
func origin(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(hostPort(u))
}

func (t *sseTransport) roundTrip(ctx context.Context, r *request) error {
	err := t.await(ctx, r, func(ctx context.Context, message []byte) error { return t.post(ctx, message, r.assertion) })
	// As in readRefusal, a 404 ends the session only for ping and prompts/list.
	if status, ok := errors.AsType[*StatusError](err); ok && status.Status == http.StatusNotFound && t.revision() != "" && (r.method == wire.Ping || r.method == wire.PromptsList) {
		t.hangUp(ErrSessionLost) // the server does not know this stream's session
		return ErrSessionLost
	}
	if err != nil && ctx.Err() != nil {
		reached := stageAnswer
		select {
		case <-t.opened:
		default:
			reached = stageStream
		}
		return &stageError{error: err, method: r.method, stage: reached}
	}
	return err
}

func (t *sseTransport) send(ctx context.Context, message []byte) error {
	return t.post(ctx, message, Assertion{})
}

// post sends a message to the endpoint. It waits until the server has named the endpoint.
func (t *sseTransport) post(ctx context.Context, message []byte, assertion Assertion) error {
	select {
	case <-t.opened:
	case <-t.closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	// Check closed again: if both channels were ready, the first select may have chosen opened.
	case <-t.closed:
		return t.err() // nothing was sent, so nothing was processed
	default:
	}
	head := t.http.newHead(http.MethodPost, t.endpoint, func(header http.Header) {
		if assertion.Value != "" {
			header.Set(assertion.Header, assertion.Value)
		}
		header.Set("Content-Type", wire.ContentJSON)
		if revision := t.revision(); revision != "" {
			header.Set(wire.HeaderProtocolVersion, revision)
		}
	})
	return t.http.do(ctx, head, message, (*httpResponse).success)
}

// err wraps [ErrSessionLost] if the stream had named an endpoint: a new session is likely to work then. Otherwise it
// returns the reason why the server cannot be used.
func (t *sseTransport) err() error {
	if t.endpoint == nil || errors.Is(t.cause, ErrSessionLost) {
		return t.cause
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, t.cause)
}

func (t *sseTransport) close() {
	t.hangUp(errStreamEnded)
	t.reading.Wait()
}
