package gateway

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// How long a client may rely on a list, in milliseconds: less while an upstream that it sees is degraded.
const (
	healthyTTL  = 60_000
	degradedTTL = 5_000
)

// starting is why an upstream is not listed that has neither answered nor failed yet.
const starting upstream.Reason = "starting"

// metaPartial is the key under which a list says which upstreams it is not fresh for.
const metaPartial = "promptweir/partial"

// list appends the result of prompts/list to dst: one page of the caller's view, from memory.
func (g *Gateway) list(ctx context.Context, dst []byte, r *request) ([]byte, error) {
	e, audience := g.settle(ctx, r.principal)
	end, err := g.limits.begin(&r.principal, e.cfg.Gateway.Limit)
	if err != nil {
		return dst, err
	}
	defer end()
	after, err := e.position(r)
	if err != nil {
		return dst, err
	}
	view := e.view(audience)
	partial := g.partial(e, audience)
	if view.Len() == 0 {
		if err := e.nothingListed(audience); err != nil {
			return dst, err
		}
	}
	entries, next, more := view.Page(after, e.cfg.Gateway.PageSize)
	dst = append(dst, '{')
	dst = catalog.AppendPrompts(dst, entries)
	if more {
		cursor := e.sealer.SealCursor(wire.PromptsList, r.principal.Key(), next)
		dst = append(append(append(dst, `,"nextCursor":"`...), cursor...), '"')
	}
	return g.appendListMeta(dst, r, e, partial), nil
}

// appendListMeta ends a list's result with what the client's revision wants beside the prompts.
func (g *Gateway) appendListMeta(dst []byte, r *request, e *edition, partial jsontext.Value) []byte {
	var meta wire.Object
	if r.modern() {
		ttl, scope := int64(healthyTTL), "private"
		if partial != nil {
			ttl = degradedTTL
		}
		if !e.identity.Required() { // everybody has the same view
			scope = "public"
		}
		dst = append(append(dst, `,"resultType":"complete","cacheScope":"`...), scope...)
		dst = strconv.AppendInt(append(dst, `","ttlMs":`...), ttl, 10)
		meta = meta.With(wire.MetaServerInfo, g.info)
	}
	if partial != nil {
		meta = meta.With(metaPartial, partial)
	}
	if len(meta) > 0 {
		dst = meta.Append(append(dst, `,"_meta":`...))
	}
	return append(dst, '}')
}

// position returns the name that the page begins after.
func (e *edition) position(r *request) (string, error) {
	value := r.params.Get("cursor")
	if value == nil {
		return "", nil
	}
	cursor, ok := wire.Text(value)
	if !ok {
		return "", invalidCursor(seal.ErrMalformed)
	}
	after, err := e.sealer.OpenCursor(wire.PromptsList, r.principal.Key(), cursor)
	if err != nil {
		return "", invalidCursor(err)
	}
	return after, nil
}

func invalidCursor(err error) *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote(seal.Reason(err)))
	return wire.NewError(wire.InvalidParams, "Invalid cursor: begin the list again without one").WithData(data.JSON())
}

// names reports whether the audience may hear of an upstream: its team's members, and who sees an entry of it.
func (e *edition) names(audience *policy.Audience, u, team string) bool {
	return audience.Member(team) || e.audienceView(audience).owners()[u]
}

// partial says which upstreams of the caller's view are degraded, as a JSON array, or nil where none is.
func (g *Gateway) partial(e *edition, audience *policy.Audience) jsontext.Value {
	var list []byte
	for _, i := range e.unhealthy {
		state := e.states[i]
		u, reason, since := e.upstreams[i], starting, g.started
		if state.Problem != nil {
			reason, since = state.Problem.Reason, state.Problem.Since
		}
		if !e.names(audience, u.Name, u.Team) {
			continue
		}
		item := wire.Object{}.
			With("upstream", wire.Quote(u.Name)).
			With("reason", wire.Quote(string(reason))).
			With("since", wire.Quote(since.UTC().Format(time.RFC3339))).
			With("stale", jsontext.Value(strconv.FormatBool(e.listed(i, state))))
		if list != nil {
			list = append(list, ',')
		}
		list = item.Append(list)
	}
	if list == nil {
		return nil
	}
	return slices.Concat([]byte{'['}, list, []byte{']'})
}

