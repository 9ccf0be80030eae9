package requests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// call is the call to the upstreams for a client's get, completion or read.
type call struct {
	entry  *catalog.Entry
	params wire.Object
	owners []catalog.Owner // the owners that may be called
	// withoutReplies is true after a failed get. If the client then has to visit a URL and repeats
	// the get, its replies are not sent upstream.
	withoutReplies bool
	// request is the request to the current owner. All owners get the same method and caller.
	request upstream.Request
	// relay passes the upstream's messages to the client during the call. A parked get has a relay
	// of its own, because it outlasts the request.
	relay upstream.Relay
}

// outcome is the upstream's answer to a call.
type outcome struct {
	// owner is the label of the upstream that answered.
	owner  string
	result upstream.Result
	// parked is the id of the parked get that continues with the client's replies. It is empty if the
	// get is complete.
	parked string
}

// newCall returns the call for a request. It sends params to one of the owners.
func newCall(x *run, entry *catalog.Entry, owners []catalog.Owner, params wire.Object) call {
	c := call{
		entry: entry, params: params, owners: owners,
		request: upstream.Request{Method: x.r.Message.Method, Meta: x.r.Meta, Caller: x.upstreamCaller()},
	}
	if x.r.isReusable() {
		c.request.Memory = &x.memory
	}
	switch {
	case c.request.Method == wire.PromptsGet:
		c.request.Check = checkGot
	case x.target.linked:
		c.request.Check = checkRead
	}
	return c
}

// callOwners calls the owners, connected ones first, until one answers with a result or an error,
// which it returns. It calls the next owner only if the previous one did not answer at all and did
// not ask the client. If no owner answers, it returns the error of the first one.
func (x *run) callOwners(ctx context.Context, relay *upstream.Relay) (outcome, error) {
	c := &x.call
	var first error
	for _, owner := range x.healthyFirst() {
		c.request.Params, c.request.Files = c.paramsFor(&owner), x.snapshot.Files(owner.Upstream)
		switch c.request.Method { // Mcp-Name and spans name the target of gets and reads only
		case wire.PromptsGet:
			c.request.Name = owner.Name
		case wire.ResourcesRead:
			c.request.Name, _ = c.params.Text("uri")
		}
		var err error
		if c.request.Assertion, err = x.snapshot.Assertion(owner.Upstream, x.assertedCaller()); err != nil {
			return outcome{}, wire.NewError(wire.InternalError, fmt.Sprintf("%q is to know who calls: %v", owner.Upstream, err))
		}
		result, err := x.snapshot.Connector(owner.Upstream).Call(ctx, &c.request, relay)
		if err == nil || !unanswered(err) {
			return outcome{owner: owner.Upstream, result: result}, err
		}
		first = cmp.Or(first, err)
	}
	return outcome{}, first
}

// checkGot refuses the result of a get without messages. If the gateway passed it on, clients that
// validate results would report an error that does not name the server.
func checkGot(result upstream.Result) error { return checkArray(result, "messages", errNoMessages) }

// checkRead is [checkGot] for the result of reading a link.
func checkRead(result upstream.Result) error { return checkArray(result, "contents", errNoContents) }

func checkArray(result upstream.Result, member string, missing error) error {
	if wire.KindOf(result.JSON, member) == '[' {
		return nil
	}
	// passedOn decides whether the server may ask for input here.
	if kind, _ := wire.Members(result.JSON).Text("resultType"); kind == wire.ResultInputRequired {
		return nil
	}
	return missing
}

var (
	errNoMessages = errors.New("the result of prompts/get has no array of messages")
	errNoContents = errors.New("the result of resources/read has no array of contents")
)

// healthyFirst returns the owners in configuration order. Owners without a session come last.
func (x *run) healthyFirst() []catalog.Owner {
	if len(x.call.owners) == 1 {
		return x.call.owners
	}
	rank := func(o catalog.Owner) int {
		if x.snapshot.Connector(o.Upstream).State().Connected {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(x.call.owners), func(a, b catalog.Owner) int { return rank(a) - rank(b) })
}

// paramsFor returns the params for an owner, which may have another name for the prompt.
func (c *call) paramsFor(owner *catalog.Owner) wire.Object {
	name := wire.Quote(owner.Name)
	switch c.request.Method {
	case wire.Complete:
		return c.params.With("ref", c.params.Object("ref").With("name", name).JSON())
	case wire.ResourcesRead: // the same uri for all, since owners share the definition
		return c.params
	}
	return c.params.With("name", name)
}

// unanswered reports whether another owner may be called after an error.
func unanswered(err error) bool {
	unavailable, ok := errors.AsType[*upstream.Unavailable](err)
	return ok && unavailable.Unanswered()
}

// screening applies the screen blocks of the entry's team to an upstream's results, notifications
// and server requests.
type screening struct {
	logger *slog.Logger
	prompt string
	blocks *screen.Screen // nil if there are no screen blocks
}

// result checks the result of a get or a completion. The error for a rejected result names the
// check and the path, and does not quote the result.
func (s *screening) result(ctx context.Context, result upstream.Result) (upstream.Result, error) {
	outcome, err := s.blocks.Result(ctx, result.JSON)
	// The screens' own deadline has passed, not the request's.
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "screens take too long: requests fail", slog.String("prompt", s.prompt))
		return upstream.Result{}, rulesTakeTooLong()
	}
	if err != nil {
		return upstream.Result{}, err
	}
	return s.screened(ctx, result, outcome)
}

// screened logs the findings in a result, and returns the part that may be passed on.
func (s *screening) screened(ctx context.Context, result upstream.Result, outcome screen.Outcome) (upstream.Result, error) {
	s.logFindings(ctx, outcome, "result")
	if f := outcome.Rejected; f != nil {
		data := wire.Object{}.With("reason", wire.Quote("screened")).With("screen", wire.Quote(f.Block.Label)).
			With("check", wire.Quote(f.Check)).With("at", wire.Quote(f.At))
		problem := "The result was rejected: " + f.String()
		return upstream.Result{}, wire.NewError(wire.InternalError, problem).WithData(data.JSON())
	}
	result.JSON = outcome.JSON
	return result, nil
}

// relayed checks the params of a notification or server request. If ok is false, they must not be
// relayed.
func (s *screening) relayed(ctx context.Context, params jsontext.Value) (passed jsontext.Value, ok bool) {
	outcome, err := s.blocks.Result(ctx, params)
	if err != nil {
		if ctx.Err() == nil {
			s.logger.WarnContext(ctx, "screens take too long: a server request or notification is not passed on",
				slog.String("prompt", s.prompt))
		}
		return nil, false
	}
	s.logFindings(ctx, outcome, "server request or notification")
	return outcome.JSON, outcome.Rejected == nil
}

// logFindings logs the findings in an upstream's message.
func (s *screening) logFindings(ctx context.Context, outcome screen.Outcome, message string) {
	for _, f := range outcome.Noted {
		f.Throttle(func() { s.log(ctx, f, "found in a "+message) })
	}
	if f := outcome.Rejected; f != nil {
		s.log(ctx, *f, message+" rejected")
	}
}

func (s *screening) log(ctx context.Context, f screen.Finding, outcome string) {
	s.logger.WarnContext(ctx, "screen", slog.String("outcome", outcome), slog.String("prompt", s.prompt),
		slog.String("finding", f.String()), slog.String("rule", f.Block.Place.String()),
		slog.String("action", string(f.Block.Action)))
}
