package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

var (
	// ErrSessionLost means that the server has forgotten the session. It has processed nothing.
	ErrSessionLost = errors.New("session lost")
	// ErrNoStream means that the server offers no stream for what it says outside of calls.
	ErrNoStream = errors.New("server offers no standalone stream")
	// ErrStreamTaken means that the server refuses another stream because it considers the last one
	// open.
	ErrStreamTaken = errors.New("the server still considers the previous stream open")
	// ErrExited means that the child process has exited.
	ErrExited = errors.New("child process exited")

	// errNoChildren means that the gateway starts no child processes on this system.
	errNoChildren = errors.New("no child processes on Windows")
	// errProbeFatal means that a child process exited when it got the probe for its era.
	errProbeFatal  = errors.New("the server did not survive " + wire.Discover)
	errStreamEnded = errors.New("stream ended without a response")
)

// errPanic names no value: that may be what the server sent.
var errPanic = errors.New("the gateway failed on the server's message; see its log")

// Guard carries out what a goroutine does with what a server sends. A panic becomes an error, which
// ends a call or a session, and not the process. The log has it, whatever becomes of the error.
func Guard(logger *slog.Logger, f func() error) (err error) {
	defer func() {
		if broke := recover(); broke != nil {
			logger.Error("recovered from a panic",
				slog.String("type", fmt.Sprintf("%T", broke)), slog.String("stack", string(debug.Stack())))
			err = errPanic
		}
	}()
	return f()
}

// StatusError is an HTTP response that carries no JSON-RPC response to the request.
type StatusError struct {
	Status int
	// RetryAfter is what the server says about when to come back, [MaxRetryAfter] at most; 0 if it
	// says nothing.
	RetryAfter time.Duration
	// retryAt is RetryAfter as a time, for people.
	retryAt time.Time
	// unnamed is a JSON-RPC error in the body: it names no request, so that it is an answer, if not
	// certainly to this one, or the status says more than it does.
	unnamed *wire.Error
	// challenge is what a refusal says about the credential that it wants, location where a
	// redirect leads; both are texts of the server.
	challenge, location string
	// tls is what the body says about TLS; the zero value for nothing.
	tls tlsRefusal
	// inHandshake is true if the server refused the handshake, rather than a request of a session.
	inHandshake bool
}

func newStatusError(status int, header http.Header) *StatusError {
	wait := retryAfter(header)
	return &StatusError{Status: status, RetryAfter: wait, retryAt: time.Now().Add(wait)}
}

func (e *StatusError) Error() string {
	text := "HTTP status " + strconv.Itoa(e.Status) + " " + http.StatusText(e.Status)
	switch {
	case e.unnamed != nil:
		return text + ": " + e.unnamed.Error()
	case e.Status/100 == 3:
		return text + ": redirects are not followed"
	}
	return text
}

func (e *StatusError) Unwrap() error {
	if e.unnamed == nil { // a nil *wire.Error would be an error that is not nil
		return nil
	}
	return e.unnamed
}

// shownChallenge continues "HTTP 401" with the challenge; it is empty without one.
func (e *StatusError) shownChallenge() string {
	if e.challenge == "" {
		return ""
	}
	return ", WWW-Authenticate: " + printable(e.challenge)
}

// MaxRetryAfter bounds what a server may ask for by a Retry-After: longer than most limits of a
// rate last, and short enough that a mistake does not keep the server away for long.
const MaxRetryAfter = 5 * time.Minute

// retryAfter reads a Retry-After header, a number of seconds or a date (RFC 9110, section 10.2.3);
// 0 if it says anything else. A date counts from the response's own Date, if it has one, so that
// the clocks need not agree.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(MaxRetryAfter/time.Second))) * time.Second //nolint:gosec // it is bounded
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

// RefusesCaller reports whether the server refused the caller, or its rate of requests, and not the
// request itself.
func (e *StatusError) RefusesCaller() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden ||
		e.Status == http.StatusTooManyRequests
}

// AsksForPause reports whether the server says, with a 429 or 503, when to come back.
func (e *StatusError) AsksForPause() bool {
	return e.RetryAfter > 0 && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable)
}

