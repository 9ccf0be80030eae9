package requests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// defaultRetryMs is the default of retryAfterMs.
const defaultRetryMs = 1000

// AsWireError returns the error for a client whose message could not be read.
func AsWireError(err error) *wire.Error {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr
	}
	return wire.NewError(wire.ParseError, "Parse error: "+err.Error())
}

// ErrShuttingDown is the cancellation cause of requests that the gateway cuts off when it stops.
// They fail with data.reason "shutting_down".
var ErrShuttingDown = errors.New("the gateway is shutting down")

// The values of data.reason for errors that are not about an upstream.
const (
	reasonShuttingDown upstream.Reason = "shutting_down"
	reasonAudit        upstream.Reason = "audit"
)

// shuttingDown returns the error for a request that the gateway cut off when it stopped.
func shuttingDown() *wire.Error { return ownError(reasonShuttingDown, "The gateway is shutting down") }

// ownError returns an error of the gateway itself, after which the client may try again.
func ownError(reason upstream.Reason, problem string) *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote(string(reason))).
		With("retryAfterMs", wire.NumberID(defaultRetryMs))
	return wire.NewError(wire.InternalError, problem).WithData(data.JSON())
}

func invalidParams(problem string) *wire.Error {
	return wire.NewError(wire.InvalidParams, "Invalid params: "+problem)
}

// ErrLogLevel returns the error for an unknown log level.
func ErrLogLevel() *wire.Error {
	return invalidParams("unknown log level")
}

// UnsupportedVersion returns the error for an unsupported revision.
func UnsupportedVersion(requested string) *wire.Error {
	data := wire.Object{}.With("supported", supportedVersions()).With("requested", wire.Quote(requested))
	return wire.NewError(wire.UnsupportedProtocolVersion, "Unsupported protocol version").WithData(data.JSON())
}

// supportedVersions returns every revision, newest first, as a JSON array.
func supportedVersions() jsontext.Value {
	return wire.Array(exslices.CastFunc(wire.Revisions(), wire.Quote))
}

// Overloaded returns the error for a request that needs more memory or time than the gateway can give
// it now.
func Overloaded(problem string) *wire.Error { return ownError(upstream.Overloaded, problem) }

// errUnread returns the error for a response that does not fit in memory together with the unread
// responses of the same client, or from the same upstream.
func errUnread() *wire.Error {
	return Overloaded("Too many bytes are unread: read the responses before you send more")
}

func methodNotFound(method string) *wire.Error {
	return wire.NewError(wire.MethodNotFound, "Method not found: "+method)
}

// wireError returns the error for the client: a [*wire.Error] unchanged, or an error that names
// only the kind of failure. The cause is logged.
func wireError(ctx context.Context, logger *slog.Logger, err error) *wire.Error {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr
	}
	// Check for a shutdown first: the context has ended in both cases, but here the client still
	// waits.
	if errors.Is(context.Cause(ctx), ErrShuttingDown) {
		return shuttingDown()
	}
	if ctx.Err() != nil && !errors.Is(err, errPanic) { // the client has left, but some transports must send something
		return wire.NewError(wire.InternalError, "Request cancelled")
	}
	unavailable, ok := errors.AsType[*upstream.Unavailable](err)
	if !ok {
		logger.ErrorContext(ctx, "request failed", slog.Any("error", err))
		return wire.NewError(wire.InternalError, "Internal error")
	}
	level := slog.LevelWarn
	// Package call logs the opening of a breaker, and a starting upstream has no cause to log.
	if unavailable.Reason == upstream.BreakerOpen || unavailable.Reason == snapshot.Starting {
		level = slog.LevelDebug
	}
	cause := unavailable.Cause()
	logger.Log(ctx, level, "upstream unavailable", slog.String("upstream", unavailable.Upstream),
		slog.String("reason", string(unavailable.Reason)), slog.String("cause", cause.Problem),
		slog.String("remedy", cause.Remedy), slog.Any("error", unavailable.Err))
	retry := cmp.Or(max(unavailable.RetryAfter.Milliseconds(), 0), defaultRetryMs)
	return wire.NewError(wire.InternalError, unavailableMessage(unavailable, retry)).
		WithData(unavailableData(unavailable, retry))
}

// unavailableMessage returns the message for a client's user: why the upstream did not answer, and
// when to try again.
func unavailableMessage(u *upstream.Unavailable, retryMs int64) string {
	tryAgain := fmt.Sprintf("; try again in %d s", (retryMs+999)/1000)
	if u.Upstream == "" {
		return "No upstream is available yet" + tryAgain
	}
	name := strconv.Quote(u.Upstream)
	if text := temporary[u.Reason]; text != "" {
		return name + text + tryAgain
	}
	switch u.Reason {
	case upstream.Denied:
		return name + " refuses the gateway: its operator has to renew the credential"
	case upstream.BadResponse:
		return name + " did not answer in MCP: its operator has to correct that"
	}
	return name + " is unavailable: " + string(u.Reason)
}

