package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Reason says in one word why there is no answer. It appears in error data, logs and metrics.
type Reason string

// The reasons that this package finds.
const (
	Unreachable Reason = "unreachable"  // no connection, or it broke
	Timeout     Reason = "timeout"      // no answer in time
	BadResponse Reason = "bad_response" // the answer is not MCP
	Denied      Reason = "denied"       // HTTP 401 or 403
	RateLimited Reason = "rate_limited" // HTTP 429
)

// Outcome is what the end of a request shows. The first row that fits an error holds:
//
//	error                                    Reason        Answered  MayBeLost  Suspicious
//	nil                                      –             yes       no         no
//	the session is lost                      unreachable   yes       no         no
//	HTTP 401, 403                            denied        yes       yes        no
//	HTTP 429                                 rate_limited  yes       no         no
//	HTTP 502, 504                            unreachable   no        no         yes
//	HTTP 503                                 unreachable   no        yes (1)    yes
//	HTTP 408                                 bad_response  no        no         yes
//	other HTTP 4xx                           bad_response  yes       yes        no
//	HTTP 3xx                                 bad_response  no        no         yes
//	other HTTP 5xx                           bad_response  no        yes        yes
//	HTTP 4xx or 5xx with a JSON-RPC error    as its row    yes       as its row no
//	not MCP, or cut off at a bound           bad_response  no        no         yes
//	an invalid response of an MCP server     bad_response  yes       no         yes
//	a JSON-RPC error                         bad_response  yes       yes (2)    no
//	a list that exceeds a bound              unreachable   yes       no         no
//	the time is over                         timeout       no        no         yes
//	the caller left                          unreachable   no        no         no
//	a response that broke off                bad_response  no        no         yes
//	no connection, or it broke               unreachable   no        no         yes
//
// (1) not with a Retry-After; (2) not -32042 and -32021, which no server says of a session.
type Outcome struct {
	// Reason is why there is no result. A client does not get it where Answer is set.
	Reason Reason
	// Answer is the server's JSON-RPC error; nil if there is none, or the HTTP response refuses the gateway's
	// credential or rate, and its body says nothing about the request.
	Answer *wire.Error
	// Answered says that the server is up and gave a complete answer, even an invalid one.
	Answered bool
	// Started says that the request must not be made again: some of its response had arrived, or the client had
	// been asked something on its behalf.
	Started bool
	// Lost says that the server has forgotten the session. MayBeLost says that it may have: servers refuse single
	// requests in the same words, and [Session.Prove] decides.
	Lost, MayBeLost bool
	// Suspicious is a reason to check with [Session.Ping] whether the server is still there.
	Suspicious bool
	// RetryAfter is when the server says to come back; 0 if it says nothing. Pauses says that it wants no requests
	// until then.
	RetryAfter time.Duration
	Pauses     bool
}

// OutcomeOf returns what an error of this package shows, whatever it is wrapped in.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{Answered: true}
	}
	o := Outcome{Reason: Unreachable, Lost: errors.Is(err, ErrSessionLost)}
	_, o.Started = errors.AsType[*startedError](err)
	answer, isAnswer := errors.AsType[*wire.Error](err)
	_, isList := errors.AsType[*ListError](err)
	nonsense, isNonsense := errors.AsType[*ProtocolError](err)
	status, isStatus := errors.AsType[*StatusError](err)
	if isAnswer && (!isStatus || !status.RefusesCaller()) {
		o.Answer = answer
	}
	switch {
	case isStatus:
		o.Reason = status.reason()
		o.MayBeLost, o.RetryAfter, o.Pauses = status.mayBeLost(), status.RetryAfter, status.AsksForPause()
	case isNonsense:
		o.Reason = BadResponse
	case isAnswer:
		o.Reason = BadResponse
		o.MayBeLost = answer.Code != wire.URLElicitationRequired && answer.Code != wire.MissingClientCapability
	case errors.Is(err, context.DeadlineExceeded):
		o.Reason = Timeout
	case o.Started: // the server may have done its work
		o.Reason = BadResponse
	}
	switch {
	case o.Lost, isAnswer && !isNonsense, isList && !isNonsense:
		o.Answered = true
	case isNonsense:
		o.Answered = !nonsense.foreign && !nonsense.oversized
	case isStatus:
		o.Answered = status.Status/100 == 4 && status.Status != http.StatusRequestTimeout
	}
	o.Suspicious = isNonsense || !o.Answered && !errors.Is(err, context.Canceled)
	return o
}

func (e *StatusError) reason() Reason {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Denied
	case http.StatusTooManyRequests:
		return RateLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unreachable
	}
	return BadResponse
}

// mayBeLost reports whether the status may be how a server refuses a request of a session that it has lost, or of
// another era.
func (e *StatusError) mayBeLost() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return false
	}
	return e.Status >= http.StatusBadRequest && !e.AsksForPause()
}
