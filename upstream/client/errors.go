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
	// ErrSessionLost means that the server has lost the session, and has not processed the request.
	ErrSessionLost = errors.New("session lost")
	// ErrNoStream means that the server offers no stream for messages outside of calls.
	ErrNoStream = errors.New("server offers no standalone stream")
	// ErrStreamTaken means that the server refuses a second stream, because it considers the
	// previous one open.
	ErrStreamTaken = errors.New("the server still considers the previous stream open")
	// ErrExited means that the child process has exited.
	ErrExited = errors.New("child process exited")

	// errNoChildren means that this system cannot run child processes.
	errNoChildren = errors.New("no child processes on Windows")
	// errProbeFatal means that a child process exited after the probe for its era.
	errProbeFatal  = errors.New("the server did not survive " + wire.Discover)
	errStreamEnded = errors.New("stream ended without a response")
)

// errPanic replaces the value of a panic, which may contain the server's text.
var errPanic = errors.New("the gateway failed on the server's message; see its log")

// RecoverToError runs code that handles a server's message. It turns a panic into an error and logs
// it, so that a panic ends a call or session, but not the process.
func RecoverToError(logger *slog.Logger, f func() error) (err error) {
	defer func() {
		if broke := recover(); broke != nil {
			logger.Error("recovered from a panic",
				slog.String("type", fmt.Sprintf("%T", broke)), slog.String("stack", string(debug.Stack())))
			err = errPanic
		}
	}()
	return f()
}

// StatusError is an HTTP response without a JSON-RPC response to the request.
type StatusError struct {
	Status int
	// RetryAfter is the wait that the server requested, at most [MaxRetryAfter], or 0 if it
	// requested none.
	RetryAfter time.Duration
	// retryAt is the time at which RetryAfter ends. Only error texts use it.
	retryAt time.Time
	// unnamed is the [*wire.Error] in the body, if it does not count as the answer to the request: it has no id, or
	// the status matters more. It is nil if the body has no such error.
	unnamed error
	// challenge is the WWW-Authenticate of a refusal, and location the target of a redirect. Both
	// are texts of the server.
	challenge, location string
	// tls shows why the server refuses the connection. It is the zero value if TLS is not the
	// reason.
	tls tlsRefusal
	// inHandshake is true if the server refused the handshake and not a request of a session.
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

func (e *StatusError) Unwrap() error { return e.unnamed }

// shownChallenge returns the challenge as a continuation of "HTTP 401", or "" if there is no
// challenge.
func (e *StatusError) shownChallenge() string {
	if e.challenge == "" {
		return ""
	}
	return ", WWW-Authenticate: " + printable(e.challenge)
}

// MaxRetryAfter bounds a server's Retry-After. It is longer than most rate limits require, and short enough that a
// wrong value does not suspend calls for long.
const MaxRetryAfter = 5 * time.Minute

// retryAfter returns the wait in a Retry-After header, which is a number of seconds or a date (RFC 9110, section
// 10.2.3). For any other value it returns 0. A date is compared with the Date of the response, if there is one, because
// the clocks may differ.
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

// RefusesCaller reports whether the server refused the caller (401, 403) or its rate of requests (429), not the request
// itself.
func (e *StatusError) RefusesCaller() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden ||
		e.Status == http.StatusTooManyRequests
}

// AsksForPause reports whether the server sent a Retry-After with a 429 or 503.
func (e *StatusError) AsksForPause() bool {
	return e.RetryAfter > 0 && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable)
}

// ProtocolError is a response that the protocol does not allow.
type ProtocolError struct {
	problem string
	// foreign is true if the response is not from an MCP server, such as a web page.
	foreign bool
	// contentType is the content type of a foreign response.
	contentType string
	// wrongRevision is true if the server supports none of the revisions that the gateway supports or is configured
	// for.
	wrongRevision bool
	// oversized is true if the response exceeds the bound and was not read to its end.
	oversized bool
}

func (e *ProtocolError) Error() string { return e.problem }

// ListError names the bound that a list exceeds.
type ListError struct{ problem string }

func (e *ListError) Error() string { return "list refused: " + e.problem }

// startedError is the failure of a request after part of its response arrived, or after the client received a server
// request about it.
type startedError struct{ error }

func (e *startedError) Unwrap() error { return e.error }

// relayedError is the failure of a request after a notification about it was relayed to the client.
type relayedError struct{ error }

func (e *relayedError) Unwrap() error { return e.error }

// stage is the last step that a request reached.
type stage int

const (
	stageAnswer  stage = iota // sent, no response yet
	stageConnect              // no connection yet
	stageTLS                  // no TLS connection yet
	stageBody                 // the response had begun
	stageStream               // HTTP+SSE: no endpoint event yet
)

// stageError is the error of a request whose context ended, with the stage that the request
// reached.
type stageError struct {
	error

	method string
	stage  stage
	// waited is the duration of the wait, or 0 if it was the server's timeout. since is the start of a wait that still
	// goes on, and otherwise the zero time.
	waited time.Duration
	since  time.Time
}

func (e *stageError) Unwrap() error { return e.error }

// replaceCause returns cause in place of err. The result has the stage of err, for [CauseOf], and is a startedError if
// err is one.
func replaceCause(err, cause error) error {
	if stopped, ok := errors.AsType[*stageError](err); ok {
		cause = &stageError{cause, stopped.method, stopped.stage, stopped.waited, stopped.since}
	}
	if _, started := errors.AsType[*startedError](err); started {
		return &startedError{cause}
	}
	return cause
}

// withoutURL removes URLs and host names from an error, because they may be sensitive.
func withoutURL(err error) error {
	// Check for a DNSError first: a url.Error may wrap it, and its text contains the host name.
	if wrapped, ok := errors.AsType[*net.DNSError](err); ok {
		return &resolveError{wrapped}
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// resolveError is a failed name resolution without the host name. It does not unwrap to the DNSError, whose text
// contains the name.
type resolveError struct{ cause *net.DNSError }

func (e *resolveError) Error() string { return "resolve host name: " + e.cause.Err }

// serverRequestRefusals are errors of SDKs that support both eras. An SDK returns its error when a handler, written for
// the legacy era, sends a server request in the modern era. Handlers often wrap the error, so text is only a part of
// the message. Tests run each of these SDKs.
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

// RefusedServerRequest returns the SDK that refused a server request in the modern era, or "" for any other error. It
// also returns "" if the request must not be sent again: part of its response arrived, or the client received a server
// request or notification about it.
func RefusedServerRequest(err error) (sdk string) {
	answer, ok := errors.AsType[*wire.Error](err)
	_, started := errors.AsType[*startedError](err)
	_, relayed := errors.AsType[*relayedError](err)
	if !ok || started || relayed {
		return ""
	}
	for _, refusal := range serverRequestRefusals {
		if answer.Code == refusal.code && strings.Contains(answer.Message, refusal.text) {
			return refusal.sdk
		}
	}
	return ""
}
