package requests

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// get appends the result of prompts/get, or that of resources/read for a link.
func (h *Handler) get(ctx context.Context, r *Request, out *Response) error {
	c, err := h.authorizeGet(ctx, r, out)
	if err != nil {
		return err
	}
	switch {
	case c.parked != "": // the client has come back with its replies
		c.outcome, err = h.parked.resume(ctx, r, c.parked)
	case !r.Modern(): // a modern upstream may require input, and is then called again with the client's replies
		c.relay = r.upstreamRelay(ctx)
		for round, again := 0, true; again; round++ {
			err = c.callOwners(ctx, &c.relay)
			again, err = c.anotherRound(ctx, r, round, err)
		}
	case r.Relay != nil && r.Capabilities != 0:
		// A legacy upstream may send server requests in the middle of the call.
		c.outcome, err = h.parked.begin(ctx, r, func(ctx context.Context, relay *upstream.Relay) (outcome, error) {
			running := *c // it may go on after this request is over
			err := running.callOwners(ctx, relay)
			return running.outcome, err
		})
	default:
		c.relay = r.upstreamRelay(ctx)
		err = c.callOwners(ctx, &c.relay)
	}
	out.upstream, out.parked = c.owner, c.outcome.parked
	reads := c.request.Method == wire.ResourcesRead
	if answer, ok := errors.AsType[*wire.Error](err); reads && ok && answer.FromPeer() && isUnknown(err) {
		uri, _ := r.Params.Text("uri")
		// The answer is the gateway's, since the server's may name its own uri, which is sealed in
		// the client's.
		return r.unknownResource(uri)
	}
	if err != nil {
		if c.result, err = r.afterError(err, r.Capabilities); err != nil {
			return err
		}
		c.anew = true
	}
	// Screens see the server's own uris. Links are sealed before the form changes, which may turn one
	// into text.
	result, err := r.screening.result(ctx, c.result)
	if err != nil {
		return err
	}
	result.JSON = r.form(c.sealLinks(ctx, r, result.JSON))
	if reads {
		result = cacheableRead(r, result)
	}
	return out.appendResult(r, result, h.info, func(result wire.Object) (wire.Object, error) {
		out.asks = true
		return c.inputRequired(r, result)
	})
}

// authorizeGet returns the upstream call of a get that its caller may make.
func (h *Handler) authorizeGet(ctx context.Context, r *Request, out *Response) (*call, error) {
	if r.Message.Method == wire.ResourcesRead {
		return authorizeLink(ctx, h, r, out)
	}
	name, ok := r.Params.Text("name")
	if !ok {
		return nil, invalidParams("name must be a string")
	}
	entry, owners, err := h.authorize(ctx, r, out, name)
	if err != nil {
		return nil, err
	}
	params := r.Params
	arguments, err := readArguments(params)
	if err != nil {
		return nil, err
	}
	// Before the check: the definition, its schemas and the audit log are about the prompt's own
	// arguments.
	if r.Variant == config.VariantFlat && !flat.IsOne(entry.Arguments) {
		if arguments, err = flat.Arguments(entry.Arguments, arguments); err != nil {
			return nil, err
		}
		params = params.With("arguments", arguments.JSON())
	}
	r.target.arguments = arguments
	checked, err := h.schemas.checkArguments(ctx, entry, arguments)
	if err != nil {
		return nil, err
	}
	if len(checked) < len(arguments) {
		r.target.arguments, params = checked, params.With("arguments", checked.JSON())
	}
	c, err := newCall(r, entry, owners, params)
	if err != nil {
		return nil, err
	}
	// Only now: a client may not send fixed arguments, and the values of overrides were held
	// against the schemas when the prompt was admitted.
	c.params = withOverrides(entry, c.params)
	return c, nil
}