// nothingListed returns the error of a list that would be empty only because no upstream that the caller may see
// anything of has ever been listed; nil where there is another reason. It names the first that the caller may hear of.
func (e *edition) nothingListed(audience *policy.Audience) error {
	var unlisted *upstream.Unavailable
	for i, state := range e.states {
		u := e.upstreams[i]
		switch {
		case !audience.SeesTeam(u.Team):
			continue
		case e.listed(i, state):
			return nil
		case unlisted != nil && unlisted.Upstream != "":
			continue
		}
		unlisted = &upstream.Unavailable{Reason: starting}
		if audience.Member(u.Team) {
			unlisted.Upstream = u.Name
			if state.Problem != nil {
				unlisted.Reason, unlisted.Err = state.Problem.Reason, state.Problem.Err
			}
		}
	}
	if unlisted == nil {
		return nil
	}
	return unlisted
}

// unknownPrompt answers for what does not exist and for what the caller may not see.
func unknownPrompt(name string) *wire.Error {
	return wire.NewError(wire.InvalidParams, "Unknown prompt: "+name)
}

// untilAsked appends the result of a request that an upstream has to answer to dst. Where a reload replaces the upstream
// before it is asked, the request begins again, and finds what the new configuration makes of it.
func (g *Gateway) untilAsked(ctx context.Context, dst []byte, r *request) (result []byte, err error) {
	for {
		if r.message.Method == wire.PromptsGet {
			result, err = g.get(ctx, dst, r)
		} else {
			result, err = g.complete(ctx, dst, r)
		}
		if !errors.Is(err, upstream.ErrRetired) {
			return result, err
		}
	}
}

// get appends the result of prompts/get to dst.
func (g *Gateway) get(ctx context.Context, dst []byte, r *request) ([]byte, error) {
	t, end, err := g.admitGet(ctx, r)
	if err != nil {
		return dst, err
	}
	defer end()
	if err := g.ask(ctx, r, t); err != nil {
		return dst, err
	}
	dst, err = g.appendOutcome(ctx, dst, r, t)
	if err != nil { // nobody is asked, so that nobody comes back
		g.waits.abandon(t.got.waiting, r.principal.Key())
	}
	return dst, err
}

// admitGet returns what a get asks of the upstreams, where it may. End is to be called when it is over.
func (g *Gateway) admitGet(ctx context.Context, r *request) (t *turn, end func(), err error) {
	name, ok := r.params.Text("name")
	if !ok {
		return nil, nil, wire.NewError(wire.InvalidParams, "Invalid params: name must be a string")
	}
	e, audience := g.settle(ctx, r.principal)
	entry := e.entry(audience, name)
	if entry == nil {
		return nil, nil, unknownPrompt(name)
	}
	r.operation.target(entry.Name)
	release, err := g.limited(r, e, audience, entry)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if t == nil { // it may not, or something broke
			release()
		}
	}()
	if err := g.checkArguments(ctx, entry, r.params.Get("arguments")); err != nil {
		return nil, nil, err
	}
	admitted, err := e.turn(r, entry)
	if err != nil {
		return nil, nil, err
	}
	r.screen = g.screening(ctx, e, entry)
	admitted.params = supply(entry, admitted.params)
	return admitted, release, nil
}

// appendOutcome appends what a get brought, screened.
func (g *Gateway) appendOutcome(ctx context.Context, dst []byte, r *request, t *turn) ([]byte, error) {
	result, err := g.screened(ctx, t.edition, t.entry, t.got.result)
	if err != nil {
		return dst, err
	}
	return g.appendResult(dst, r, result, func(result wire.Object) (wire.Object, error) {
		return t.edition.asked(r, t.entry, t.got, result)
	})
}

