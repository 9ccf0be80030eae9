package requests

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// noCompletions is the result for a visible prompt whose upstream does not support completion.
const noCompletions = `{"completion":{"values":[]}}`

// complete returns the result of completion/complete.
func (h *Handler) complete(ctx context.Context, x *run) (Result, error) {
	ref := x.r.Params.Object("ref")
	if kind, _ := ref.Text("type"); kind != "ref/prompt" {
		return Result{}, invalidParams("ref must be a ref/prompt")
	}
	name, ok := ref.Text("name")
	if !ok {
		return Result{}, invalidParams("ref.name must be a string")
	}
	entry, owners, err := h.findPrompt(ctx, x, name)
	if err != nil {
		return Result{}, err
	}
	if err := h.limit(x); err != nil {
		return Result{}, err
	}
	params, err := checkCompletion(x.r.Params)
	if err != nil {
		return Result{}, err
	}
	params, err = completionParams(entry, params)
	if err != nil {
		return Result{}, err
	}
	// The result has the form in which a legacy server would return it. passedOn adds the members that
	// modern clients need.
	result := upstream.Result{JSON: jsontext.Value(noCompletions), Revision: wire.LatestLegacy}
	owners = slices.DeleteFunc(slices.Clone(owners), func(o catalog.Owner) bool {
		return !x.snapshot.Connector(o.Upstream).Completes()
	})
	// In the flat form, several arguments are one text, which servers cannot complete.
	if len(owners) == 0 || x.r.Variant == config.VariantFlat && !flat.IsOne(entry.Arguments) {
		return x.passedOn(result, inputNotAllowed)
	}
	x.call = newCall(x, entry, owners, params)
	x.call.relay = x.upstreamRelay(ctx)
	x.outcome, err = x.callOwners(ctx, &x.call.relay)
	refusal, refused := errors.AsType[*wire.Error](err)
	switch {
	case refused && refusal.Code == wire.MethodNotFound: // the same result as for a server without completions
	case err != nil:
		_, err = x.afterError(err, 0)
		return Result{}, err
	default:
		if result, err = x.screening.result(ctx, x.outcome.result); err != nil {
			return Result{}, err
		}
	}
	return x.passedOn(result, inputNotAllowed)
}

// checkCompletion refuses params of a completion that no revision's schema allows. Some servers do
// not answer such params, and the timeouts would open the circuit breaker for everyone. Optional
// members that are null, or an empty array (PHP's form of an empty object), are removed.
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

// withoutNull removes the member inner of the member outer if it is null or an empty array.
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
