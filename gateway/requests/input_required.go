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
// revision, server requests and replies pass unchanged. The upstream's requestState does not: it is
// sealed, so that whatever comes back under that name was issued here, to this caller, for this
// prompt and these arguments, and names the upstream to call again. A client of the legacy era is
// sent the server requests during its get, and the gateway repeats the call; for a modern client
// and a legacy upstream see parked.go.

// stateLifetime is how long a client may take to come back with its replies.
const stateLifetime = 10 * time.Minute

// Members of params and results that belong to the round trips.
const (
	memberState     = "requestState"
	memberRequests  = "inputRequests"
	memberResponses = "inputResponses"
)

const (
	// maxRounds bounds how often a get of a legacy client is repeated because a modern upstream
	// requires more input.
	maxRounds = 8
	// roundPause is the time between two rounds if the upstream only asked to be called again.
	roundPause = 100 * time.Millisecond
)

// anotherRound reports whether the call of a legacy client's get, which ended in err, has to be
// made again: each time a modern upstream requires input, the client is asked, and the upstream is
// called with its replies.
func (c *call) anotherRound(ctx context.Context, r *Request, round int, err error) (again bool, _ error) {
	// The error does not wrap ErrRetired, for which the whole get would begin again, and with it the
	// server requests that the client has replied to.
	if round > 0 && errors.Is(err, upstream.ErrRetired) {
		err = &upstream.Unavailable{Upstream: c.owners[0].Upstream, Reason: snapshot.Starting, Err: errReplacedMeanwhile}
	}
	if err != nil || !wire.Modern(c.result.Revision) {
		return false, err
	}
	return c.collectInput(ctx, r, round == maxRounds)
}

var errReplacedMeanwhile = errors.New("a reload replaced it while the client was asked for input")

// collectInput reports whether the call has to be repeated, with the replies to what a modern
// upstream requires. It is an error if the upstream requires more after the last round.
func (c *call) collectInput(ctx context.Context, r *Request, last bool) (again bool, err error) {
	result, err := wire.ParseObject(c.result.JSON)
	if kind, _ := result.Text("resultType"); err != nil || kind != wire.ResultInputRequired {
		return false, err
	}
	// Before the client is asked: nobody should reply to what is then thrown away.
	if last {
		return false, wire.NewError(wire.InternalError, "The upstream required input too many times")
	}
	if err := checkServerRequests(r, c.owner, result); err != nil {
		return false, err
	}
	replies, err := collectReplies(ctx, r, result.Object(memberRequests))
	if err != nil {
		return false, err
	}
	// Replies and state are for the server that asked. A clone, since the owners are the catalog's.
	c.owners = slices.DeleteFunc(slices.Clone(c.owners), func(o catalog.Owner) bool { return o.Upstream != c.owner })
	c.params = c.params.Without(func(name string) bool { return name == memberState || name == memberResponses })
	if len(replies) > 0 {
		c.params = c.params.With(memberResponses, replies.JSON())
	}
	if state := result.Get(memberState); state != nil {
		c.params = c.params.With(memberState, state)
	}
	return true, nil
}

// collectReplies sends a modern upstream's server requests to a legacy client and returns the
// replies.
func collectReplies(ctx context.Context, r *Request, serverRequests wire.Object) (wire.Object, error) {
	if len(serverRequests) == 0 {
		select {
		case <-time.After(roundPause):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// The replies have the keys of the server requests, and each goroutine writes into an element
	// of its own.
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
			replies[i].Value, err = r.sendServerRequest(ctx, method, object.Get("params"))
			return err
		})
	}
	err := group.Wait()
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		// With its own code, a client's refusal would pass for one of its get, such as an unknown
		// method.
		return nil, inputRefused(refusal.Message)
	}
	return replies, err
}

// requestState is the content of a sealed requestState, which takes the place of the upstream's
// own.
type requestState struct {
	// Principal, Prompt, Params and Variant are those of the get; a repetition must have the same.
	Principal, Prompt, Params string
	Variant                   config.Variant `json:",omitempty"`
	// Owner is the server that requires the input, see [snapshot.Generation.ServerID].
	Owner string
	// Expires is in seconds since 1970.
	Expires int64
	// Own is the upstream's state as it was sent; nil where it sent none.
	Own []byte
	// Waiting names the parked get that continues with the replies; empty where the upstream is
	// called again.
	Waiting string
	// Anew is set if the upstream is called again without the replies, see [forModern].
	Anew bool `json:",omitempty"`
}

