package gateway

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

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A get may end in questions to the client, which then asks again with the answers (2026-07-28, Multi Round-Trip
// Requests). Between a client and an upstream of that revision, questions and answers pass as they are. The server's requestState does not: it is sealed, so that whatever
// comes back under that name was given out here, to this caller, for this prompt and these arguments, and it names the
// upstream that has to be asked again. A client of the legacy era is asked meanwhile, and the upstream again by the
// gateway; for the other way round see waiting.go.

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
	// Owner is the server that asked, see [edition.server].
	Owner string
	// Expires is in seconds since 1970.
	Expires int64
	// Own is the upstream's state as it was spelled; nil where it has none.
	Own []byte
	// Waiting names the call that goes on with the answers, see [waits]; empty where the upstream is asked again.
	Waiting string
}

// turn is what a completion, or one get of perhaps several, asks of the upstreams, and what that brought.
type turn struct {
	// edition is the one in which the caller sees the entry.
	edition *edition
	entry   *catalog.Entry
	params  wire.Object
	owners  []catalog.Owner
	// waiting names the call that waits for what the get brings; empty for a new one.
	waiting string
	// question is what the owner is asked whose turn it is.
	question upstream.Request
	got      outcome
}

// turn returns what a get asks. For a retry these are the params with the upstream's own state, and the one owner that
// asked, or the call that waits.
func (e *edition) turn(r *request, entry *catalog.Entry) (*turn, error) {
	t := &turn{edition: e, entry: entry, question: upstream.Request{Method: wire.PromptsGet}, params: r.params, owners: entry.Owners}
	if r.modern() && (r.params.Get(memberState) != nil || r.params.Get(memberResponses) != nil) {
		return t, t.retry(r)
	}
	return t, nil
}

// retry makes a turn of a get one that goes on with what was asked before.
func (t *turn) retry(r *request) error {
	value := r.params.Get(memberState)
	token, _ := wire.Text(value)
	var state requestState
	content, err := t.edition.asking.Open(token)
	if err != nil || json.Unmarshal(content, &state) != nil {
		return errState()
	}
	at := slices.IndexFunc(t.owners, func(o catalog.Owner) bool { return t.edition.server(o.Upstream) == state.Owner })
	switch {
	case !state.fits(r, t.entry):
		return errState()
	case state.Waiting != "":
		t.waiting = state.Waiting
		return nil
	case at < 0:
		return errState()
	}
	t.owners = t.owners[at : at+1]
	t.params = r.params.Without(func(name string) bool { return name == memberState })
	if state.Own != nil {
		t.params = r.params.With(memberState, state.Own)
	}
	return nil
}

