package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Reason says in one word why there is no answer. It appears in error data, logs and metrics.
type Reason string

// The reasons of [Unavailable].
const (
	Unreachable Reason = "unreachable"  // no connection, or it broke
	Timeout     Reason = "timeout"      // no answer in time
	BreakerOpen Reason = "breaker_open" // too many calls went unanswered: not tried
	Overloaded  Reason = "overloaded"   // more calls than concurrency or rate allow, for the whole timeout: not tried
	BadResponse Reason = "bad_response" // bytes came that are no MCP answer
	Denied      Reason = "denied"       // HTTP 401 or 403
	RateLimited Reason = "rate_limited" // HTTP 429
)

// Unavailable is the error of a call that brought no JSON-RPC answer.
type Unavailable struct { //nolint:errname // upstream.Unavailable reads as what it says
	Upstream string
	Reason   Reason
	// RetryAfter is a hint when to try again; zero when there is none.
	RetryAfter time.Duration
	// Err is the cause, for logs; it may hold addresses.
	Err error
}

func (e *Unavailable) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("upstream %s: %s", e.Upstream, e.Reason)
	}
	return fmt.Sprintf("upstream %s: %s: %v", e.Upstream, e.Reason, e.Err)
}

func (e *Unavailable) Unwrap() error { return e.Err }

// Unanswered reports whether no byte of an answer came back, so that another server may be asked the same.
func (e *Unavailable) Unanswered() bool { return unanswered(e) }

// ErrRetired means that a connector takes no more calls: another has taken its place, or will. Nothing was sent.
var ErrRetired = errors.New("connector retired")

var (
	// errSessionLost means that the peer has forgotten the session: nothing was processed.
	errSessionLost = errors.New("session lost")
	// errNoStream means that the peer offers no stream for what it says outside of calls.
	errNoStream   = errors.New("no standalone stream")
	errNoSession  = errors.New("no session")
	errOverloaded = errors.New("as many calls as allowed are in flight")
	errRate       = errors.New("more calls than the rate allows")
	errExited     = errors.New("child process exited")
	// errProbeFatal means that a child exited when it was asked for its era.
	errProbeFatal = errors.New("it did not survive " + wire.Discover)
	errClosed     = errors.New("stream ended without a response")
)

// statusError is an HTTP answer that carries no JSON-RPC message for the request.
type statusError struct {
	status     int
	retryAfter time.Duration
	// answer is a JSON-RPC error without an id, where the body was one: an answer, if not to this request by name.
	answer *wire.Error
}

func (e *statusError) Error() string {
	text := "HTTP status " + strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	switch {
	case e.answer != nil:
		return text + ": " + e.answer.Error()
	case e.status/100 == 3:
		return text + ": redirects are not followed"
	}
	return text
}

func (e *statusError) Unwrap() error {
	if e.answer == nil { // a nil *wire.Error is no nil error
		return nil
	}
	return e.answer
}

// refuses reports whether the server refused who asks, or how often, and not what was asked.
func (e *statusError) refuses() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden ||
		e.status == http.StatusTooManyRequests
}

// protocolError is an answer that is not what the protocol allows.
type protocolError struct {
	problem string
	// foreign means that it is no MCP server's answer at all, but the page of whatever stands there.
	foreign bool
}

func (e *protocolError) Error() string { return e.problem }

// answered reports whether err shows that the peer is there and said something, if only nonsense. Nil is an answer too.
func answered(err error) bool {
	if err == nil || errors.Is(err, errSessionLost) {
		return true
	}
	if nonsense, ok := errors.AsType[*protocolError](err); ok {
		return !nonsense.foreign
	}
	if _, ok := errors.AsType[*wire.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*guardError](err); ok {
		return true
	}
	status, ok := errors.AsType[*statusError](err)
	return ok && status.status/100 == 4 && status.status != http.StatusRequestTimeout
}

// suspicious reports whether err gives reason to ask for a sign of life: there was no answer, or none of an MCP server's.
func suspicious(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return !status.refuses()
	}
	if _, ok := errors.AsType[*protocolError](err); ok {
		return true
	}
	return !answered(err) && !excused(err)
}

// gaveUpError is the caller's own end of a call, by cancel or deadline.
type gaveUpError struct{ cause error }

func (e *gaveUpError) Error() string { return e.cause.Error() }

func (e *gaveUpError) Unwrap() error { return e.cause }

// cancelled reports whether the caller gave up, which says nothing about the peer.
func cancelled(err error) bool {
	_, ok := errors.AsType[*gaveUpError](err)
	return ok || errors.Is(err, context.Canceled)
}

// hurriedError is the end of an attempt that had too little time for its failure to mean anything.
type hurriedError struct{ error }

func (e *hurriedError) Unwrap() error { return e.error }

// excused reports whether it is not for the peer to answer for err.
func excused(err error) bool {
	_, hurried := errors.AsType[*hurriedError](err)
	return hurried || cancelled(err) || errors.Is(err, errOverloaded)
}

// begunError is the end of a call of whose answer something had come.
type begunError struct{ error }

func (e *begunError) Unwrap() error { return e.error }

func answerBegun(err error) bool {
	_, ok := errors.AsType[*begunError](err)
	return ok
}

// unanswered reports whether no byte of an answer came back, so that the call may be made again.
func unanswered(err error) bool {
	if err == nil || cancelled(err) || answerBegun(err) {
		return false
	}
	switch reason(err) {
	case Unreachable, Timeout, BreakerOpen, Overloaded:
		return true
	}
	return false
}

// reasonOfList names err, which a list brought: what the server or a guard refuses is one reason, whatever its code.
func reasonOfList(err error) Reason {
	if _, ok := errors.AsType[*guardError](err); ok {
		return Degraded
	}
	if _, ok := errors.AsType[*wire.Error](err); ok {
		return Degraded
	}
	return reason(err)
}

// reason names err, which is no answer.
func reason(err error) Reason {
	if unavailable, ok := errors.AsType[*Unavailable](err); ok {
		return unavailable.Reason
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		switch status.status {
		case http.StatusUnauthorized, http.StatusForbidden:
			return Denied
		case http.StatusTooManyRequests:
			return RateLimited
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return Unreachable
		}
		return BadResponse
	}
	if _, ok := errors.AsType[*protocolError](err); ok {
		return BadResponse
	}
	if _, ok := errors.AsType[*wire.Error](err); ok { // to a request of the gateway's own
		return BadResponse
	}
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return BreakerOpen
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case answerBegun(err):
		return BadResponse
	}
	return Unreachable
}
