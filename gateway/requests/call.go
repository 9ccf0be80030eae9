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
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// call is what a get or completion requests from the upstreams, and its outcome.
type call struct {
	// snapshot is the one in which the caller sees the entry.
	snapshot *snapshot.Snapshot
	entry    *catalog.Entry
	params   wire.Object
	owners   []catalog.Owner // those that may be called
	// anew is set if the client is asked for input that its repeated get does not carry upstream:
	// the upstream refused the get until a URL has been visited.
	anew bool
	// caller is named in assertions to the owner's server.
	caller *policy.Principal
	// request is what the owner is asked that is called now. Its method and caller are the same for
	// all.
	request upstream.Request
	// relay is the one of a call that ends within the client's request.
	relay upstream.Relay

	outcome
}

// newCall returns the call, with params, of a get that these owners may serve, or of the read of a
// link. One with a requestState goes to the one owner that issued it, or to the parked get that
// waits for it.
func newCall(r *Request, entry *catalog.Entry, owners []catalog.Owner, params wire.Object) (*call, error) {
	c := &call{
		snapshot: r.Snapshot, entry: entry, params: params, owners: owners, caller: r.assertedCaller(),
		request: upstream.Request{Method: r.Message.Method, Caller: r.upstreamCaller()},
	}
	if r.Modern() && (r.Params.Get(memberState) != nil || r.Params.Get(memberResponses) != nil) {
		return c, c.resumeFrom(r)
	}
	return c, nil
}

// callOwners calls the first healthy owner, and the next one if an owner did not answer at all and
// asked the client nothing. If none answers, the error is the first one's.
func (c *call) callOwners(ctx context.Context, relay *upstream.Relay) error {
	var first error
	for _, owner := range c.healthyFirst() {
		c.request.Params, c.request.Files = c.paramsFor(&owner), c.snapshot.Files(owner.Upstream)
		switch c.request.Method { // Mcp-Name and spans name the target of gets and reads only
		case wire.PromptsGet:
			c.request.Name, c.request.Check = owner.Name, checkGot
		case wire.ResourcesRead:
			c.request.Name, _ = c.params.Text("uri")
		}
		var err error
		if c.request.Assertion, err = c.snapshot.Assertion(owner.Upstream, c.caller); err != nil {
			return wire.NewError(wire.InternalError, fmt.Sprintf("%q is to know who calls: %v", owner.Upstream, err))
		}
		result, err := c.snapshot.Connector(owner.Upstream).Call(ctx, &c.request, relay)
		if err == nil || !unanswered(err) {
			c.owner, c.result = owner.Upstream, result
			return err
		}
		first = cmp.Or(first, err)
	}
	return first
}

// checkGot refuses the result of a get that has no messages: clients that validate would fail on
// it, without saying whose fault it is.
func checkGot(result upstream.Result) error { return checkArray(result, "messages", errNoMessages) }

// checkRead is [checkGot] for the result of reading a link.
func checkRead(result upstream.Result) error { return checkArray(result, "contents", errNoContents) }

func checkArray(result upstream.Result, member string, missing error) error {
	if wire.KindOf(result.JSON, member) == '[' {
		return nil
	}
	// Whether the server may ask for input here is for appendResult to say.
	if kind, _ := wire.Members(result.JSON).Text("resultType"); kind == wire.ResultInputRequired {
		return nil
	}
	return missing
}

var (
	errNoMessages = errors.New("the result of prompts/get has no array of messages")
	errNoContents = errors.New("the result of resources/read has no array of contents")
)

// healthyFirst returns the owners in configuration order, those without a session after the others.
func (c *call) healthyFirst() []catalog.Owner {
	if len(c.owners) == 1 {
		return c.owners
	}
	rank := func(o catalog.Owner) int {
		if c.snapshot.Connector(o.Upstream).State().Connected {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(c.owners), func(a, b catalog.Owner) int { return rank(a) - rank(b) })
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

// unanswered reports whether another owner may be called instead.
func unanswered(err error) bool {
	unavailable, ok := errors.AsType[*upstream.Unavailable](err)
	return ok && unavailable.Unanswered()
}

// screening checks what an upstream sends for an entry against the screen blocks of the entry's
// team.
type screening struct {
	logger *slog.Logger
	prompt string
	blocks *screen.Screen // nil where there are none
}

func newScreening(logger *slog.Logger, entry *catalog.Entry, blocks *screen.Screen) screening {
	return screening{logger, entry.Name, blocks}
}

// result checks the result of a get or a completion. The error names the check and the path, and
// quotes nothing of the result.
func (s *screening) result(ctx context.Context, result upstream.Result) (upstream.Result, error) {
	outcome, err := s.blocks.Result(ctx, result.JSON)
	// The deadline that has passed is the screens' own, since the request goes on.
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "screens take too long: requests fail", slog.String("prompt", s.prompt))
		return upstream.Result{}, rulesTakeTooLong()
	}
	if err != nil {
		return upstream.Result{}, err
	}
	return s.screened(ctx, result, outcome)
}

// screened logs what was found in a result, and returns what may be passed on.
func (s *screening) screened(ctx context.Context, result upstream.Result, outcome screen.Outcome) (upstream.Result, error) {
	for _, f := range outcome.Noted {
		f.Throttle(func() { s.log(ctx, f, "found in a result") })
	}
	if f := outcome.Rejected; f != nil {
		s.log(ctx, *f, "result rejected")
		data := wire.Object{}.With("reason", wire.Quote("screened")).With("screen", wire.Quote(f.Block.Label)).
			With("check", wire.Quote(f.Check)).With("at", wire.Quote(f.At))
		problem := "The result was rejected: " + f.String()
		return upstream.Result{}, wire.NewError(wire.InternalError, problem).WithData(data.JSON())
	}
	result.JSON = outcome.JSON
	return result, nil
}

// relayed checks the params of a notification or server request. What does not pass must not be
// relayed.
func (s *screening) relayed(ctx context.Context, params jsontext.Value) (passed jsontext.Value, ok bool) {
	if s.blocks == nil {
		return params, true
	}
	outcome, err := s.blocks.Result(ctx, params)
	if err != nil {
		if ctx.Err() == nil {
			s.logger.WarnContext(ctx, "screens take too long: a server request or notification is not passed on",
				slog.String("prompt", s.prompt))
		}
		return nil, false
	}
	for _, f := range outcome.Noted {
		f.Throttle(func() { s.log(ctx, f, "found in a server request or notification") })
	}
	if f := outcome.Rejected; f != nil {
		s.log(ctx, *f, "server request or notification rejected")
	}
	return outcome.JSON, outcome.Rejected == nil
}

func (s *screening) log(ctx context.Context, f screen.Finding, outcome string) {
	s.logger.WarnContext(ctx, "screen", slog.String("outcome", outcome), slog.String("prompt", s.prompt),
		slog.String("finding", f.String()), slog.String("rule", f.Block.Place.String()),
		slog.String("action", string(f.Block.Action)))
}
