package requests

import (
	"context"
	"errors"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// get returns the result of prompts/get, or of resources/read for a link in a prompt's result.
func (h *Handler) get(ctx context.Context, x *run) (Result, error) {
	entry, owners, err := h.find(ctx, x)
	if err != nil {
		return Result{}, err
	}
	if err := h.limit(x); err != nil {
		return Result{}, err
	}
	params, err := h.check(ctx, x, entry)
	if err != nil {
		return Result{}, err
	}
	x.call = newCall(x, entry, owners, params)
	answer, err := h.callUpstream(ctx, x)
	if err != nil {
		if answer, err = x.afterGetError(err); err != nil {
			return Result{}, err
		}
	}
	// Screen first, because screens check the server's own uris. Seal links before converting the
	// result to the request's form, which may turn a link into text.
	if answer, err = x.screening.result(ctx, answer); err != nil {
		return Result{}, err
	}
	answer.JSON = x.r.form(x.sealLinks(ctx, answer.JSON))
	if x.target.linked {
		answer = x.cacheableRead(answer)
	}
	return x.passedOn(answer, x.inputRequired)
}

// find returns the entry of a get, if its caller may see it, and the owners that may serve it.
func (h *Handler) find(ctx context.Context, x *run) (*catalog.Entry, []catalog.Owner, error) {
	if x.r.Message.Method == wire.ResourcesRead {
		return h.findLink(ctx, x)
	}
	name, ok := x.r.Params.Text("name")
	if !ok {
		return nil, nil, invalidParams("name must be a string")
	}
	return h.findPrompt(ctx, x, name)
}

// findPrompt finds the prompt with a name, for a get or completion.
func (h *Handler) findPrompt(ctx context.Context, x *run, name string) (*catalog.Entry, []catalog.Owner, error) {
	x.target = target{name: name}
	// Refuse before the lookup, so that the refusal does not depend on whether the caller sees the
	// prompt.
	if h.audit.log.Refuses() {
		return nil, nil, errAudit()
	}
	if local := x.r.local; local != nil {
		entry, owners := local.lookup(x.snapshot, name)
		if entry == nil {
			x.target.notFound = true
			return nil, nil, unknownPrompt(name)
		}
		x.found(h, entry)
		return entry, owners, nil
	}
	entry, owners, err := h.findInView(ctx, x, func(_ *policy.Audience, view *catalog.View) *catalog.Entry {
		return view.Kind(false).Lookup(name)
	})
	if err == nil && entry == nil {
		err = unknownPrompt(name)
	}
	return entry, owners, err
}

// findInView returns the entry that lookup finds in the client's view, and the owners that the client
// may use. It returns nil if lookup finds no entry.
func (h *Handler) findInView(
	ctx context.Context, x *run, lookup func(*policy.Audience, *catalog.View) *catalog.Entry,
) (*catalog.Entry, []catalog.Owner, error) {
	if err := h.awaitTried(ctx, x); err != nil {
		return nil, nil, err
	}
	s := x.snapshot
	audience := s.Policy.Audience(x.caller.Principal)
	view, err := s.RequestView(ctx, audience)
	if err != nil {
		return nil, nil, viewError(err)
	}
	// Look in the view, not in the catalog: evaluating an entry's conditions takes time, and a
	// client could measure it to tell a hidden name from an unknown one.
	entry := lookup(audience, view)
	if entry == nil {
		x.target.notFound = true
		if h.audit.log != nil { // the same work for hidden and for unknown prompts
			x.target.findHidden(s.Catalog, audience)
		}
		return nil, nil, nil
	}
	x.target.rule, x.target.limit = audience.ShownBy(entry.VisibilityTo(audience))
	x.found(h, entry)
	return entry, entry.OwnersFor(audience), nil
}

// found sets the request's entry, and the screens of the entry's team.
func (x *run) found(h *Handler, entry *catalog.Entry) {
	x.target.entry = entry
	x.screening = screening{h.logger, entry.Name, x.snapshot.Screen(entry.Team)}
}

// limit counts a client's request against the limits of the gateway, of the entry's team and of the
// rule that shows the entry.
func (h *Handler) limit(x *run) error {
	if x.r.local != nil {
		return nil
	}
	s := x.snapshot
	// Refuse before the upstream works: the response would not fit in memory beside the client's
	// unread responses.
	share := s.Config.Gateway.MaxBuffered
	if h.ledger.Busy(share) && h.ledger.Full(share, x.Key()) {
		return errUnread()
	}
	return x.count(h.limits, s.Config.Gateway.Limit, s.TeamLimit(x.target.entry.Team), x.target.limit)
}

// check checks the client's arguments against the definition. It returns the params for the
// upstream, which still contain the exposed name.
func (h *Handler) check(ctx context.Context, x *run, entry *catalog.Entry) (wire.Object, error) {
	params := x.r.Params
	if x.target.linked {
		return params.With("uri", x.target.arguments.Get("uri")), nil
	}
	arguments, err := readArguments(params)
	if err != nil {
		return nil, err
	}
	// Convert the input before the check, because the definition, its schemas and the audit log use
	// the prompt's own arguments.
	if x.r.Variant == config.VariantFlat && !flat.IsOne(entry.Arguments) {
		if arguments, err = flat.Arguments(entry.Arguments, arguments); err != nil {
			return nil, err
		}
		params = params.With("arguments", arguments.JSON())
	}
	x.target.arguments = arguments
	checked, err := h.schemas.checkArguments(ctx, entry, arguments)
	if err != nil {
		return nil, err
	}
	if len(checked) < len(arguments) {
		x.target.arguments, params = checked, params.With("arguments", checked.JSON())
	}
	return params, nil
}

// callUpstream makes the call of a get, or continues a parked call with the client's replies.
func (h *Handler) callUpstream(ctx context.Context, x *run) (result upstream.Result, err error) {
	waiting, err := x.resumedFrom()
	switch {
	case err != nil:
		return result, err
	case waiting != "":
		x.outcome, err = h.parked.resume(ctx, x, waiting)
	default:
		if !x.target.linked {
			// Add overrides after the check of the arguments: clients may not send fixed arguments,
			// and the overrides were checked against the schemas at admission.
			x.call.params = withOverrides(x.call.entry, x.call.params)
		}
		x.outcome, err = x.era.ask(ctx, h, x)
	}
	if id := x.outcome.parked; id != "" {
		principal := x.caller.Principal.Key()
		x.scope.endParked = func() { h.parked.abandon(id, principal) }
	}
	return x.outcome.result, err
}

// afterGetError returns the result or error for the client after a get's call failed.
func (x *run) afterGetError(err error) (upstream.Result, error) {
	answer, ok := errors.AsType[*wire.Error](err)
	if x.target.linked && ok && answer.FromPeer() && isUnknown(err) {
		uri, _ := x.r.Params.Text("uri")
		// Use the gateway's error: the server's error may contain its own uri, but clients get only
		// sealed uris.
		return upstream.Result{}, x.era.unknownResource(uri)
	}
	x.call.withoutReplies = true
	return x.afterError(err, x.r.Capabilities)
}

// unknownPrompt returns the error for a prompt that does not exist or that the caller may not see.
func unknownPrompt(name string) *wire.Error {
	return wire.NewError(wire.InvalidParams, "Unknown prompt: "+name)
}
