package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	byteOrderMark = "\ufeff"
	kindMessage   = "message"
	// maxEventID bounds the event ids that are sent back in Last-Event-ID, in bytes.
	maxEventID = 1 << 10
	// maxReconnectionTime bounds the pause that a server may request with retry.
	maxReconnectionTime = time.Hour
)

// event is one event of an event stream.
type event struct {
	// kind is the event's type, or empty if the event has no type.
	kind string
	// data belongs to the caller: the reader does not use its memory again.
	data []byte
}

// isMessage reports whether the event carries a message. Other events keep the stream alive or set
// its position.
func (e event) isMessage() bool {
	return len(e.data) > 0 && (e.kind == "" || e.kind == kindMessage)
}

// eventReader reads an event stream (WHATWG, HTML, "Interpreting an event stream"). Streams are
// open for a long time and mostly silent, so it holds only one small buffer between events.
type eventReader struct {
	source *bufio.Reader
	// maxMessage bounds an event including all of its lines, in bytes.
	maxMessage int
	// position is updated with each event.
	position *streamPosition
	// opened is true after the first line, which may begin with a byte order mark.
	opened bool

	// The fields of the current event. size counts the bytes of its lines. begun is true after its first data, event
	// or id field. data is nil before the first data field.
	size     int
	begun    bool
	kind, id string
	data     *bytes.Buffer
}

func newEventReader(source io.Reader, maxMessage int, p *streamPosition) eventReader {
	source = &lineFeeds{source: source}
	// Each open stream holds this buffer, and its connection another 4 KiB.
	return eventReader{source: bufio.NewReaderSize(source, 1<<10), maxMessage: maxMessage, position: p}
}

// lineFeeds reads a text whose lines end in LF, CR or CR LF, and converts each end to LF.
type lineFeeds struct {
	source io.Reader
	// afterCR is true if the last byte was a CR. A following LF is dropped, because it belongs to the same line end.
	// Read does not wait for it: the stream may be silent for hours.
	afterCR bool
}

// Read implements [io.Reader].
func (l *lineFeeds) Read(p []byte) (n int, err error) {
	read, err := l.source.Read(p)
	for rest := p[:read]; len(rest) > 0; {
		if l.afterCR {
			rest, l.afterCR = bytes.TrimPrefix(rest, []byte("\n")), false
		}
		line, after, found := bytes.Cut(rest, []byte("\r"))
		n += copy(p[n:], line)
		if found {
			p[n] = '\n'
			n++
		}
		rest, l.afterCR = after, found
	}
	return n, err
}

// next returns the next event that has a type, data or an id. At the end of the stream the error is
// io.EOF. If the stream ends within an event, the event is dropped and the error is
// io.ErrUnexpectedEOF.
func (r *eventReader) next() (event, error) {
	for {
		line, err := r.readLine()
		switch {
		case err != nil:
			return event{}, err
		case len(line) > 0:
			r.addField(line)
		case r.begun:
			return r.finish(), nil
		}
		if !r.begun {
			r.size = 0
		}
	}
}

