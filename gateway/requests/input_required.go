package requests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A get may end in an input_required result, which the client answers by repeating the get with its
// replies (2026-07-28, Multi Round-Trip Requests). Between a client and an upstream of that
// revision, server requests and replies pass unchanged, but the upstream's requestState is sealed.
// The seal covers the caller, the prompt, the arguments and the upstream, so that a client can
// return the state only with the same get.
//
// A legacy client gets the server requests during its get, and the gateway repeats the call. For a
// modern client and a legacy upstream see parked.go.

// stateLifetime is the time that a client has to return with its replies. A single reply has
// [ReplyBound].
const stateLifetime = 10 * time.Minute

// Members of params and results for the round trips.
const (
	memberState     = "requestState"
	memberRequests  = "inputRequests"
	memberResponses = "inputResponses"
)

const (
	// maxRounds bounds how often a legacy client's get is repeated because a modern upstream
	// requires more input.
	maxRounds = 8
	// roundPause is the pause between two rounds if the upstream requests another call but no
	// input.
	roundPause = 100 * time.Millisecond
)

// callRepeatedly makes the call of a legacy client's get. Each time a modern upstream requires
// input, it asks the client and calls the upstream again with the replies.
func callRepeatedly(ctx context.Context, _ *Handler, x *run) (outcome, error) {
	x.call.relay = x.upstreamRelay(ctx)
	for round := 0; ; round++ {
		o, err := x.callOwners(ctx, &x.call.relay)
		// Do not wrap ErrRetired: the whole get would begin again, with the server requests to
		// which the client has already replied.
		if round > 0 && errors.Is(err, upstream.ErrRetired) {
			err = &upstream.Unavailable{
				Upstream: x.call.owners[0].Upstream, Reason: snapshot.Starting, Err: errReplacedMeanwhile,
			}
		}
		if err != nil || !wire.Modern(o.result.Revision) {
			return o, err
		}
		if again, err := x.collectInput(ctx, &o, round == maxRounds); err != nil || !again {
			return o, err
		}
	}
}

var errReplacedMeanwhile = errors.New("a reload replaced it while the client was asked for input")

// callOrPark makes the call of a modern client's get. The get is parked if a legacy upstream sends
// server requests during it.
func callOrPark(ctx context.Context, h *Handler, x *run) (outcome, error) {
	if x.r.Relay != nil && x.r.Capabilities != 0 {
		return h.parked.begin(ctx, x, x.callOwners)
	}
	x.call.relay = x.upstreamRelay(ctx)
	return x.callOwners(ctx, &x.call.relay)
}

// collectInput asks the client for the input that a modern upstream requires, and reports whether
// to call again with the replies. If last is true, required input is an error.
func (x *run) collectInput(ctx context.Context, o *outcome, last bool) (again bool, err error) {
	result, err := wire.ParseObject(o.result.JSON)
	if kind, _ := result.Text("resultType"); err != nil || kind != wire.ResultInputRequired {
		return false, err
	}
	// Fail before the client is asked, because its reply would be discarded.
	if last {
		return false, wire.NewError(wire.InternalError, "The upstream required input too many times")
	}
	if err := checkServerRequests(x.r, o.owner, result); err != nil {
		return false, err
	}
	replies, err := x.collectReplies(ctx, result.Object(memberRequests))
	if err != nil {
		return false, err
	}
	c := &x.call
	// Only the server that asked may get the replies and its state. Clone: the owners belong to the
	// catalog.
	c.owners = slices.DeleteFunc(slices.Clone(c.owners), func(owner catalog.Owner) bool { return owner.Upstream != o.owner })
	c.params = c.params.Without(func(name string) bool { return name == memberState || name == memberResponses })
	if len(replies) > 0 {
		c.params = c.params.With(memberResponses, replies.JSON())
	}
	if state := result.Get(memberState); state != nil {
		// Clone: the next result uses the memory of this one.
		c.params = c.params.With(memberState, state.Clone())
	}
	return true, nil
}

