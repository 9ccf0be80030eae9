package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
)

// Reason is a one-word code for the reason why a result is missing. It appears in error data for clients, logs and metrics.
type Reason = client.Reason

// The reasons in addition to those in package client.
const (
	BreakerOpen Reason = "breaker_open" // not sent: too many calls failed in a row
	Overloaded  Reason = "overloaded"   // not sent: no slot or session became free in time
	// ListRefused is the reason for a list that the server refused or that exceeds a bound. A list
	// without an answer has the reason of a call without an answer.
	ListRefused Reason = "list_refused"
	// InvalidFile is the reason while a file of an upstream with files is broken. The file's last
	// good prompt is served, if there is one.
	InvalidFile Reason = "invalid_file"
)

// Cause explains to operators why an upstream has a problem.
type Cause = client.Cause

var (
	// ErrNoSession means that there is no session with the server.
	ErrNoSession = errors.New("no session")
	// ErrNoLegacySession means that a get for the legacy era must be made in the modern era.
	ErrNoLegacySession = fmt.Errorf("%w in the legacy era", ErrNoSession)
	// ErrPooledLost means that a session of the pool was lost, and the pool can replace it.
	ErrPooledLost = fmt.Errorf("pooled %w", client.ErrSessionLost)
)

// Unsent is the error of a call that was not sent. It does not unwrap to Cause, which is the error of another request: a
// server's answer to that request is not an answer to the call.
type Unsent struct { //nolint:errname // session.Unsent is clear
	Why   error
	Cause error // nil if it cannot be determined
}

func (e *Unsent) Error() string {
	if e.Cause == nil {
		return e.Why.Error()
	}
	return e.Why.Error() + ": " + e.Cause.Error()
}

func (e *Unsent) Unwrap() error { return e.Why }

// Kinds of causes in addition to those in package client.
//
//nolint:gochecknoglobals // constants
var (
	callsSuspended = client.Kind{
		Problem: "several calls in a row failed, so no more are sent for a while",
		Remedy:  "see the log for their errors; cooldown in the breaker block sets the pause",
	}
	tooManyCalls = client.Kind{
		Problem: "more calls than can be answered in time",
		Remedy:  "raise concurrency or rate in the block, give the server more capacity, or find the caller",
	}
	noSession = client.Kind{Problem: "there is no session with the server", Remedy: "see the log for the cause"}
)

// Problem is the reason why an upstream's list is not fresh, or why its calls fail. Reason is a
// code for clients, Cause a text for operators.
type Problem struct {
	Reason Reason `json:"reason"`
	// Since is the start of the problem, even if its reason has changed. Only a change between a refusal and an outage
	// begins a new problem.
	Since time.Time `json:"since"`
	// Err is the error, for logs; it may contain addresses. [Problem.Cause] explains it.
	Err error `json:"-"`
	// Failing is true if the list is fresh and gets fail.
	Failing bool `json:"failing,omitempty"`
}

// CauseOf explains a reason with its error to operators.
func CauseOf(reason Reason, err error) Cause {
	if file, ok := errors.AsType[files.Problem](err); ok {
		return Cause{Problem: file.Place() + ": " + file.Summary, Remedy: strings.TrimSuffix(file.Detail, ".")}
	}
	// If the call was not sent, explain the error that prevented it.
	if unsent, ok := errors.AsType[*Unsent](err); ok && unsent.Cause != nil {
		return CauseOf(reason, unsent.Cause)
	}
	switch {
	case reason == BreakerOpen:
		c := callsSuspended.Cause()
		// The error of a Problem is the last failed call, which explains more. The error of a refused call is only Unsent.
		if _, unsent := errors.AsType[*Unsent](err); err != nil && !unsent {
			last := client.CauseOf(err)
			c.Problem, c.Remedy = c.Problem+": "+last.Problem, last.Remedy
		}
		return c
	case reason == Overloaded:
		return tooManyCalls.Cause()
	case errors.Is(err, ErrNoSession):
		return noSession.Cause()
	case err == nil:
		return Cause{}
	}
	return client.CauseOf(err)
}

// Cause explains the problem to operators.
func (p *Problem) Cause() Cause { return CauseOf(p.Reason, p.Err) }

// HasCause reports whether the problem has the given reason and the same cause as err. It returns false for a nil problem.
func (p *Problem) HasCause(reason Reason, err error) bool {
	if p == nil || p.Reason != reason {
		return false
	}
	// During an outage most errors have the same text. Comparing texts costs less than finding causes.
	return p.Err != nil && err != nil && p.Err.Error() == err.Error() ||
		causeKey(p.Reason, p.Err) == causeKey(reason, err)
}

// causeKey returns a key that is equal for equal causes. The key is the kind of the cause, because its text may contain
// output of a child that differs each time. Without a kind, the key is the error's text without digits, which may be times
// or ports.
func causeKey(reason Reason, err error) string {
	kind := CauseOf(reason, err).Kind
	if kind != client.UnexplainedFailure || err == nil {
		return kind.Problem + kind.Remedy // several kinds have the problem "%s"
	}
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// IsRefusal reports whether the server is up and refuses the gateway or its rate of requests.
func (p *Problem) IsRefusal() bool {
	return p.Reason == client.Denied || p.Reason == client.RateLimited
}
