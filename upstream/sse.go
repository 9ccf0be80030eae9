package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// sseTransport is HTTP+SSE of 2024-11-05: one GET stream with all that the server says, and a POST for each message to
// it, to the address that the stream's first event names:
//
//	GET url ──▶ event: endpoint, data: /messages?id=…   where the session's messages go
//	            event: message,  data: {…}              …
//	POST /messages?id=… ──▶ 202                         the response comes on the stream
//
// The session is the stream: it ends with it.
type sseTransport struct {
	*httpClient
	exchange

	// owner is set where the client is this transport's alone.
	owner bool
	// openBound is how long the server may take to open the stream and to answer the handshake.
	openBound time.Duration

	// opened is closed when messages can be sent, to endpoint.
	opened   chan struct{}
	endpoint string
	// hangUp ends the stream.
	hangUp  context.CancelCauseFunc
	reading sync.WaitGroup
}

func newSSETransport(client *httpClient, openBound time.Duration) *sseTransport {
	return &sseTransport{httpClient: client, exchange: newExchange(), openBound: openBound, opened: make(chan struct{})}
}

func (t *sseTransport) listen(handle func(*wire.Message)) {
	t.handle = handle
	ctx, hangUp := context.WithCancelCause(context.Background())
	t.hangUp = hangUp
	t.reading.Go(func() {
		err := t.read(ctx)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		t.end(err)
	})
}

func (t *sseTransport) ties() bool { return false }

func (t *sseTransport) mayKeepSilent() bool { return false }

// read opens the stream and takes what comes until it ends.
func (t *sseTransport) read(ctx context.Context) error {
	r, err := t.newRequest(ctx, http.MethodGet, t.url, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", wire.ContentSSE)
	return t.do(r, func(came *response) error {
		if err := accepted(came); err != nil {
			return err
		}
		if got := came.contentType(); got != wire.ContentSSE {
			return &protocolError{problem: fmt.Sprintf("content type %q is not an event stream", got), foreign: true}
		}
		return t.readStream(came)
	})
}

func (t *sseTransport) readStream(body io.Reader) error {
	events := eventReader{source: body, maxMessage: t.maxMessage, place: new(bookmark)} // none goes on from there
	defer events.close()
	for {
		event, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return errClosed
		case err != nil:
			return err
		case t.endpoint == "":
			if event.kind != "endpoint" {
				return &protocolError{problem: fmt.Sprintf("the stream begins with the event %q and not with its endpoint", event.kind)}
			}
			if t.endpoint, err = sameOrigin(t.url, string(event.data)); err != nil {
				return err
			}
			close(t.opened)
		case event.isMessage():
			if err := t.take(event.data); err != nil {
				return &protocolError{problem: "an event is not a JSON-RPC message: " + err.Error()}
			}
		}
	}
}

// sameOrigin resolves a reference against a URL. It must not lead elsewhere: the credentials that the server is given
// are for nobody else.
func sameOrigin(base, reference string) (string, error) {
	from, err := url.Parse(base)
	if err != nil {
		return "", withoutURL(err)
	}
	to, err := from.Parse(reference)
	if err != nil {
		return "", &protocolError{problem: "the endpoint that the server names is not a URL"}
	}
	if origin(from) != origin(to) {
		return "", &protocolError{problem: "the endpoint that the server names is of another origin"}
	}
	to.User, to.Fragment = from.User, ""
	return to.String(), nil
}

// origin is scheme, host and port (RFC 6454).
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

func (t *sseTransport) roundTrip(ctx context.Context, r *request) error {
	if t.agreed() == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.openBound)
		defer cancel()
	}
	return t.await(ctx, r, t.send)
}

func (t *sseTransport) send(ctx context.Context, message []byte) error {
	select {
	case <-t.opened:
	case <-t.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-t.gone:
		return t.brokenBy() // what was not sent was not processed
	default:
	}
	r, err := t.newRequest(ctx, http.MethodPost, t.endpoint, bytes.NewReader(message))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", wire.ContentJSON)
	revision := t.agreed()
	if revision != "" {
		r.Header.Set(wire.HeaderProtocolVersion, revision)
	}
	err = t.do(r, accepted)
	if status, ok := errors.AsType[*statusError](err); ok && status.status == http.StatusNotFound && revision != "" {
		t.hangUp(errSessionLost) // it has forgotten what the stream belongs to
		return errSessionLost
	}
	return err
}

// brokenBy tells a stream that ended from a server that cannot be reached: a new session may well be had at once.
func (t *sseTransport) brokenBy() error {
	if t.endpoint == "" || errors.Is(t.cause, errSessionLost) {
		return t.cause
	}
	return fmt.Errorf("%w: %w", errSessionLost, t.cause)
}

func (t *sseTransport) close() {
	t.hangUp(errClosed)
	t.reading.Wait()
	if t.owner {
		t.closeIdle()
	}
}
