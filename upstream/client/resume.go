package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxResumes bounds how often the stream with a response is resumed, and maxFailedResumes how often in a row that may
	// fail because the server is not there.
	maxResumes       = 1000
	maxFailedResumes = 5
	// firstResumePause and lastResumePause bound the backoff between two attempts to resume.
	firstResumePause = 100 * time.Millisecond
	lastResumePause  = time.Second
)

// pause waits until as much time has passed since the stream stopped as the server wants, or least if that is more.
func (p *streamPosition) pause(ctx context.Context, least time.Duration) error {
	timer := time.NewTimer(time.Until(p.stopped.Add(max(p.retry, least))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume continues a stream that ended or broke before the expected response came: the server may have closed the
// connection on purpose, for the client to come back. It tries until ctx ends, or returns why it cannot.
//
// Messages on the resumed stream are tied to no call: a server that cannot resume may take the GET for one that opens its
// standalone stream, and send messages of any call there.
func (t *httpTransport) resume(ctx context.Context, p *streamPosition, want expected, broken error) (*wire.Message, error) {
	p.stopped = time.Now()
	failed := 0
	for range maxResumes {
		if err := p.pause(ctx, min(firstResumePause<<failed, lastResumePause)); err != nil {
			return nil, err
		}
		response, err := t.getStream(ctx, p, want, func() { failed = 0 })
		switch {
		case err == nil:
			return response, nil
		case errors.Is(err, ErrNoStream):
			return nil, broken
		case !isInterrupted(err), ctx.Err() != nil:
			return nil, err
		}
		if failed++; failed > maxFailedResumes {
			return nil, err
		}
	}
	return nil, broken
}

// isInterrupted reports whether a stream failed in such a way that the server may go on with it.
func isInterrupted(err error) bool {
	_, nonsense := errors.AsType[*ProtocolError](err)
	return !nonsense && !errors.Is(err, ErrSessionLost)
}

// getStream opens a stream by GET, from a position, and reads it until the expected response has come; to its end if
// none is expected. It calls ready once the stream is open.
func (t *httpTransport) getStream(
	ctx context.Context, p *streamPosition, want expected, ready func(),
) (response *wire.Message, err error) {
	r, err := t.http.newRequest(ctx, http.MethodGet, t.http.url)
	if err != nil {
		return nil, err
	}
	t.agreed.Load().setHeaders(r.Header)
	defer func() { p.stopped = time.Now() }()
	r.Header.Set("Accept", wire.ContentSSE)
	if p.lastEventID != "" {
		r.Header.Set(wire.HeaderLastEventID, p.lastEventID)
	}
	err = t.http.do(r, nil, func(came *httpResponse) error {
		came.idle = t.idleTime
		if want.id == "" {
			t.changes.begin()
			came.idle = t.changes
		}
		status := came.StatusCode
		switch {
		case status == http.StatusNotFound && t.sessionID() != "":
			t.lose()
			return ErrSessionLost
		case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
			return came.statusError()
		case status == http.StatusConflict && p.opened:
			return ErrStreamTaken
		case status != http.StatusOK, came.contentType() != wire.ContentSSE:
			return ErrNoStream
		}
		p.opened = true
		ready()
		response, err = t.readStream(came, p, want, t.receive)
		return err
	})
	return response, err
}
