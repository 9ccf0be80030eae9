package call

import (
	"context"
	"errors"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/session"
)

// outcome is the classified result of a call, or of one of its requests. The breaker, the queue,
// retries, failover, metrics and the caller's error use it. The table adds columns to the table of
// [client.Outcome]: "breaker" is the effect on the circuit breaker, "gets" is the effect of a get
// on [session.Problem.Failing], and "again" says whether the call may be sent again.
//
//	error                                   Reason        breaker     gets    queue       again
//	nil, or a JSON-RPC error                –             works       work    answered    no
//	other error with an answer              see [client]  works       fail    answered    no
//	a result that Check refuses             bad_response  works       fail    answered    no
//	the session is lost                     unreachable   works       –       answered    yes
//	no answer in time                       timeout       fails       fail    timed out   yes
//	no connection, or it broke              unreachable   fails       fail    –           yes
//	not MCP, or cut off                     bad_response  fails       fail    –           no
//	no answer, in too short a time          timeout       –           –       timed out   yes
//	the caller left                         –             –           –       –           no
//	no slot, or no session of the pool      overloaded    –           –       –           yes (1)
//	no legacy session                       unreachable   –           –       –           yes
//	not sent: no session                    as its cause  –           fail    –           yes
//	not sent: a pause                       as its cause  –           fail    –           as its reason
//	not sent: the breaker is open           breaker_open  –           –       –           yes
//
// In every row, a call that has Started is not made again.
//
// (1) By the rate limit, a call gets no slot either. Its error counts nowhere: no request has begun.
type outcome struct {
	client.Outcome

	err error
	// breaker is the effect on the circuit breaker. gets is the effect of a get on [session.Problem.Failing].
	breaker, gets effect
	// timedOut is true if a request was sent and not answered in time. It lowers the queue's limit.
	timedOut bool
	// mayRepeat is true if the call may be made again, here or at another upstream. It is the
	// column "again".
	mayRepeat bool
}

// effect is the meaning of an outcome for the health of a server.
type effect int

const (
	nothing effect = iota // the server is not to blame, or not involved
	works
	fails
)

// outcomeOf classifies the error of a call or of one of its requests.
func outcomeOf(err error) outcome {
	o := outcome{Outcome: client.OutcomeOf(err), err: err, breaker: works, gets: works}
	if err == nil {
		return o
	}
	if _, unusable := errors.AsType[*unusableError](err); unusable {
		o.Outcome = client.Outcome{Reason: client.BadResponse, Answered: true}
	}
	isExhausted := errors.Is(err, session.ErrPoolExhausted)
	if isExhausted {
		o.Reason = session.Overloaded
	}
	if known, ok := errors.AsType[*Unavailable](err); ok {
		o.Reason = known.Reason
	}
	_, isHurried := errors.AsType[*hurriedError](err)
	_, isUnsent := errors.AsType[*session.Unsent](err)
	gone := errors.Is(err, context.Canceled)
	switch {
	case o.Answer != nil:
	case isHurried, gone, isExhausted,
		errors.Is(err, errConcurrency), errors.Is(err, errSuspended), errors.Is(err, session.ErrNoLegacySession):
		o.breaker, o.gets = nothing, nothing
	case isUnsent:
		o.breaker, o.gets = nothing, fails
	case o.Lost:
		o.gets = nothing
	case o.Answered:
		o.gets = fails
	default:
		o.breaker, o.gets = fails, fails
	}
	o.timedOut = o.Reason == client.Timeout && !isUnsent
	switch o.Reason {
	case client.Unreachable, client.Timeout, session.BreakerOpen, session.Overloaded:
		o.mayRepeat = true
	}
	o.mayRepeat = (o.mayRepeat || errors.Is(err, session.ErrNoSession)) && !gone && !o.Started
	return o
}

// Unanswered reports whether the same request may be sent to another server: no part of a JSON-RPC
// response arrived, and no client was asked for input.
func (e *Unavailable) Unanswered() bool { return outcomeOf(e).mayRepeat }
