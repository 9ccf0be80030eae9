package requests

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Local is a caller in this process: a command, or an operator at the console. Its requests are not
// limited and not counted as a client's, and find the upstreams as they are.
type Local struct {
	// Principal is the one that the caller acts for. Nil is for one that may use every prompt:
	// whoever reads the configuration, or operates the gateway, can reach the upstreams anyway.
	Principal *policy.Principal
	// Operator is who is at the console; nil for a command.
	Operator *Operator
	// Reply answers elicitations of servers during a get, several at a time; nil for a caller that
	// cannot be asked.
	Reply Reply
}

// Operator is somebody who uses a prompt at the console: by the operator's own right, with the
// gateway's credential at the upstream, so it is recorded before the result is returned.
type Operator struct {
	// Client is the network address that the request came from.
	Client string
	// As is whose view was shown meanwhile, such as "user:ann"; empty for everybody's.
	As string
}

// Reply answers an elicitation that a server needs for a get. The error may be a [*wire.Error] with
// which the server is refused.
type Reply func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error)

// HandleLocal carries out a get or completion for a caller in this process. The result is that for
// a client of the newest legacy revision; an operator's error is the one that a client would get, a
// command's is the cause.
func (h *Handler) HandleLocal(
	ctx context.Context, caller Local, method string, params wire.Object,
) (jsontext.Value, error) {
	r := &Request{
		Received: time.Now(), Message: wire.Message{Method: method}, Params: params, Revision: wire.LatestLegacy,
		Snapshot: h.publisher.Current(), local: &caller,
	}
	if caller.Reply != nil {
		r.Capabilities = wire.Elicitation | wire.ElicitationForm | wire.ElicitationURL
		r.Relay, r.ServerRequest = NewRelayQueue(), caller.Reply
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
		if entry == nil {
			return nil, nil
		}
		return entry, entry.Owners
	}
	audience := s.Policy.Audience(*l.Principal)
	entry := s.Lookup(audience, name)
	if entry == nil {
		return nil, nil
	}
	return entry, entry.OwnersFor(audience)
}
