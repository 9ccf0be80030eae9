package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A get may end in questions to the client, which then asks again with the answers (2026-07-28, Multi Round-Trip
// Requests). Questions and answers pass as they are. The server's requestState does not: it is sealed, so that whatever
// comes back under that name was given out here, to this caller, for this prompt and these arguments, and it names the
// upstream that has to be asked again.

// stateLife is how long a client may take to answer.
const stateLife = 10 * time.Minute

// statePurpose keeps a sealed requestState from passing as any other token.
const statePurpose = "request state"

// Members of params and results that belong to the round trips.
const (
	memberState     = "requestState"
	memberRequests  = "inputRequests"
	memberResponses = "inputResponses"
)

// errState is the answer to a retry whose requestState is not one that was given out for it.
func errState() *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote("state"))
	return wire.NewError(wire.InvalidParams, "Invalid requestState: begin again without it").WithData(data.JSON())
}

// requestState is what is sealed in place of an upstream's own.
type requestState struct {
	// A retry must have the same as the get that was asked back.
	Principal, Prompt, Params string
	// Owner is the upstream that asked.
	Owner string
	// Expires is in seconds since 1970.
	Expires int64
	// Own is the upstream's state as it was spelled; nil where it has none.
	Own []byte
}

// retried returns the params and the owners of a get. For a retry these are the params with the upstream's own state,
// and the one owner that asked.
func (g *Gateway) retried(r *request, entry *catalog.Entry) (wire.Object, []catalog.Owner, error) {
	value := r.params.Get(memberState)
	if !r.modern() || (value == nil && r.params.Get(memberResponses) == nil) {
		return r.params, entry.Owners, nil
	}
	token, _ := wire.Text(value)
	var state requestState
	content, err := g.asking.Open(token)
	if err != nil || json.Unmarshal(content, &state) != nil {
		return nil, nil, errState()
	}
	at := slices.IndexFunc(entry.Owners, func(o catalog.Owner) bool { return o.Upstream == state.Owner })
	if !state.fits(r, entry) || at < 0 {
		return nil, nil, errState()
	}
	params := r.params.Without(func(name string) bool { return name == memberState })
	if state.Own != nil {
		params = r.params.With(memberState, state.Own)
	}
	return params, entry.Owners[at : at+1], nil
}

// fits reports whether a state was given out for this caller, prompt and arguments, not too long ago.
func (s *requestState) fits(r *request, entry *catalog.Entry) bool {
	return s.Principal == r.principal.Key() && s.Prompt == entry.Name && s.Params == paramsDigest(r.params) &&
		time.Now().Unix() < s.Expires
}

// paramsDigest is equal for two gets of the same prompt with the same arguments: what is of one round trip only, and
// how the JSON is spelled, does not count.
func paramsDigest(params wire.Object) string {
	salient := params.Without(func(name string) bool {
		return name == memberState || name == memberResponses || name == "_meta"
	}).JSON()
	if err := salient.Canonicalize(); err != nil {
		return "" // cannot be: the params were parsed
	}
	sum := sha256.Sum256(salient)
	return hex.EncodeToString(sum[:])
}

// asked returns the result with which an upstream asks for input, with its state sealed, or the error of one that asks
// for what the client cannot give.
func (g *Gateway) asked(r *request, entry *catalog.Entry, owner string, result wire.Object) (wire.Object, error) {
	if !r.modern() {
		return nil, wire.NewError(wire.InternalError, "The upstream asks for input, which cannot be relayed to this revision yet")
	}
	missing, err := missingCapabilities(result.Object(memberRequests), r.meta.Object(wire.MetaClientCapabilities))
	if err != nil {
		return nil, &upstream.Unavailable{Upstream: owner, Reason: upstream.BadResponse, Err: err}
	}
	if missing != nil {
		data := wire.Object{}.With("requiredCapabilities", missing.JSON())
		return nil, wire.NewError(wire.MissingClientCapability, "Missing required client capability").WithData(data.JSON())
	}
	sealed, err := json.Marshal(requestState{
		Principal: r.principal.Key(), Prompt: entry.Name, Params: paramsDigest(r.params),
		Owner: owner, Expires: time.Now().Add(stateLife).Unix(), Own: result.Get(memberState),
	})
	if err != nil {
		return nil, err
	}
	return result.With(memberState, wire.Quote(g.asking.Seal(sealed))), nil
}

// missingCapabilities returns what the client would have had to declare for the questions, or nil. The error is of
// questions that the protocol does not know.
func missingCapabilities(questions, declared wire.Object) (wire.Object, error) {
	var missing wire.Object
	for _, question := range questions {
		object, err := wire.ParseObject(question.Value)
		if err != nil {
			return nil, err
		}
		method, _ := object.Text("method")
		capability, part := needed(method, object.Object("params"))
		if capability == "" {
			return nil, fmt.Errorf("it asks the client for %q, which no client knows", method)
		}
		if has(declared, capability, part) {
			continue
		}
		parts := missing.Object(capability)
		if part != "" {
			parts = parts.With(part, jsontext.Value("{}"))
		}
		missing = missing.With(capability, parts.JSON())
	}
	return missing, nil
}

// needed returns the capability, and the part of it, that a client needs to answer a question; "" for none that is known.
func needed(method string, params wire.Object) (capability, part string) {
	switch method {
	case "elicitation/create":
		if mode, _ := params.Text("mode"); mode == "url" {
			return "elicitation", "url"
		}
		return "elicitation", "form"
	case "sampling/createMessage":
		if params.Get("tools") != nil {
			return "sampling", "tools"
		}
		return "sampling", ""
	case "roots/list":
		return "roots", ""
	}
	return "", ""
}

// has reports whether a client declared a capability with its part. An elicitation without any part is one by form.
func has(declared wire.Object, capability, part string) bool {
	value := declared.Get(capability)
	if value.Kind() != '{' {
		return false
	}
	parts := declared.Object(capability)
	return part == "" || parts.Get(part) != nil || (part == "form" && parts.Get("url") == nil)
}
