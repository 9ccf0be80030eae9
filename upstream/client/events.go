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
	// maxEventID bounds the event ids that are sent back in a header, in bytes.
	maxEventID = 1 << 10
	// maxReconnectionTime bounds the pause that a server may ask for.
	maxReconnectionTime = time.Hour
)

// event is one event of an event stream.
type event struct {
	// kind is the event's type; empty if the server gives none.
	kind string
	// data may be kept.
	data []byte
}

// isMessage reports whether the event carries a message. Others keep the stream alive or make it
// resumable.
func (e event) isMessage() bool {
	return len(e.data) > 0 && (e.kind == "" || e.kind == kindMessage)
}

// eventReader reads an event stream (WHATWG, HTML, "Interpreting an event stream"). A stream may be
// open for long and say little, so it holds one small buffer between events.
type eventReader struct {
	source *bufio.Reader
	// maxMessage bounds an event with all of its lines, in bytes.
	maxMessage int
	// position follows what is read.
	position *streamPosition
	// opened is set after the first line, which may start with a byte order mark.
	opened bool

	// The fields of the present event. Size counts the bytes of its lines, begun is set once it has
	// a field that counts, and data is nil before the first data field.
	size     int
	begun    bool
	kind, id string
	data     *bytes.Buffer
}

func newEventReader(source io.Reader, maxMessage int, p *streamPosition) eventReader {
	source = &lineFeeds{source: source}
	// Each open stream has such a buffer, and its connection has 4 KiB of its own below.
	return eventReader{source: bufio.NewReaderSize(source, 1<<10), maxMessage: maxMessage, position: p}
}

// lineFeeds reads a text whose lines end in LF, CR or CR LF, and ends each in LF.
type lineFeeds struct {
	source io.Reader
	// afterCR is set if the last byte was a CR: an LF may follow that belongs to it. The line ends
	// without waiting for that: the stream may say nothing more for hours.
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

// next returns the next event that has a type, data or an id. The error is io.EOF at the end of the
// stream, but io.ErrUnexpectedEOF within an event, which is incomplete then and dropped.
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

// readLine returns the next line without its end. It is valid until the next call.
func (r *eventReader) readLine() (line []byte, err error) {
	var long bytes.Buffer
	for isWhole := false; !isWhole; {
		part, err := r.source.ReadSlice('\n')
		r.size += len(part)
		isWhole = err == nil
		switch {
		case r.size > r.maxMessage:
			return nil, tooLarge(r.maxMessage)
		case isWhole && long.Len() == 0: // lines mostly fit in the buffer, and are then read in place
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

// addField adds a line that is not empty to the present event: a field, or a comment, which is a
// field without a name.
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
		if string(value) != kindMessage { // else without a copy
			r.kind = string(value)
		}
	case "id":
		if bytes.IndexByte(value, 0) >= 0 { // such an id is ignored, says the standard
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

// finish returns the present event.
func (r *eventReader) finish() event {
	if r.id != "" {
		r.position.advance(r.id)
	}
	e := event{kind: r.kind}
	if r.data != nil {
		e.data = r.data.Bytes()
	}
	r.size, r.begun, r.kind, r.id, r.data = 0, false, "", "", nil
	return e
}

// streamPosition is how far an event stream of the legacy era was read (2025-11-25, Transports,
// "Resumability and Redelivery"). It is for one reader at a time.
type streamPosition struct {
	// lastEventID is empty if the server gives no ids, and so cannot be asked to resume.
	lastEventID string
	// retry is the pause that the server wants before it is asked to resume; 0 if it does not say.
	retry time.Duration
	// stopped is when the last stream ended, and opened is set once the server has offered one.
	stopped time.Time
	opened  bool
}

// advance moves the position to an event.
func (p *streamPosition) advance(id string) {
	// A stream cannot be resumed from an event whose id does not fit in a header.
	if len(id) > maxEventID || strings.ContainsFunc(id, unicode.IsControl) {
		id = ""
	}
	p.lastEventID = id
}

const (
	// maxResumes bounds how often the stream with a response is resumed, and maxFailedResumes how
	// often in a row that may fail because the server is not there.
	maxResumes       = 1000
	maxFailedResumes = 5
	// firstResumePause and lastResumePause bound the backoff between two attempts to resume.
	firstResumePause = 100 * time.Millisecond
	lastResumePause  = time.Second
)

// pause waits until as much time has passed since the stream stopped as the server wants, or least
// if that is more.
func (p *streamPosition) pause(ctx context.Context, least time.Duration) error {
	select {
	case <-time.After(time.Until(p.stopped.Add(max(p.retry, least)))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume continues a stream that ended or broke before the expected response came: the server may
// have closed the connection on purpose, for the client to come back. It tries until ctx ends, or
// returns why it cannot.
//
// Messages on the resumed stream are tied to no call: a server that cannot resume may take the GET
// for one that opens its standalone stream, and send messages of any call there.
func (t *httpTransport) resume(
	ctx context.Context, p *streamPosition, want expected, broken error,
) (*wire.Message, error) {
	p.stopped = time.Now()
	failed := 0
	for range maxResumes {
		if err := p.pause(ctx, min(firstResumePause<<failed, lastResumePause)); err != nil {
			return nil, err
		}
		// A stream that opens shows that the server is there, however soon it ends: only failures
		// in a row count.
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

// getStream opens a stream by GET, from a position, and reads it until the expected response has
// come; to its end if none is expected. It calls ready once the stream is open.
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
		// Where a response is expected, as in readRefusal.
		case status == http.StatusNotFound && t.sessionID() != "" && want.id == "":
			t.lose()
			return ErrSessionLost
		// These pass. Any other status is taken for a server without such streams, which is not
		// asked again.
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