// authorize returns the entry that a get or completion is about and the owners that may serve it,
// if its caller may see it and is within its limits.
func (h *Handler) authorize(
	ctx context.Context, r *Request, out *Response, name string,
) (entry *catalog.Entry, owners []catalog.Owner, err error) {
	r.target = target{name: name}
	// Before the lookup, so that the refusal is the same for prompts that the caller sees and for
	// others.
	if h.audit.refuses() {
		return nil, nil, errAudit()
	}
	if r.local == nil {
		entry, owners, err = h.authorizeClient(ctx, r, out, func(_ *policy.Audience, view *catalog.View) *catalog.Entry {
			return view.Kind(false).Lookup(name)
		})
	} else {
		entry, owners = r.local.lookup(r.Snapshot, name)
		r.target.entry, r.target.notFound = entry, entry == nil
	}
	if err == nil && entry == nil {
		err = unknownPrompt(name)
	}
	if err != nil {
		return nil, nil, err
	}
	r.screening = newScreening(h.logger, entry, r.Snapshot.Screen(entry.Team))
	return entry, owners, nil
}

// authorizeClient is authorize for a client and what find finds in its view. Its limits count the
// request until its response is written. The entry is nil if it sees none.
func (h *Handler) authorizeClient(
	ctx context.Context, r *Request, out *Response, find func(*policy.Audience, *catalog.View) *catalog.Entry,
) (entry *catalog.Entry, owners []catalog.Owner, err error) {
	if err := h.settle(ctx, r); err != nil {
		return nil, nil, err
	}
	s := r.Snapshot
	audience := s.Policy.Audience(r.Caller.Principal)
	view, err := s.RequestView(audience)
	if err != nil {
		return nil, nil, rulesTakeTooLong()
	}
	// In the view, not in the catalog: an entry's conditions take time, by which a hidden name
	// would differ from an unknown one.
	if entry = find(audience, view); entry == nil {
		r.target.notFound = true
		if h.audit.log != nil { // the work is the same for a prompt that is hidden and for one that does not exist
			r.target.findHidden(s.Catalog, audience)
		}
		return nil, nil, nil
	}
	rule, limit := audience.ShownBy(entry.VisibilityTo(audience))
	r.target.entry, r.target.rule = entry, rule
	// The response to a client that reads nothing would not fit, and its server would have worked
	// for nothing.
	share := s.Config.Gateway.MaxBuffered
	if h.ledger.Busy(share) && h.ledger.Full(share, r.Key()) {
		return nil, nil, errUnread()
	}
	out.counted, err = h.limits.acquire(&r.Caller.Principal,
		s.Config.Gateway.Limit, s.TeamLimit(entry.Team), limit)
	return entry, entry.OwnersFor(audience), err
}

// unknownPrompt is the answer both for a prompt that does not exist and for one that the caller may
// not see.
func unknownPrompt(name string) *wire.Error {
	return wire.NewError(wire.InvalidParams, "Unknown prompt: "+name)
}

// noCompletions is the result for a visible prompt whose upstream cannot complete.
const noCompletions = `{"completion":{"values":[]}}`

// complete appends the result of completion/complete.
func (h *Handler) complete(ctx context.Context, r *Request, out *Response) error {
	ref := r.Params.Object("ref")
	if kind, _ := ref.Text("type"); kind != "ref/prompt" {
		return invalidParams("ref must be a ref/prompt")
	}
	name, ok := ref.Text("name")
	if !ok {
		return invalidParams("ref.name must be a string")
	}
	entry, owners, err := h.authorize(ctx, r, out, name)
	if err != nil {
		return err
	}
	params, err := checkCompletion(r.Params)
	if err != nil {
		return err
	}
	params, err = completionParams(entry, params)
	if err != nil {
		return err
	}
	// As if a legacy server had sent it: appendResult adds what clients of the modern era need.
	result := upstream.Result{JSON: jsontext.Value(noCompletions), Revision: wire.LatestLegacy}
	owners = slices.DeleteFunc(slices.Clone(owners), func(o catalog.Owner) bool {
		return !r.Snapshot.Connector(o.Upstream).Completes()
	})
	// In the flat form, several arguments are one text, which no server knows as an argument.
	if len(owners) == 0 || r.Variant == config.VariantFlat && !flat.IsOne(entry.Arguments) {
		return out.appendResult(r, result, h.info, inputNotAllowed)
	}
	c := &call{
		snapshot: r.Snapshot, entry: entry, params: params, owners: owners, caller: r.assertedCaller(),
		request: upstream.Request{Method: wire.Complete, Caller: r.upstreamCaller()},
	}
	c.relay = r.upstreamRelay(ctx)
	err = c.callOwners(ctx, &c.relay)
	out.upstream = c.owner
	wireErr, refused := errors.AsType[*wire.Error](err)
	switch {
	case refused && wireErr.Code == wire.MethodNotFound: // as good as a server that declares no completions
	case err != nil:
		_, err = r.afterError(err, 0)
		return err
	default:
		if result, err = r.screening.result(ctx, c.result); err != nil {
			return err
		}
	}
	return out.appendResult(r, result, h.info, inputNotAllowed)
}

