package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Reason is a one-word code for a failed request. It appears in error data, logs and metrics.
type Reason string

// The reasons of this package.
const (
	Unreachable Reason = "unreachable"  // no connection, or it broke
	Timeout     Reason = "timeout"      // no answer in time
	BadResponse Reason = "bad_response" // the answer is not MCP
	Denied      Reason = "denied"       // HTTP 401 or 403
	RateLimited Reason = "rate_limited" // HTTP 429
)

// Outcome classifies the end of a request. The first row that fits an error applies:
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
// (1) not with a Retry-After; (2) not -32042 and -32021, which no server uses for a session.
type Outcome struct {
	// Reason is the reason for the missing result. If Answer is set, clients get the answer
	// instead.
	Reason Reason
	// Answer is the server's JSON-RPC error. It is nil if the server returned no such error, or if
	// the HTTP response refuses the gateway's credential or rate and its body is not about the
	// request.
	Answer *wire.Error
	// Answered is true if the server is up and completed a response, even an invalid one.
	Answered bool
	// Started is true if the request must not be sent again: part of its response arrived, or the
	// client was asked something for it.
	Started bool
	// Lost is true if the server has lost the session. MayBeLost is true if the error may mean a lost session or a
	// refused request, and [Session.Prove] decides.
	Lost, MayBeLost bool
	// Suspicious is true if [Session.Ping] should check whether the server is still there.
	Suspicious bool
	// RetryAfter is the wait that the server requested, or 0 if it requested none. Pauses is true
	// if the server must get no requests at all until then.
	RetryAfter time.Duration
	Pauses     bool
}

// OutcomeOf returns the outcome of an error of this package, which may be wrapped.
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
		o.Reason, o.MayBeLost = status.outcome()
		o.RetryAfter, o.Pauses = status.RetryAfter, status.AsksForPause()
	case isNonsense:
		o.Reason = BadResponse
	case isAnswer:
		o.Reason = BadResponse
		o.MayBeLost = answer.Code != wire.URLElicitationRequired && answer.Code != wire.MissingClientCapability
	case errors.Is(err, context.DeadlineExceeded):
		o.Reason = Timeout
	case o.Started: // the server may have carried out the request
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

// outcome returns the reason for an HTTP status, and whether servers use the status for requests of a lost session or of
// another era.
func (e *StatusError) outcome() (reason Reason, mayBeLost bool) {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Denied, true
	case http.StatusTooManyRequests:
		return RateLimited, false
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return Unreachable, false
	case http.StatusServiceUnavailable:
		return Unreachable, !e.AsksForPause()
	case http.StatusRequestTimeout:
		return BadResponse, false
	}
	return BadResponse, e.Status >= http.StatusBadRequest
}
