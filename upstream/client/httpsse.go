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
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// sseTransport is HTTP+SSE of 2024-11-05: one GET stream carries everything that the server says,
// and each message to the server is a POST to the address that the first event names:
//
//	GET url ──▶ event: endpoint, data: /messages?id=…   where to POST messages
//	            event: message,  data: {…}              …
//	POST /messages?id=… ──▶ 202                         the response arrives on the stream
//
// The session ends with the stream.
type sseTransport struct {
	mux
	http *httpSession
	// handshakeTimeout is how long the server may take to open the stream, and for each request of
	// the handshake.
	handshakeTimeout time.Duration

	// opened is closed when endpoint is known, and messages can be sent.
	opened   chan struct{}
	endpoint *url.URL // nil before the first event that names it
	// hangUp ends the stream.
	hangUp  context.CancelCauseFunc
	reading sync.WaitGroup
}

func newSSETransport(client *httpClient, handshakeTimeout time.Duration, logger *slog.Logger) *sseTransport {
	return &sseTransport{
		http: &httpSession{httpClient: client}, mux: newMux(logger), handshakeTimeout: handshakeTimeout, opened: make(chan struct{}),
	}
}

func (t *sseTransport) start(receive func(*wire.Message)) {
	t.receive = receive
	// The stream outlives the handshake's context: it ends when the transport is closed.
	ctx, hangUp := context.WithCancelCause(context.Background())
	t.hangUp = hangUp
	t.reading.Go(func() {
		err := Guard(t.logger, func() error { return t.read(ctx) })
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
		came.idle = t.idleTime // with comments, too
		return t.readStream(came)
	})
}

func (t *sseTransport) readStream(body io.Reader) error {
	// The position is nobody's: such a stream cannot be resumed.
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
			// This publishes endpoint: whoever reads it has waited for this or for the end, and
			// nobody writes it any more.
			close(t.opened)
		case event.isMessage():
			if err := t.dispatch(event.data); err != nil { // other calls have nothing to do with it
				t.logger.Warn("event ignored", slog.Any("error", err))
			}
		}
	}
}

// resolveSameOrigin resolves a reference against a URL. It must not lead to another origin: the
// server's credentials are sent there.
func resolveSameOrigin(from *url.URL, reference string) (*url.URL, error) {
	to, err := from.Parse(reference)
	if err != nil {
		return nil, &ProtocolError{problem: "the endpoint that the server names is not a URL"}
	}
	if origin(from) != origin(to) {
		return nil, &ProtocolError{problem: "the endpoint that the server names has another origin"}
	}
	// Credentials in the reference would take the place of the configured ones.
	to.User, to.Fragment = from.User, ""
	return to, nil
}

// origin returns scheme, host and port (RFC 6454).
func origin(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(hostPort(u))
}

func (t *sseTransport) roundTrip(ctx context.Context, r *request) error {
	if t.revision() == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.handshakeTimeout)
		defer cancel()
	}
	err := t.await(ctx, r, func(ctx context.Context, message []byte) error { return t.post(ctx, message, r.assertion) })
	// As over Streamable HTTP, a 404 counts where the gateway asks for itself.
	if status, ok := errors.AsType[*StatusError](err); ok && status.Status == http.StatusNotFound && t.revision() != "" && (r.method == wire.Ping || r.method == wire.PromptsList) {
		t.hangUp(ErrSessionLost) // it does not know any more what the stream belongs to
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

func (t *sseTransport) post(ctx context.Context, message []byte, assertion Assertion) error {
	select {
	case <-t.opened:
	case <-t.closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	// Of two channels that are ready, the select above takes either. The end counts.
	case <-t.closed:
		return t.err() // nothing was sent, so nothing was processed
	default:
	}
	head := t.http.newHead(http.MethodPost, t.endpoint, func(header http.Header) {
		assertion.set(header)
		header.Set("Content-Type", wire.ContentJSON)
		if revision := t.revision(); revision != "" {
			header.Set(wire.HeaderProtocolVersion, revision)
		}
	})
	return t.http.do(ctx, head, message, (*httpResponse).success)
}

// err distinguishes a stream that ended from a server that cannot be reached: after the former a
// new session is likely to work.
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
