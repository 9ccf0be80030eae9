package upstream

import (
	"errors"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Reason says in one word why there is no answer. It appears in error data, logs and metrics.
type Reason = client.Reason

// The reasons of [Unavailable].
const (
	Unreachable        = client.Unreachable
	Timeout            = client.Timeout
	BadResponse        = client.BadResponse
	Denied             = client.Denied
	RateLimited        = client.RateLimited
	BreakerOpen Reason = "breaker_open" // too many calls failed in a row: not tried
	Overloaded  Reason = "overloaded"   // concurrency or rate kept the call waiting for half of its time
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
func (e *Unavailable) Unanswered() bool { return outcomeOf(e).mayRepeat }

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