// server names the server that an upstream is: a reload may give the upstream's label to another one, which must not get to
// see the state and the answers that are for this one.
func (e *edition) server(u string) string {
	connector, ok := e.byName[u]
	if !ok {
		return ""
	}
	return digest([]byte(source(connector.Upstream())))
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

// ask sends a get to the owner of an entry, and to the client what is asked on the way.
func (g *Gateway) ask(ctx context.Context, r *request, t *turn) (err error) {
	switch {
	case t.waiting != "":
		t.got, err = g.waits.resume(ctx, r, t.waiting)
		return err
	case !r.modern():
		return g.askInRounds(ctx, r, t)
	case r.talk != nil && len(r.declared) > 0:
		return g.askAside(ctx, r, t)
	default:
		return t.ask(ctx, g.client(r))
	}
}

// askAside is ask for a client of the modern era that can be asked for input, see waiting.go.
func (g *Gateway) askAside(ctx context.Context, r *request, t *turn) (err error) {
	aside := *t // it may go on when this turn is over
	t.got, err = g.waits.begin(ctx, r, g.client(r), func(ctx context.Context, client *upstream.Relay) (outcome, error) {
		err := aside.ask(ctx, client)
		return aside.got, err
	})
	return err
}

// ask sends a request to the first healthy owner of an entry, and to the next where one did not answer at all, nor asked the
// client anything.
func (t *turn) ask(ctx context.Context, client *upstream.Relay) error {
	var first error
	owners := t.edition.healthyFirst(t.owners)
	for i := range owners {
		owner := &owners[i]
		err := t.askOwner(ctx, client, owner)
		if err == nil || !unanswered(err) {
			t.got.owner = owner.Upstream
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// unanswered reports whether another owner may be asked.
func unanswered(err error) bool {
	unavailable, ok := errors.AsType[*upstream.Unavailable](err)
	return ok && unavailable.Unanswered()
}

func (t *turn) askOwner(ctx context.Context, client *upstream.Relay, owner *catalog.Owner) (err error) {
	t.setQuestion(owner)
	t.got.result, err = t.edition.byName[owner.Upstream].Call(ctx, &t.question, client)
	return err
}

// setQuestion makes of the params what the owner is asked, who may have another name for the prompt.
func (t *turn) setQuestion(owner *catalog.Owner) {
	name := wire.Quote(owner.Name)
	switch t.question.Method {
	case wire.PromptsGet: // what names the target in Mcp-Name and on spans: only a get has that
		t.question.Name, t.question.Params = owner.Name, t.params.With("name", name)
	case wire.Complete:
		t.question.Params = t.params.With("ref", t.params.Object("ref").With("name", name).JSON())
	}
}

const (
	// maxRounds bounds how often a get of a legacy client is made, because a modern upstream asks for more input.
	maxRounds = 8
	// roundPause is the time between two rounds where the upstream asked nothing but to come again.
	roundPause = 100 * time.Millisecond
)

// askInRounds makes a get of a legacy client's. Where a modern upstream asks for input, the client is asked, and the
// upstream again with the answers.
func (g *Gateway) askInRounds(ctx context.Context, r *request, t *turn) error {
	client := g.client(r)
	for round := range maxRounds {
		err := t.ask(ctx, client)
		if err != nil && round > 0 && errors.Is(err, upstream.ErrRetired) { // begun again, it would ask the same questions
			err = &upstream.Unavailable{Upstream: t.owners[0].Upstream, Reason: starting, Err: err}
		}
		if err != nil || !wire.Modern(t.got.result.Revision) {
			return err
		}
		if again, err := t.answer(ctx, r); !again || err != nil {
			return err
		}
	}
	return wire.NewError(wire.InternalError, "The upstream asks for input again and again")
}

// answer reports whether a turn has to be taken again, with the answers to what a modern upstream has asked.
func (t *turn) answer(ctx context.Context, r *request) (again bool, err error) {
	result, err := wire.ParseObject(t.got.result.JSON)
	if kind, _ := result.Text("resultType"); err != nil || kind != wire.ResultInputRequired {
		return false, err
	}
	if err := mayAsk(r, t.got.owner, result); err != nil {
		return false, err
	}
	answers, err := answers(ctx, r, result.Object(memberRequests))
	if err != nil {
		return false, err
	}
	t.next(result, answers)
	return true, nil
}

// next makes a turn that ended in questions the next one.
func (t *turn) next(result, answers wire.Object) {
	t.owners = slices.DeleteFunc(slices.Clone(t.owners), func(o catalog.Owner) bool { return o.Upstream != t.got.owner })
	t.params = t.params.Without(func(name string) bool { return name == memberState || name == memberResponses })
	if len(answers) > 0 {
		t.params = t.params.With(memberResponses, answers.JSON())
	}
	if state := result.Get(memberState); state != nil {
		t.params = t.params.With(memberState, state)
	}
}

// answers puts a modern upstream's questions to a legacy client.
func answers(ctx context.Context, r *request, questions wire.Object) (wire.Object, error) {
	if len(questions) == 0 {
		select {
		case <-time.After(roundPause):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	all := slices.Clone(questions)
	group, ctx := errgroup.WithContext(ctx)
	for i, question := range questions {
		group.Go(func() error {
			object, err := wire.ParseObject(question.Value)
			if err != nil {
				return err
			}
			method, _ := object.Text("method")
			all[i].Value, err = r.answer(ctx, method, object.Get("params"))
			return err
		})
	}
	err := group.Wait()
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return nil, wire.NewError(wire.InternalError, "The upstream's question was not answered: "+refusal.Message)
	}
	return all, err
}

// mayAsk returns the error of an upstream's questions that the client cannot answer, or that nobody can.
func mayAsk(r *request, owner string, result wire.Object) error {
	missing, err := missingCapabilities(result.Object(memberRequests), r.declared)
	if err != nil {
		return &upstream.Unavailable{Upstream: owner, Reason: upstream.BadResponse, Err: err}
	}
	if missing != nil {
		data := wire.Object{}.With("requiredCapabilities", missing.JSON())
		return wire.NewError(wire.MissingClientCapability, "Missing required client capability").WithData(data.JSON())
	}
	return nil
}

// asked returns the result with which the client is asked for input, with its state sealed, or the error of questions
// to what the client cannot give.
func (e *edition) asked(r *request, entry *catalog.Entry, got outcome, result wire.Object) (wire.Object, error) {
	if err := mayAsk(r, got.owner, result); err != nil {
		return nil, err
	}
	sealed, err := json.Marshal(requestState{
		Principal: r.principal.Key(), Prompt: entry.Name, Params: paramsDigest(r.params),
		Owner: e.server(got.owner), Expires: time.Now().Add(stateLife).Unix(), Own: result.Get(memberState), Waiting: got.waiting,
	})
	if err != nil {
		return nil, err
	}
	return result.With(memberState, wire.Quote(e.asking.Seal(sealed))), nil
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
	case wire.Elicit:
		if mode, _ := params.Text("mode"); mode == "url" {
			return "elicitation", "url"
		}
		return "elicitation", "form"
	case wire.CreateMessage:
		if params.Get("tools") != nil {
			return "sampling", "tools"
		}
		return "sampling", ""
	case wire.RootsList:
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