// healthyFirst returns the owners in configuration order, those without a session last.
func (e *edition) healthyFirst(owners []catalog.Owner) []catalog.Owner {
	if len(owners) == 1 {
		return owners
	}
	sorted := slices.Clone(owners)
	slices.SortStableFunc(sorted, func(a, b catalog.Owner) int {
		down := func(o catalog.Owner) int {
			if e.byName[o.Upstream].State().Connected {
				return 0
			}
			return 1
		}
		return down(a) - down(b)
	})
	return sorted
}

// noCompletions answers for a visible prompt whose upstream cannot complete.
const noCompletions = `{"completion":{"values":[]}}`

// complete appends the result of completion/complete to dst.
func (g *Gateway) complete(ctx context.Context, dst []byte, r *request) ([]byte, error) {
	ref := r.params.Object("ref")
	if kind, _ := ref.Text("type"); kind != "ref/prompt" {
		return dst, wire.NewError(wire.InvalidParams, "Invalid params: ref must be a ref/prompt")
	}
	name, ok := ref.Text("name")
	if !ok {
		return dst, wire.NewError(wire.InvalidParams, "Invalid params: ref.name must be a string")
	}
	e, audience := g.settle(ctx, r.principal)
	entry := e.entry(audience, name)
	if entry == nil {
		return dst, unknownPrompt(name)
	}
	r.operation.target(entry.Name)
	end, err := g.limited(r, e, audience, entry)
	if err != nil {
		return dst, err
	}
	defer end()
	params, err := completing(entry, r.params)
	if err != nil {
		return dst, err
	}
	none := upstream.Result{JSON: jsontext.Value(noCompletions), Revision: wire.LatestLegacy}
	owners := slices.DeleteFunc(slices.Clone(entry.Owners), func(o catalog.Owner) bool {
		return !e.byName[o.Upstream].Completes()
	})
	if len(owners) == 0 {
		return g.appendResult(dst, r, none, noQuestions)
	}
	r.screen = g.screening(ctx, e, entry)
	t := &turn{edition: e, entry: entry, question: upstream.Request{Method: wire.Complete}, params: params, owners: owners}
	err = t.ask(ctx, g.client(r))
	if wireErr, ok := errors.AsType[*wire.Error](err); ok && wireErr.Code == wire.MethodNotFound {
		t.got.result, err = none, nil
	}
	if err == nil {
		t.got.result, err = g.screened(ctx, e, entry, t.got.result)
	}
	if err != nil {
		return dst, err
	}
	return g.appendResult(dst, r, t.got.result, noQuestions)
}

// noQuestions is for methods that may not ask the client for input.
func noQuestions(wire.Object) (wire.Object, error) {
	return nil, wire.NewError(wire.InternalError, "The upstream asks for input where it may not")
}

// appendResult appends an upstream's result as the client's revision needs it. Between two legacy peers it stays as
// it is; to or from the modern era, only the members that belong to one era change. Asked takes a result that asks for input.
func (g *Gateway) appendResult(
	dst []byte, r *request, result upstream.Result, asked func(wire.Object) (wire.Object, error),
) ([]byte, error) {
	if !r.modern() && !wire.Modern(result.Revision) {
		return r.cut.splice(dst, result.JSON), nil
	}
	var err error
	object := wire.Members(result.JSON)
	kind, stated := object.Text("resultType")
	if stated && kind == wire.ResultInputRequired {
		if !wire.Modern(result.Revision) {
			asked = noQuestions // a legacy server cannot mean it
		}
		if object, err = asked(object); err != nil {
			return dst, err
		}
	}
	before := object.Get("_meta")
	meta := object.Object("_meta").Without(func(name string) bool { return name == wire.MetaServerInfo })
	if r.modern() {
		if !stated {
			object = object.With("resultType", wire.Quote(wire.ResultComplete))
		}
		meta = meta.With(wire.MetaServerInfo, g.info)
	} else {
		object = object.Without(func(name string) bool { return name == "resultType" })
	}
	switch {
	case len(meta) > 0 || string(before) == "{}":
		object = object.With("_meta", meta.JSON())
	case before != nil:
		object = object.Without(func(name string) bool { return name == "_meta" })
	}
	return object.AppendBy(dst, r.cut.splice), nil
}
