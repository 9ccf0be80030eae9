package requests

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Reply answers an elicitation that a server needs for a get. The error may be a [*wire.Error] with which the server is refused.
type Reply func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error)

// GetDirectly gets a prompt for a caller in this process, such as a command: for a principal or, if it is nil, without
// regard to policy, since whoever reads the configuration can reach the upstreams anyway. The result is that for a
// client of the newest legacy revision. If reply is nil, the caller has no capabilities; else it answers elicitations, several at
// a time.
func (h *Handler) GetDirectly(
	ctx context.Context, s *snapshot.Snapshot, principal *policy.Principal, params wire.Object, reply Reply,
) (jsontext.Value, error) {
	name, _ := params.Text("name")
	entry, owners := direct(s, principal, name)
	if entry == nil {
		return nil, unknownPrompt(name)
	}
	arguments, err := readArguments(params)
	if err != nil {
		return nil, err
	}
	if err := h.schemas.checkArguments(ctx, entry, arguments); err != nil {
		return nil, err
	}
	r := &Request{
		Revision: wire.LatestLegacy, Snapshot: s, Message: wire.Message{Method: wire.PromptsGet},
		screening: newScreening(h.logger, entry, s.Screen(entry.Team)),
	}
	relay := &upstream.Relay{}
	if reply != nil {
		r.Capabilities = wire.Elicitation | wire.ElicitationForm | wire.ElicitationURL
		r.Relay, r.ServerRequest = NewRelayQueue(), reply
		relay = r.upstreamRelay(ctx)
	}
	c := &call{
		snapshot: s, entry: entry, params: withOverrides(entry, params), owners: owners,
		request: upstream.Request{Method: wire.PromptsGet},
	}
	for round, again := 0, true; again; round++ {
		err := c.callOwners(ctx, relay)
		if again = false; reply != nil {
			again, err = c.anotherRound(ctx, r, round, err)
		}
		if err != nil {
			return nil, err
		}
	}
	result, err := r.screening.result(ctx, c.result)
	if err != nil {
		return nil, err
	}
	var out Response
	err = out.appendResult(r, result, h.info, inputNotAllowed)
	return out.JSON, err
}

// CompleteDirectly is for completions what [Handler.GetDirectly] is for gets.
func (h *Handler) CompleteDirectly(
	ctx context.Context, s *snapshot.Snapshot, principal *policy.Principal, params wire.Object,
) (jsontext.Value, error) {
	name, _ := params.Object("ref").Text("name")
	entry, owners := direct(s, principal, name)
	if entry == nil {
		return nil, unknownPrompt(name)
	}
	params, err := completionParams(entry, params)
	if err != nil {
		return nil, err
	}
	owners = slices.DeleteFunc(slices.Clone(owners), func(o catalog.Owner) bool { return !s.Connector(o.Upstream).Completes() })
	if len(owners) == 0 {
		return jsontext.Value(noCompletions), nil
	}
	c := &call{snapshot: s, entry: entry, params: params, owners: owners, request: upstream.Request{Method: wire.Complete}}
	if err := c.callOwners(ctx, &upstream.Relay{}); err != nil {
		return nil, err
	}
	screening := newScreening(h.logger, entry, s.Screen(entry.Team))
	result, err := screening.result(ctx, c.result)
	return result.JSON, err
}

// direct returns the entry under a name and its owners: those that a principal sees or, if it is nil, all.
func direct(s *snapshot.Snapshot, principal *policy.Principal, name string) (*catalog.Entry, []catalog.Owner) {
	if principal == nil {
		entry := s.Catalog.Lookup(name)
		if entry == nil {
			return nil, nil
		}
		return entry, entry.Owners
	}
	audience := s.Policy.Audience(*principal)
	entry := s.Lookup(audience, name)
	if entry == nil {
		return nil, nil
	}
	return entry, entry.OwnersFor(audience)
}
