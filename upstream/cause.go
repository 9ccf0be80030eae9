package upstream

import (
	"errors"
	"strings"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/health"
)

// Kinds of causes beside those of package client.
const (
	callsSuspended client.Kind = "calls_suspended"
	tooManyCalls   client.Kind = "too_many_calls"
	noSession      client.Kind = "no_session"
	brokenFile     client.Kind = "broken_file"
)

// causeOf explains a reason with its error to operators.
func causeOf(reason Reason, err error) Cause {
	if file, ok := errors.AsType[files.Problem](err); ok {
		return Cause{Kind: brokenFile, Problem: file.Place() + ": " + file.Summary, Remedy: strings.TrimSuffix(file.Detail, ".")}
	}
	// A call that was not sent has the cause for which it was not.
	if unsent, ok := errors.AsType[*unsentError](err); ok && unsent.cause != nil {
		return causeOf(reason, unsent.cause)
	}
	switch {
	case reason == BreakerOpen:
		c := Cause{
			Kind: callsSuspended, Problem: "several calls in a row failed, so no more are sent for a while",
			Remedy: "see the log for their errors; cooldown in the breaker block sets the pause",
		}
		// What is returned is the last failure.
		if _, refused := errors.AsType[*health.SuspendedError](err); err != nil && !refused {
			last := client.CauseOf(err)
			c.Problem, c.Remedy = c.Problem+": "+last.Problem, last.Remedy
		}
		return c
	case reason == Overloaded:
		return Cause{
			Kind: tooManyCalls, Problem: "more calls than can be answered in time",
			Remedy: "raise concurrency or rate in the block, give the server more capacity, or find the caller",
		}
	case errors.Is(err, errNoSession):
		return Cause{Kind: noSession, Problem: "there is no session with the server", Remedy: "see the log for the cause"}
	case err == nil:
		return Cause{}
	}
	return client.CauseOf(err)
}

// Cause explains the problem to operators.
func (p *Problem) Cause() Cause { return causeOf(p.Reason, p.Err) }

// Cause explains to operators why there is no answer.
func (e *Unavailable) Cause() Cause { return causeOf(e.Reason, e.Err) }

// hasCause reports whether a problem, which may be nil, has a reason and a cause already.
func (p *Problem) hasCause(reason Reason, err error) bool {
	return p != nil && p.Reason == reason && causeKey(p.Reason, p.Err) == causeKey(reason, err)
}

// causeKey returns what causes have in common that are the same. They are if they are of one kind:
// what a child says last, for one, may differ each time. Of unknown kinds they are if their texts
// differ in digits only, such as in a time or a port.
func causeKey(reason Reason, err error) string {
	kind := causeOf(reason, err).Kind
	if kind != client.UnexplainedFailure || err == nil {
		return string(kind)
	}
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// IsRefusal reports whether the server is up and refuses the gateway, or the rate of its requests:
// it is not down.
func (p *Problem) IsRefusal() bool { return p.Reason == Denied || p.Reason == RateLimited }
