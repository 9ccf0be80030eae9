package requests

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

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
	inputRequired, refusal := forModern(answer, declared)
	if inputRequired == nil {
		return upstream.Result{}, refusal
	}
	return upstream.Result{JSON: inputRequired.JSON(), Revision: r.Revision}, nil
}