// readLine returns the next line without its end. The line is valid until the next call.
func (r *eventReader) readLine() (line []byte, err error) {
	var long bytes.Buffer
	for isWhole := false; !isWhole; {
		part, err := r.source.ReadSlice('\n')
		r.size += len(part)
		isWhole = err == nil
		switch {
		case r.size > r.maxMessage:
			return nil, tooLarge(r.maxMessage)
		case isWhole && long.Len() == 0: // most lines fit in the buffer and are not copied
			line = part
		case isWhole, errors.Is(err, bufio.ErrBufferFull):
			long.Write(part)
			line = long.Bytes()
		case errors.Is(err, io.EOF) && !r.begun && r.size == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("event stream: %w", io.ErrUnexpectedEOF)
		default:
			return nil, fmt.Errorf("event stream: %w", err)
		}
	}
	if !r.opened {
		line, r.opened = bytes.TrimPrefix(line, []byte(byteOrderMark)), true
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// addField adds a line that is not empty to the current event. A line is a field, or a comment,
// which is a field without a name.
func (r *eventReader) addField(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if r.data == nil {
			r.data = new(bytes.Buffer)
		} else {
			r.data.WriteByte('\n')
		}
		r.data.Write(value)
	case "event":
		r.kind = kindMessage
		if string(value) != kindMessage { // no new string for the usual type
			r.kind = string(value)
		}
	case "id":
		if bytes.IndexByte(value, 0) >= 0 { // the standard requires that an id with a NUL is ignored
			return
		}
		r.id = string(value)
	case "retry":
		if n, err := strconv.ParseUint(string(value), 10, 63); err == nil {
			r.position.retry = time.Duration(min(n, uint64(maxReconnectionTime.Milliseconds()))) * time.Millisecond
		}
		return
	default:
		return
	}
	r.begun = true
}

// finish returns the current event and prepares the reader for the next event.
func (r *eventReader) finish() event {
	if r.id != "" {
		r.position.lastEventID = r.id
	}
	// An id that does not fit in a header cannot be used to resume.
	if len(r.id) > maxEventID || strings.ContainsFunc(r.id, unicode.IsControl) {
		r.position.lastEventID = ""
	}
	e := event{kind: r.kind}
	if r.data != nil {
		e.data = r.data.Bytes()
	}
	r.size, r.begun, r.kind, r.id, r.data = 0, false, "", "", nil
	return e
}

// streamPosition is the position in an event stream of the legacy era (2025-11-25,
// Transports, "Resumability and Redelivery"). Only one reader uses it at a time.
type streamPosition struct {
	// lastEventID is empty if the server sends no ids. The stream cannot be resumed then.
	lastEventID string
	// retry is the pause before resuming that the server requested, or 0 if it requested none.
	retry time.Duration
	// stopped is the time at which the last stream ended. opened is true after the server's first
	// stream.
	stopped time.Time
	opened  bool
}

const (
	// maxFailedResumes bounds how many attempts in a row to resume a stream may fail because the
	// server is unreachable.
	maxFailedResumes = 5
	// firstResumePause and lastResumePause bound the backoff between attempts to resume.
	firstResumePause = 100 * time.Millisecond
	lastResumePause  = time.Second
)

// pause waits until the requested pause and the given minimum have passed since the stream stopped.
func (p *streamPosition) pause(ctx context.Context, minimum time.Duration) error {
	select {
	case <-time.After(time.Until(p.stopped.Add(max(p.retry, minimum)))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume continues a stream that ended before the expected response. The server may have closed the connection on
// purpose and expect the client to return. resume tries until the response arrives, the server is no longer reachable or
// ctx ends. broken is the error of the first stream, and the result if the server offers no stream.
//
// Messages on a resumed stream are tied to no call. A server that cannot resume may treat the GET as its standalone
// stream and send messages of any call there.
func (t *httpTransport) resume(
	ctx context.Context, p *streamPosition, want expected, broken error,
) (*wire.Message, error) {
	p.stopped = time.Now()
	failed := 0
	for {
		if err := p.pause(ctx, min(firstResumePause<<failed, lastResumePause)); err != nil {
			return nil, err
		}
		// An open stream shows that the server is reachable, even if it ends soon. Only failures in
		// a row count.
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
}

// isInterrupted reports whether a stream that failed with err may be resumed: its messages were valid, and the session
// is not lost.
func isInterrupted(err error) bool {
	_, nonsense := errors.AsType[*ProtocolError](err)
	return !nonsense && !errors.Is(err, ErrSessionLost)
}

// getStream opens a stream by GET that continues at the given position. It reads the stream until the expected response
// arrives, or to its end if no response is expected. It calls ready once the stream is open.
func (t *httpTransport) getStream(
	ctx context.Context, p *streamPosition, want expected, ready func(),
) (response *wire.Message, err error) {
	head := t.http.newHead(http.MethodGet, t.http.target, func(header http.Header) {
		t.agreed.Load().setHeaders(header)
		header.Set("Accept", wire.ContentSSE)
		if p.lastEventID != "" {
			header.Set(wire.HeaderLastEventID, p.lastEventID)
		}
	})
	defer func() { p.stopped = time.Now() }()
	err = t.http.do(ctx, head, nil, func(came *httpResponse) error {
		came.idle = t.idleTime
		status := came.StatusCode
		switch {
		// If a response is expected, a list decides whether the session is lost, as in readRefusal.
		case status == http.StatusNotFound && t.sessionID() != "" && want.id == "":
			t.lose()
			return ErrSessionLost
		// These statuses are temporary: the stream is requested again.
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