// temporary contains the messages for reasons that may end without anyone's help.
var temporary = map[upstream.Reason]string{ //nolint:gochecknoglobals // a constant table
	upstream.Unreachable: " does not answer", upstream.BreakerOpen: " does not answer",
	upstream.Timeout: " did not answer in time", upstream.Overloaded: " is overloaded",
	upstream.RateLimited: " asks for a pause", snapshot.Starting: " is starting",
}

func unavailableData(u *upstream.Unavailable, retryMs int64) jsontext.Value {
	return wire.Object{}.WithText("upstream", u.Upstream).With("reason", wire.Quote(string(u.Reason))).
		With("retryAfterMs", wire.NumberID(retryMs)).JSON()
}

// rulesTakeTooLong returns the error for conditions or screens that exceed their time limit. The
// log names the rule, or the screened prompt.
func rulesTakeTooLong() *wire.Error {
	return Overloaded("The rules for the prompts take too long: try again")
}

// viewError returns the client's error after [snapshot.Snapshot.RequestView] failed: the conditions took too long, or the client has left.
func viewError(err error) error {
	if errors.Is(err, policy.ErrBudget) {
		return rulesTakeTooLong()
	}
	return err
}

// errPanic is wrapped by the error of a panic, which is logged even if the client has left.
var errPanic = errors.New("panic")

// recovered, when deferred, turns a panic into an error. Some requests run on the gateway's own
// goroutines, where a panic would end the process.
func recovered(err *error) {
	if broke := recover(); broke != nil {
		*err = fmt.Errorf("%w: %v\n%s", errPanic, broke, debug.Stack())
	}
}

// Error codes that the gateway must not pass on to clients of 2026-07-28 (Overview, "Error Codes"):
// the range that this revision reserves, and the earlier code for an unknown resource.
const (
	firstReserved, lastReserved = -32099, -32020
	resourceNotFound            = -32002
)

// maxURLs bounds the elicitations of one [wire.URLElicitationRequired].
const maxURLs = 8

// forModern returns the response to a client of 2026-07-28 for an upstream's error: an
// input_required result or, if that is nil, the error. Other clients get the error unchanged.
func forModern(
	answer *wire.Error, declared, usable wire.Capabilities,
) (inputRequired wire.Object, refusal *wire.Error) {
	code := answer.Code
	if code == wire.MissingClientCapability && lacks(declared, answer.Data) {
		return nil, answer // the error is about the client's own capabilities
	}
	if code == wire.URLElicitationRequired && usable.Has(wire.Elicitation|wire.ElicitationURL) {
		if urls := urlRequests(answer.Data); urls != nil {
			return wire.Object{}.With("resultType", wire.Quote(wire.ResultInputRequired)).
				With(memberRequests, urls.JSON()), nil
		}
	}
	switch {
	case code == resourceNotFound:
		return nil, answer.Recode(wire.InvalidParams, answer.Data)
	case firstReserved <= code && code <= lastReserved:
		// The error is about the gateway's request to the upstream, but the client would apply it
		// to its own request. For example, -32022 would make it change its revision.
		data := wire.Members(answer.Data)
		if data == nil { // not an object
			data = data.With("data", answer.Data)
		}
		return nil, answer.Recode(wire.InternalError, data.With("upstreamCode", wire.NumberID(code)).JSON())
	}
	return nil, answer // -32000 to -32019 belong to implementations
}

// lacks reports whether a client did not declare all capabilities that the data of a
// [wire.MissingClientCapability] requires.
func lacks(declared wire.Capabilities, data jsontext.Value) bool {
	required := wire.ReadCapabilities(wire.Members(data).Object("requiredCapabilities"))
	return required != 0 && !declared.Has(required)
}

// urlRequests returns server requests for the elicitations in the data of a
// [wire.URLElicitationRequired]. It returns nil if they are malformed or too many.
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
		// The keys are the gateway's own. Servers do not see them, because the get is sent again
		// without the replies.
		request := wire.Object{}.With("method", wire.Quote(wire.Elicit)).With("params", params)
		requests = requests.With(strconv.Itoa(i+1), request.JSON())
	}
	return requests
}

// afterError returns the result or error for the client after an upstream's call failed with err.
// usable are the capabilities with which the client can be asked for input.
func (x *run) afterError(err error, usable wire.Capabilities) (upstream.Result, error) {
	answer, ok := errors.AsType[*wire.Error](err)
	if !ok || !answer.FromPeer() {
		return upstream.Result{}, err
	}
	inputRequired, refusal := x.era.failure(answer, x.r.Capabilities, usable)
	switch {
	case inputRequired != nil:
		return upstream.Result{JSON: inputRequired.JSON(), Revision: x.r.Revision}, nil
	case refusal == answer:
		return upstream.Result{}, err
	}
	return upstream.Result{}, refusal
}