// checkCompletion refuses the params of a completion that no schema allows. Some servers do not
// answer them at all, which would open the circuit breaker for everybody. It returns the params
// without optional members that are null or, as PHP writes objects, an empty array.
func checkCompletion(params wire.Object) (wire.Object, error) {
	params = withoutNull(withoutNull(params, "ref", "title"), "context", "arguments")
	argument := params.Object("argument")
	_, named := argument.Text("name")
	_, valued := argument.Text("value")
	if !named || !valued {
		return nil, invalidParams("argument must be an object with the strings name and value")
	}
	if title := params.Object("ref").Get("title"); title != nil && title.Kind() != '"' {
		return nil, invalidParams("ref.title must be a string")
	}
	context := params.Get("context")
	if context == nil {
		return params, nil
	}
	known := params.Object("context").Get("arguments")
	if context.Kind() != '{' || known != nil && !allStrings(known) {
		return nil, invalidParams("context must be an object, and its arguments an object of strings")
	}
	return params, nil
}

// withoutNull returns params without a member of a member if that is null or an empty array.
func withoutNull(params wire.Object, outer, inner string) wire.Object {
	object := params.Object(outer)
	if value := object.Get(inner); value.Kind() != 'n' && !wire.IsEmptyArray(value) {
		return params
	}
	return params.With(outer, object.Without(func(name string) bool { return name == inner }).JSON())
}

func allStrings(value jsontext.Value) bool {
	isOther := func(m wire.Member) bool { return m.Value.Kind() != '"' }
	return value.Kind() == '{' && !slices.ContainsFunc(wire.Members(value), isOther)
}

// Local is a caller in this process: a command, or an operator at the console. Its requests are not
// limited and not counted as a client's, and find the upstreams as they are.
type Local struct {
	// Principal is the one that the caller acts for. Nil is for one that may use every prompt:
	// whoever reads the configuration, or operates the gateway, can reach the upstreams anyway.
	Principal *policy.Principal
	// Operator is who is at the console; nil for a command.
	Operator *Operator
}

// Operator is somebody who uses a prompt at the console: by the operator's own right, with the
// gateway's credential at the upstream, so it is recorded before the result is returned.
type Operator struct {
	// Client is the network address that the request came from.
	Client string
	// As is whose view was shown meanwhile, such as "user:ann"; empty for everybody's.
	As string
}

// HandleLocal carries out a get or completion for a caller in this process. The result is that for
// a client of the newest legacy revision; an operator's error is the one that a client would get, a
// command's is the cause. Nobody can be asked: what a server asks for is refused.
func (h *Handler) HandleLocal(
	ctx context.Context, caller Local, method string, params wire.Object,
) (jsontext.Value, error) {
	r := &Request{
		Received: time.Now(), Message: wire.Message{Method: method}, Params: params, Revision: wire.LatestLegacy,
		Snapshot: h.publisher.Current(), local: &caller,
	}
	var out Response
	defer out.Release()
	err := h.result(ctx, r, &out)
	if caller.Operator != nil {
		if refusal := h.conclude(ctx, r, &out, &err); refusal != nil {
			err = refusal
		}
	}
	if err != nil {
		return nil, err
	}
	return out.JSON, nil
}

// lookup returns the entry under a name and its owners, as far as the caller may use them.
func (l *Local) lookup(s *snapshot.Snapshot, name string) (*catalog.Entry, []catalog.Owner) {
	if l.Principal == nil {
		entry := s.Catalog.Lookup(name)
		if entry == nil || entry.Skill != nil {
			return nil, nil
		}
		return entry, entry.Owners
	}
	audience := s.Policy.Audience(*l.Principal)
	entry := s.Lookup(audience, name)
	if entry == nil || entry.Skill != nil {
		return nil, nil
	}
	return entry, entry.OwnersFor(audience)
}