// ProtocolError is an answer that the protocol does not allow.
type ProtocolError struct {
	problem string
	// foreign means that the answer is not that of an MCP server: a web page, say.
	foreign bool
	// contentType is that of a foreign answer.
	contentType string
	// isOfRevision means that the server does not speak the revision that the gateway wants.
	isOfRevision bool
	// oversized means that the answer was not read to its end, because it is larger than allowed.
	oversized bool
}

func (e *ProtocolError) Error() string { return e.problem }

// ListError says which bound a list exceeds.
type ListError struct{ problem string }

func (e *ListError) Error() string { return "list refused: " + e.problem }

// startedError is the failure of a request after some of its response had arrived, or after the
// client was asked something on its behalf.
type startedError struct{ error }

func (e *startedError) Unwrap() error { return e.error }

// relayedError is the failure of a request about which the client was told something, such as
// progress.
type relayedError struct{ error }

func (e *relayedError) Unwrap() error { return e.error }

// stage is how far a request had come.
type stage int

const (
	stageAnswer  stage = iota // it was sent, and no answer had begun
	stageConnect              // there was no connection yet
	stageTLS                  // there was no TLS connection yet
	stageBody                 // the answer had begun
	stageStream               // HTTP+SSE: the stream had not said where to send it
)

// stageError is the failure of a request whose time was over, and how far it had come.
type stageError struct {
	error

	method string
	stage  stage
	// waited is how long; 0 for as long as a request of the method may take. Since is when the wait
	// began that goes on.
	waited time.Duration
	since  time.Time
}

func (e *stageError) Unwrap() error { return e.error }

// replaceCause returns cause in place of err, and keeps whether the request had started, and what [CauseOf] says of err.
func replaceCause(err, cause error) error {
	if stopped, ok := errors.AsType[*stageError](err); ok {
		cause = &stageError{cause, stopped.method, stopped.stage, stopped.waited, stopped.since}
	}
	if _, started := errors.AsType[*startedError](err); started {
		return &startedError{cause}
	}
	return cause
}

// withoutURL takes URLs and host names out of an error, because they may be sensitive.
func withoutURL(err error) error {
	// First, since a url.Error that wraps it would go without its URL and still name the host.
	if wrapped, ok := errors.AsType[*net.DNSError](err); ok {
		return &resolveError{wrapped}
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// resolveError is a failed name resolution without the name. It does not unwrap to one with it.
type resolveError struct{ cause *net.DNSError }

func (e *resolveError) Error() string { return "resolve host name: " + e.cause.Err }

// serverRequestRefusals are the answers by which the SDKs of servers that speak both eras say that
// a handler cannot ask the client while it serves a request of the modern era. The handler was
// written for the legacy era, where it can. Handlers often put words of their own around the text.
// Tests run each of these SDKs.
var serverRequestRefusals = []struct { //nolint:gochecknoglobals // a constant table
	sdk  string
	code int64
	text string
}{
	{"github.com/modelcontextprotocol/go-sdk v1.8.0", 0, "cannot be sent while serving a request on protocol version "},
	{"@modelcontextprotocol/server 2.4.0", wire.InternalError, "Server-to-client requests are not " +
		"available on protocol revision "},
	{"github.com/mark3labs/mcp-go v1.2.1", wire.InternalError, "server-initiated requests are not " +
		"supported in protocol version "},
}

// RefusedServerRequest returns the SDK by whose recorded answer a server refused to ask the client
// in the modern era. It is empty for any other error, and if anything that the server said about
// the request was passed on to the client.
func RefusedServerRequest(err error) (sdk string) {
	answer, ok := errors.AsType[*wire.Error](err)
	if _, started := errors.AsType[*startedError](err); !ok || started {
		return ""
	}
	if _, relayed := errors.AsType[*relayedError](err); relayed {
		return ""
	}
	for _, refusal := range serverRequestRefusals {
		if answer.Code == refusal.code && strings.Contains(answer.Message, refusal.text) {
			return refusal.sdk
		}
	}
	return ""
}
