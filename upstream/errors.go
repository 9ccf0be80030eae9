package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Reason says in one word why there is no answer. It appears in error data, logs and metrics.
type Reason string

// The reasons of [Unavailable].
const (
	Unreachable Reason = "unreachable"  // no connection, or it broke
	Timeout     Reason = "timeout"      // no answer in time
	BreakerOpen Reason = "breaker_open" // too many calls failed in a row: not tried
	Overloaded  Reason = "overloaded"   // concurrency or rate kept the call waiting for half of its time
	BadResponse Reason = "bad_response" // the answer is not MCP
	Denied      Reason = "denied"       // HTTP 401 or 403
	RateLimited Reason = "rate_limited" // HTTP 429
)

// ListRefused is the reason of a list that the server refused, or that exceeds a bound. A list that
// was not answered has the reason of any call.
const ListRefused Reason = "list_refused"

// InvalidFile is the reason of an upstream without a server while one of its files is broken: of
// that file, the last good prompt is served.
const InvalidFile Reason = "invalid_file"

// Unavailable is the error of a call that brought no JSON-RPC response.
type Unavailable struct { //nolint:errname // upstream.Unavailable says it
	Upstream string
	Reason   Reason
	// RetryAfter is when to try again at the earliest; zero if that is not known.
	RetryAfter time.Duration
	// Err is the cause, for logs; it may contain addresses.
	Err error
}

func (e *Unavailable) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("upstream %s: %s", e.Upstream, e.Reason)
	}
	return fmt.Sprintf("upstream %s: %s: %v", e.Upstream, e.Reason, e.Err)
}

func (e *Unavailable) Unwrap() error { return e.Err }

// Unanswered reports whether the same request may be sent to another server: no byte of a response
// came, and no client was asked on its behalf.
func (e *Unavailable) Unanswered() bool { return isRetryable(e) }

func unavailable(upstream string, reason Reason, retryAfter time.Duration, err error) error {
	return &Unavailable{Upstream: upstream, Reason: reason, RetryAfter: max(retryAfter, 0), Err: err}
}

// ErrRetired means that a connector takes no more calls because another has replaced it, or
// will. Nothing was sent.
var ErrRetired = errors.New("connector retired")

var (
	errNoSession = errors.New("no session")
	errPaused    = errors.New("the server asked for a pause")
	// errPooledLost means that a session of the pool was lost, and another one may be had.
	errPooledLost = fmt.Errorf("pooled %w", client.ErrSessionLost)
	// errNoLegacySession means that a get that should be made in the legacy era has to be made in
	// the modern one.
	errNoLegacySession = fmt.Errorf("%w in the legacy era", errNoSession)
	errLostAgain       = errors.New("a new session was lost at once")
	// errPanicked is what the health of a server is told about a call that panics.
	errPanicked = errors.New("call panicked")
)

// errListUnknown is the refusal of a server that listed something by the method before, and still
// declares that it has some.
func errListUnknown(method string) error {
	return wire.NewError(wire.MethodNotFound, method+": the server no longer knows the method")
}

// unsentError is the error of a call that was not sent. It does not unwrap to the cause: an answer
// of the server to something else is none to the call.
type unsentError struct {
	why   error // errNoSession or errPaused
	cause error // may be nil
}

func (e *unsentError) Error() string {
	if e.cause == nil {
		return e.why.Error()
	}
	return e.why.Error() + ": " + e.cause.Error()
}

func (e *unsentError) Unwrap() error { return e.why }

// pausedBy returns the error of a call that is not made during a pause.
func pausedBy(name string, p *health.Pause) error {
	return unavailable(name, Reason(p.Failure.Reason), p.Rest(), &unsentError{errPaused, p.Failure.Err})
}

// callerGoneError is the end of a call that its caller gave up, by cancelling it or by a deadline.
type callerGoneError struct{ error }

func (e *callerGoneError) Unwrap() error { return e.error }

// hurriedError is the timeout of an attempt that had too little time for it to mean anything.
type hurriedError struct{ error }

func (e *hurriedError) Unwrap() error { return e.error }

// isCancelled reports whether the caller gave up, which says nothing about the server.
func isCancelled(err error) bool {
	_, ok := errors.AsType[*callerGoneError](err)
	return ok || errors.Is(err, context.Canceled)
}

// isExcused reports whether err is not the server's fault.
func isExcused(err error) bool {
	_, hurried := errors.AsType[*hurriedError](err)
	return hurried || isCancelled(err) || errors.Is(err, queue.ErrConcurrency) || errors.Is(err, errNoLegacySession)
}

// slotOutcome returns what the end of a call says about the server's load.
func slotOutcome(err error) queue.Outcome {
	switch {
	case err == nil, client.Answered(err):
		return queue.Answered
	case reasonOf(err) == Timeout:
		return queue.TimedOut
	}
	return queue.Unmeasured
}

// isSuspicious reports whether err is a reason to check whether the session still works.
func isSuspicious(err error) bool { return client.Suspicious(err) && !isExcused(err) }

// isRetryable reports whether the call may be made again: no byte of a response came.
func isRetryable(err error) bool {
	if err == nil || isCancelled(err) || client.Started(err) {
		return false
	}
	return isRetried(reasonOf(err)) || errors.Is(err, errNoSession)
}

// isRetried reports whether a call that failed for a reason may be made again, or at another
// upstream.
func isRetried(reason Reason) bool {
	return slices.Contains([]Reason{Unreachable, Timeout, BreakerOpen, Overloaded}, reason)
}

// answerIn returns the JSON-RPC error with which the server answered. Where it refuses the
// gateway's credential, or the rate of its requests, the body of the HTTP response says nothing
// about the request, whatever is in it.
func answerIn(err error) (*wire.Error, bool) {
	if status, ok := errors.AsType[*client.StatusError](err); ok && status.RefusesCaller() {
		return nil, false
	}
	return errors.AsType[*wire.Error](err)
}

// reasonOf returns the reason for err, which is not an answer.
func reasonOf(err error) Reason {
	if unavailable, ok := errors.AsType[*Unavailable](err); ok {
		return unavailable.Reason
	}
	if status, ok := errors.AsType[*client.StatusError](err); ok {
		switch status.Status {
		case http.StatusUnauthorized, http.StatusForbidden:
			return Denied
		case http.StatusTooManyRequests:
			return RateLimited
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return Unreachable
		}
		return BadResponse
	}
	if _, ok := errors.AsType[*client.ProtocolError](err); ok {
		return BadResponse
	}
	if _, ok := errors.AsType[*wire.Error](err); ok { // to a request that the gateway makes for itself
		return BadResponse
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	// A response that broke off, and not by the deadline: the server may have done its work, so
	// that this is none of the reasons for which a call is made again.
	case client.Started(err):
		return BadResponse
	}
	return Unreachable
}

// reasonOfList returns the reason for err, with which a request for a list ended. What the server
// refuses is one reason, whatever its code.
func reasonOfList(err error) Reason {
	if _, ok := errors.AsType[*client.ListError](err); ok {
		return ListRefused
	}
	if _, ok := answerIn(err); ok {
		return ListRefused
	}
	return reasonOf(err)
}
