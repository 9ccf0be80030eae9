package requests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// defaultRetryMs is retryAfterMs where nothing better is known.
const defaultRetryMs = 1000

// AsWireError returns the error for a client whose message could not be read.
func AsWireError(err error) *wire.Error {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr
	}
	return wire.NewError(wire.ParseError, "Parse error: "+err.Error())
}

// ErrShuttingDown is the cause of the end of a request's context for which it is answered that the
// gateway is shutting down.
var ErrShuttingDown = errors.New("the gateway is shutting down")

// Reasons of errors that concern no upstream.
const (
	reasonShuttingDown upstream.Reason = "shutting_down"
	reasonAudit        upstream.Reason = "audit"
)

// shuttingDown is the answer to a request that the end of the gateway has cut off.
func shuttingDown() *wire.Error { return ownError(reasonShuttingDown, "The gateway is shutting down") }

// ownError returns an error of the gateway's own that may be over when its client tries again.
func ownError(reason upstream.Reason, problem string) *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote(string(reason))).
		With("retryAfterMs", wire.NumberID(defaultRetryMs))
	return wire.NewError(wire.InternalError, problem).WithData(data.JSON())
}

func invalidParams(problem string) *wire.Error {
	return wire.NewError(wire.InvalidParams, "Invalid params: "+problem)
}

// ErrLogLevel returns the error for a log level that the protocol does not know.
func ErrLogLevel() *wire.Error {
	return invalidParams("unknown log level")
}

// UnsupportedVersion returns the error for a revision that the gateway does not serve.
func UnsupportedVersion(requested string) *wire.Error {
	data := wire.Object{}.With("supported", supportedVersions()).With("requested", wire.Quote(requested))
	return wire.NewError(wire.UnsupportedProtocolVersion, "Unsupported protocol version").WithData(data.JSON())
}

// supportedVersions returns every revision, newest first, as a JSON array.
func supportedVersions() jsontext.Value {
	var list []jsontext.Value
	for _, revision := range wire.Revisions() {
		list = append(list, wire.Quote(revision))
	}
	return wire.Array(list)
}

// Overloaded returns the error for a request that the gateway has no room for.
func Overloaded(problem string) *wire.Error { return ownError(upstream.Overloaded, problem) }

// errUnread refuses a response that does not fit beside those which its client, or other clients of
// its upstream, have not read.
func errUnread() *wire.Error {
	return Overloaded("Too many bytes are unread: read the responses before you send more")
}

func methodNotFound(method string) *wire.Error {
	return wire.NewError(wire.MethodNotFound, "Method not found: "+method)
}

// wireError returns the error that the client gets: an upstream's own as it was sent, and for
// anything else one that names only the kind of failure. The cause goes to the log.
func wireError(ctx context.Context, logger *slog.Logger, err error) *wire.Error {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr
	}
	// Before the next check: this context has ended, too, but its client still waits.
	if errors.Is(context.Cause(ctx), ErrShuttingDown) {
		return shuttingDown()
	}
	if ctx.Err() != nil { // nobody waits for this, but some transports must send something
		return wire.NewError(wire.InternalError, "Request cancelled")
	}
	unavailable, ok := errors.AsType[*upstream.Unavailable](err)
	if !ok {
		logger.ErrorContext(ctx, "request failed", slog.Any("error", err))
		return wire.NewError(wire.InternalError, "Internal error")
	}
	level := slog.LevelWarn
	// An open breaker is logged when it opens, and an upstream that is starting has no cause to log.
	if unavailable.Reason == upstream.BreakerOpen || unavailable.Reason == snapshot.Starting {
		level = slog.LevelDebug
	}
	cause := unavailable.Cause()
	logger.Log(ctx, level, "upstream unavailable", slog.String("upstream", unavailable.Upstream),
		slog.String("reason", string(unavailable.Reason)), slog.String("cause", cause.Problem),
		slog.String("remedy", cause.Remedy), slog.Any("error", unavailable.Err))
	retry := unavailable.RetryAfter.Milliseconds()
	if retry <= 0 {
		retry = defaultRetryMs
	}
	return wire.NewError(wire.InternalError, unavailableMessage(unavailable, retry)).
		WithData(unavailableData(unavailable, retry))
}

// unavailableMessage says what a client's user can know of an upstream that did not answer, and
// whether trying again helps.
func unavailableMessage(u *upstream.Unavailable, retryMs int64) string {
	tryAgain := fmt.Sprintf("; try again in %d s", (retryMs+999)/1000)
	if u.Upstream == "" {
		return "No upstream is available yet" + tryAgain
	}
	name := strconv.Quote(u.Upstream)
	switch u.Reason {
	case upstream.Unreachable, upstream.BreakerOpen:
		return name + " does not answer" + tryAgain
	case upstream.Timeout:
		return name + " did not answer in time" + tryAgain
	case upstream.Overloaded:
		return name + " is overloaded" + tryAgain
	case upstream.RateLimited:
		return name + " asks for a pause" + tryAgain
	case snapshot.Starting:
		return name + " is starting" + tryAgain
	case upstream.Denied:
		return name + " refuses the gateway: its operator has to renew the credential"
	case upstream.BadResponse:
		return name + " did not answer in MCP: its operator has to correct that"
	}
	return name + " is unavailable: " + string(u.Reason)
}