// collectReplies sends a modern upstream's server requests to a legacy client, and returns the
// replies.
func (x *run) collectReplies(ctx context.Context, serverRequests wire.Object) (wire.Object, error) {
	if len(serverRequests) == 0 {
		select {
		case <-time.After(roundPause):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// A reply has the key of its server request. Each goroutine writes to its own element.
	replies := slices.Clone(serverRequests)
	group, ctx := errgroup.WithContext(ctx)
	for i, request := range serverRequests {
		group.Go(func() (err error) {
			defer recovered(&err)
			object, err := wire.ParseObject(request.Value)
			if err != nil {
				return err
			}
			method, _ := object.Text("method")
			replies[i].Value, err = x.sendServerRequest(ctx, method, object.Get("params"))
			return err
		})
	}
	err := group.Wait()
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		// Replace the code: a code such as "unknown method" would look like an error of the get.
		return nil, inputRefused(refusal.Message)
	}
	return replies, err
}

// requestState is the content of a sealed requestState, which replaces the upstream's.
type requestState struct {
	// Principal, Prompt, Params (a digest) and Variant identify the get. Only the same get may be
	// repeated with the state.
	Principal, Prompt, Params string
	Variant                   config.Variant `json:",omitempty"`
	// Owner is the server that requires the input, see [snapshot.Generation.ServerID].
	Owner string
	// Expires is in seconds since 1970.
	Expires int64
	// Own is the upstream's own state, unchanged. It is nil if the upstream sent no state.
	Own []byte
	// Waiting is the id of the parked get that continues with the replies. It is empty if the upstream
	// is called again.
	Waiting string
	// Anew is true if the upstream is called again without the replies, see [forModern].
	Anew bool `json:",omitempty"`
}

// errState returns the error for a get whose requestState was not issued for it or has expired.
func errState() *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote("state"))
	return wire.NewError(wire.InvalidParams, "Invalid requestState: repeat the get without it").WithData(data.JSON())
}

// inputRequired returns the input_required result for the client, with a sealed state. If the
// client did not declare the required capabilities, it returns an error.
func (x *run) inputRequired(result wire.Object) (wire.Object, error) {
	x.asks = true
	r, owner := x.r, x.outcome.owner
	if err := checkServerRequests(r, owner, result); err != nil {
		return nil, err
	}
	state, err := json.Marshal(requestState{
		Principal: x.caller.Principal.Key(), Prompt: x.call.entry.Name, Params: paramsDigest(r.Params), Variant: r.Variant,
		Owner: x.snapshot.ServerID(owner), Expires: time.Now().Add(stateLifetime).Unix(),
		Own: result.Get(memberState), Waiting: x.outcome.parked, Anew: x.call.withoutReplies,
	})
	if err != nil {
		return nil, err
	}
	return result.With(memberState, wire.Quote(x.snapshot.RequestStates.Seal(state))), nil
}

// IsRepeated reports whether the request has a requestState, which means that the client was asked for
// input and repeats the request.
func (r *Request) IsRepeated() bool { return r.Params.Get(memberState) != nil }

// ParkedID returns the id of the parked get that the request continues, or "" if it continues none.
func (r *Request) ParkedID() string {
	isGet := r.Message.Method == wire.PromptsGet || r.Message.Method == wire.ResourcesRead
	// A legacy client is asked during its get and does not repeat it.
	if !isGet || !r.Modern() || !r.IsRepeated() {
		return ""
	}
	token, _ := wire.Text(r.Params.Get(memberState))
	state, _ := openState(r.Snapshot, token)
	return state.Waiting
}

func openState(s *snapshot.Snapshot, token string) (state requestState, ok bool) {
	content, err := s.RequestStates.Open(token)
	return state, err == nil && json.Unmarshal(content, &state) == nil
}