// errState answers a get whose requestState was not issued for it.
func errState() *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote("state"))
	return wire.NewError(wire.InvalidParams, "Invalid requestState: repeat the get without it").WithData(data.JSON())
}

// inputRequired returns the input_required result for the client, with its state sealed. It is an
// error if the client did not declare what the upstream requires.
func (c *call) inputRequired(r *Request, result wire.Object) (wire.Object, error) {
	if err := checkServerRequests(r, c.owner, result); err != nil {
		return nil, err
	}
	state, err := json.Marshal(requestState{
		Principal: r.Caller.Principal.Key(), Prompt: c.entry.Name, Params: paramsDigest(r.Params), Variant: r.Variant,
		Owner: c.snapshot.ServerID(c.owner), Expires: time.Now().Add(stateLifetime).Unix(),
		Own: result.Get(memberState), Waiting: c.parked, Anew: c.anew,
	})
	if err != nil {
		return nil, err
	}
	return result.With(memberState, wire.Quote(c.snapshot.RequestStates.Seal(state))), nil
}

// IsRepeated reports whether the client has been asked for input, and sends its request again.
func (r *Request) IsRepeated() bool { return r.Params.Get(memberState) != nil }

// ParkedID returns the id of the parked get that the request comes back to; empty for any other
// request.
func (r *Request) ParkedID() string {
	isGet := r.Message.Method == wire.PromptsGet || r.Message.Method == wire.ResourcesRead
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

// resumeFrom makes the call continue from the get's requestState.
func (c *call) resumeFrom(r *Request) error {
	token, _ := wire.Text(r.Params.Get(memberState))
	state, ok := openState(c.snapshot, token)
	if !ok || !state.fits(r, c.entry) {
		return errState()
	}
	// The call that waits has its owner and params already.
	if state.Waiting != "" {
		c.parked = state.Waiting
		return nil
	}
	at := slices.IndexFunc(c.owners, func(o catalog.Owner) bool {
		return c.snapshot.ServerID(o.Upstream) == state.Owner
	})
	if at < 0 {
		return errState()
	}
	c.owners = c.owners[at : at+1]
	c.params = c.params.Without(func(name string) bool {
		return name == memberState || name == memberResponses && state.Anew
	})
	switch {
	case state.Anew:
		return checkAccepted(r.Params.Object(memberResponses))
	case state.Own != nil:
		c.params = c.params.With(memberState, state.Own)
	}
	return nil
}

// checkAccepted refuses a get whose client did not accept what it was asked for: the upstream would
// only refuse it once more.
func checkAccepted(replies wire.Object) error {
	for _, reply := range replies {
		if action, _ := wire.Members(reply.Value).Text("action"); action != "accept" {
			return inputRefused(action)
		}
	}
	return nil
}

// inputRefused is the error of a get whose client refused, with some words, to be asked.
func inputRefused(words string) *wire.Error {
	return wire.NewError(wire.InternalError, "The client did not provide the required input: "+words)
}

// fits reports whether a state was issued for this caller, prompt and arguments, and has not
// expired.
func (s *requestState) fits(r *Request, entry *catalog.Entry) bool {
	return s.Principal == r.Caller.Principal.Key() && s.Prompt == entry.Name && s.Params == paramsDigest(r.Params) && s.Variant == r.Variant &&
		time.Now().Unix() < s.Expires
}

// paramsDigest is equal for two gets of one prompt with the same arguments. Members that belong to
// one round trip, and the spelling of the JSON, do not count.
func paramsDigest(params wire.Object) string {
	salient := params.Without(func(name string) bool {
		return name == memberState || name == memberResponses || name == "_meta"
	}).JSON()
	// Raw integers: as floating point numbers, those beyond 2^53 would equal others.
	if err := salient.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return "" // unreachable: the params were parsed before
	}
	sum := sha256.Sum256(salient)
	return hex.EncodeToString(sum[:])
}

// checkServerRequests returns the error of server requests that the client, or any client, cannot
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
// declare. The error is that of a server request that the protocol does not know.
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