func unavailableData(u *upstream.Unavailable, retryMs int64) jsontext.Value {
	data := wire.Object{}
	if u.Upstream != "" {
		data = data.With("upstream", wire.Quote(u.Upstream))
	}
	return data.With("reason", wire.Quote(string(u.Reason))).With("retryAfterMs", wire.NumberID(retryMs)).JSON()
}

// rulesTakeTooLong is the error where the conditions of rules, or screens, take more than one
// request may spend. The log says whose.
func rulesTakeTooLong() *wire.Error {
	return Overloaded("The rules for the prompts take too long: try again")
}

// recovered, deferred, turns a panic into an error. Some requests are answered on goroutines that
// the gateway starts, where net/http would not recover and a panic would end the process.
func recovered(err *error) {
	if broke := recover(); broke != nil {
		*err = fmt.Errorf("panic: %v\n%s", broke, debug.Stack())
	}
}

// The codes that 2026-07-28 reserves (Overview, "Error Codes"): a range of its own, and one of
// earlier revisions for an unknown resource.
const (
	firstReserved, lastReserved = -32099, -32020
	resourceNotFound            = -32002
)

// maxURLs bounds the elicitations of one [wire.URLElicitationRequired].
const maxURLs = 8

// forModern returns what a client of 2026-07-28 gets for an upstream's error: the input_required
// result or, if that is nil, the error. Other clients get each error as it was sent.
func forModern(
	answer *wire.Error, declared wire.Capabilities,
) (inputRequired wire.Object, refusal *wire.Error) {
	code := answer.Code
	if code == wire.URLElicitationRequired && declared.Has(wire.Elicitation|wire.ElicitationURL) {
		if urls := urlRequests(answer.Data); urls != nil {
			return wire.Object{}.With("resultType", wire.Quote(wire.ResultInputRequired)).
				With(memberRequests, urls.JSON()), nil
		}
	}
	switch {
	case code == resourceNotFound:
		return nil, answer.Recode(wire.InvalidParams, answer.Data)
	case firstReserved <= code && code <= lastReserved:
		// The error is about the gateway's request to the upstream. The client would take it for one
		// about its own: -32022 would have it change its revision.
		data := wire.Object{}
		if answer.Data.Kind() == '{' {
			data = wire.Members(answer.Data)
		} else if answer.Data != nil {
			data = data.With("data", answer.Data)
		}
		data = data.With("upstreamCode", jsontext.Value(strconv.FormatInt(code, 10)))
		return nil, answer.Recode(wire.InternalError, data.JSON())
	}
	return nil, answer // -32000 to -32019 are the implementations' own
}

// lacks reports whether a client did not declare what the data of a [wire.MissingClientCapability] require.
func lacks(declared wire.Capabilities, data jsontext.Value) bool {
	required := wire.ReadCapabilities(wire.Members(data).Object("requiredCapabilities"))
	return required != 0 && !declared.Has(required)
}

// urlRequests returns the server requests that ask for what the data of a
// [wire.URLElicitationRequired] does; nil if they are none that a client could answer.
func urlRequests(data jsontext.Value) (requests wire.Object) {
	elicitations, err := wire.ParseArray(wire.Members(data).Get("elicitations"))
	if err != nil || len(elicitations) > maxURLs {
		return nil
	}
	for i, params := range elicitations {
		elicitation := wire.Members(params)
		mode, _ := elicitation.Text("mode")
		_, described := elicitation.Text("message")
		if _, ok := elicitation.Text("url"); !ok || !described || mode != "url" {
			return nil
		}
		// The keys are the gateway's own. No server has to know them, since the get is made anew
		// without the replies.
		request := wire.Object{}.With("method", wire.Quote(wire.Elicit)).With("params", params)
		requests = requests.With(strconv.Itoa(i+1), request.JSON())
	}
	return requests
}

// afterError returns what the client of r gets for the err of an upstream's call, see [forModern].
func (r *Request) afterError(err error, declared wire.Capabilities) (upstream.Result, error) {
	answer, ok := errors.AsType[*wire.Error](err)
	if !ok || !answer.FromPeer() || !r.Modern() {
		return upstream.Result{}, err
	}
	if answer.Code == wire.MissingClientCapability && lacks(r.Capabilities, answer.Data) {
		return upstream.Result{}, answer // it is about the client's own capabilities
	}
	inputRequired, refusal := forModern(answer, declared)
	if inputRequired == nil {
		return upstream.Result{}, refusal
	}
	return upstream.Result{JSON: inputRequired.JSON(), Revision: r.Revision}, nil
}