// resumedFrom checks the get's requestState, if it has one. It restricts the call to the owner that
// issued the state, or returns the id of the parked get to continue.
func (x *run) resumedFrom() (waiting string, err error) {
	r, c := x.r, &x.call
	// In a legacy client's params, these members have no meaning.
	if !r.Modern() || r.Params.Get(memberState) == nil && r.Params.Get(memberResponses) == nil {
		return "", nil
	}
	token, _ := wire.Text(r.Params.Get(memberState))
	state, ok := openState(x.snapshot, token)
	if !ok || !state.fits(x) {
		return "", errState()
	}
	// The parked call already has its owner and params.
	if state.Waiting != "" {
		return state.Waiting, nil
	}
	at := slices.IndexFunc(c.owners, func(o catalog.Owner) bool {
		return x.snapshot.ServerID(o.Upstream) == state.Owner
	})
	if at < 0 {
		return "", errState()
	}
	c.owners = c.owners[at : at+1]
	c.params = c.params.Without(func(name string) bool {
		return name == memberState || name == memberResponses && state.Anew
	})
	switch {
	case state.Anew:
		return "", checkAccepted(r.Params.Object(memberResponses))
	case state.Own != nil:
		c.params = c.params.With(memberState, state.Own)
	}
	return "", nil
}

// checkAccepted refuses a get whose client declined to provide the input, because the upstream
// would refuse the get again.
func checkAccepted(replies wire.Object) error {
	for _, reply := range replies {
		if action, _ := wire.Members(reply.Value).Text("action"); action != "accept" {
			return inputRefused(action)
		}
	}
	return nil
}

// inputRefused returns the error for a get whose client did not provide the input. words are the
// client's message or action.
func inputRefused(words string) *wire.Error {
	return wire.NewError(wire.InternalError, "The client did not provide the required input: "+words)
}

// fits reports whether a state was issued for the caller, prompt, variant and arguments of this
// request, and has not expired.
func (s *requestState) fits(x *run) bool {
	return s.Principal == x.caller.Principal.Key() && s.Prompt == x.call.entry.Name && s.Params == paramsDigest(x.r.Params) &&
		s.Variant == x.r.Variant && time.Now().Unix() < s.Expires
}

// paramsDigest returns a digest that is equal for two gets of one prompt with equal arguments. It
// ignores the members that change with each round trip, and the formatting of the JSON.
func paramsDigest(params wire.Object) string {
	salient := params.Without(func(name string) bool {
		return name == memberState || name == memberResponses || name == "_meta"
	}).JSON()
	// Keep integers as written: as floating-point numbers, integers beyond 2^53 could become equal.
	if err := salient.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return "" // unreachable: the params were parsed before
	}
	sum := sha256.Sum256(salient)
	return hex.EncodeToString(sum[:])
}

// checkServerRequests returns an error for server requests that this client, or any client, cannot
// answer.
func checkServerRequests(r *Request, owner string, result wire.Object) error {
	missing, err := missingCapabilities(result.Object(memberRequests), r.Capabilities)
	if err != nil {
		return &upstream.Unavailable{Upstream: owner, Reason: upstream.BadResponse, Err: err}
	}
	if missing != 0 {
		data := wire.Object{}.With("requiredCapabilities", missing.Object().JSON())
		return wire.NewError(wire.MissingClientCapability, "Missing required client capability").WithData(data.JSON())
	}
	return nil
}

// missingCapabilities returns the capabilities that the server requests need and the client did not
// declare. An unknown server request is an error.
func missingCapabilities(
	serverRequests wire.Object, declared wire.Capabilities,
) (missing wire.Capabilities, err error) {
	for _, request := range serverRequests {
		object, err := wire.ParseObject(request.Value)
		if err != nil {
			return 0, err
		}
		method, _ := object.Text("method")
		needed := wire.NeededCapability(method, object.Object("params"))
		if needed == 0 {
			return 0, fmt.Errorf("no client knows the server request %q", method)
		}
		if !declared.Has(needed) {
			missing |= needed
		}
	}
	return missing, nil
}
