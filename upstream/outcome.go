package upstream

import (
	"context"
	"errors"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/wire"
)

// outcome is how a call or one of its attempts ended. All that wants to know asks this one value: the breaker, the
// queue, retries, failover, metrics and the error that callers get. Beside the rows of [client.Outcome]:
//
//	error                                   Reason        breaker     queue       again  excused
//	nil, or a JSON-RPC error                –             Answered    Answered    no     no
//	any that the server has answered        of the row    Refused     Answered    no     no
//	the session is lost                     unreachable   Lost        Answered    yes    no
//	no answer in time                       timeout       Unanswered  TimedOut    yes    no
//	no connection, or it broke              unreachable   Unanswered  Unmeasured  yes    no
//	not MCP, or cut off                     bad_response  Unanswered  Unmeasured  no     no
//	in time that was too short to tell      timeout       Excused     TimedOut    yes    yes
//	the caller left                         –             Excused     Unmeasured  no     yes
//	no slot, or no legacy session           overloaded    Excused     Unmeasured  yes    yes
//	not sent: no session, or a pause        of its cause  –           Unmeasured  yes    no
//	not sent: the breaker is open           breaker_open  –           Unmeasured  yes    no
//
// What has Started is not made again, whatever the row says.
type outcome struct {
	client.Outcome

	err error
	// gone says that the caller left, which says nothing about the server, and excused that the failure is not the
	// server's.
	gone, excused bool
	// mayRepeat says that the call may be made again, or at another upstream: no byte of a response came.
	mayRepeat bool
}

func outcomeOf(err error) outcome {
	o := outcome{Outcome: client.OutcomeOf(err), err: err}
	if err == nil {
		return o
	}
	if known, ok := errors.AsType[*Unavailable](err); ok {
		o.Reason = known.Reason
	}
	_, o.gone = errors.AsType[*callerGoneError](err)
	o.gone = o.gone || errors.Is(err, context.Canceled)
	_, hurried := errors.AsType[*hurriedError](err)
	o.excused = hurried || o.gone || errors.Is(err, queue.ErrConcurrency) || errors.Is(err, errNoLegacySession)
	switch o.Reason {
	case Unreachable, Timeout, BreakerOpen, Overloaded:
		o.mayRepeat = true
	}
	o.mayRepeat = (o.mayRepeat || errors.Is(err, errNoSession)) && !o.gone && !o.Started
	return o
}

// verdict is what the health of the server is told. Unusable is set if a result cannot be used.
func (o outcome) verdict(method string, unusable error) health.Outcome {
	told := health.Outcome{Get: method == wire.PromptsGet}
	switch {
	case o.err == nil && unusable != nil:
		told.Verdict, told.Failure = health.Refused, failureOf(unusable)
		return told
	case o.err == nil, o.Answer != nil:
		return told
	case o.excused:
		told.Verdict = health.Excused
		return told
	case o.Lost:
		told.Verdict = health.Lost
		return told
	case o.Answered:
		told.Verdict = health.Refused
	default:
		told.Verdict = health.Unanswered
	}
	told.Suspicious, told.Failure = o.Suspicious, failureOf(o.err)
	return told
}

// load is what the queue is told.
func (o outcome) load() queue.Outcome {
	switch {
	case o.Answered:
		return queue.Answered
	case o.Reason == Timeout:
		return queue.TimedOut
	}
	return queue.Unmeasured
}

// label is the error.type of metrics and spans.
func (o outcome) label() string {
	switch {
	case o.Answer != nil:
		return o.Answer.Label()
	case o.gone:
		return "cancelled"
	case o.Lost:
		return "error"
	}
	return string(o.Reason)
}

// ofList is the reason of a request for a list that failed. What the server refuses is one reason, whatever its code.
func (o outcome) ofList() Reason {
	if _, exceeds := errors.AsType[*client.ListError](o.err); exceeds || o.Answer != nil {
		return ListRefused
	}
	return o.Reason
}
