package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/upstream/session"
)

// Unavailable is the error of a call that got no usable JSON-RPC response.
type Unavailable struct { //nolint:errname // upstream.Unavailable reads well
	Upstream string
	Reason   session.Reason
	// RetryAfter is the minimum time before another try, or zero if it cannot be determined.
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

// Cause returns an explanation for operators, with a remedy.
func (e *Unavailable) Cause() session.Cause { return session.CauseOf(e.Reason, e.Err) }

func unavailable(upstream string, reason session.Reason, retryAfter time.Duration, err error) error {
	return &Unavailable{Upstream: upstream, Reason: reason, RetryAfter: max(retryAfter, 0), Err: err}
}

// ErrRetired means that a connector takes no more calls: its upstream has a new connector, or was
// removed. Nothing was sent.
var ErrRetired = errors.New("connector retired")

var (
	// errConcurrency is wrapped by each error of a call that got no slot, except errRate.
	errConcurrency = errors.New("the maximum number of calls is in flight")
	errRate        = errors.New("the rate of calls is exceeded")
	errQueueFull   = fmt.Errorf("%w, and so is the number of waiting ones", errConcurrency)

	errPaused    = errors.New("the server asked for a pause")
	errSuspended = errors.New("the circuit breaker is open")
	errLostAgain = errors.New("a new session was lost at once")
	// errPanicked tells the breaker that the call of a request has panicked.
	errPanicked = errors.New("call panicked")
)

// unusableError is the error of a result that [Request.Check] refuses.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// callerGoneError is the error of a call whose caller left: it cancelled the call, or its own deadline has passed. It has
// no Unwrap, because the caller's deadline is not a timeout of the server.
type callerGoneError struct{ error }

// Is makes the error a [context.Canceled], even if the caller's deadline has passed.
func (e *callerGoneError) Is(target error) bool { return target == context.Canceled }

// hurriedError is the timeout of a request whose time was too short for the server to be blamed.
type hurriedError struct{ error }

func (e *hurriedError) Unwrap() error { return e.error }
