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
// limited, do not count as a client's, and do not wait for upstreams during startup.
type Local struct {
	// Principal is the principal that the caller acts for. If it is nil, the caller may use every
	// prompt: a person who reads the configuration, or operates the gateway, can reach the
	// upstreams anyway.
	Principal *policy.Principal
	// Operator is the operator at the console. It is nil for a command.
	Operator *Operator
}

// Operator is a person who uses a prompt at the console. Such a use needs no rule of the policy,
// and the upstream gets the gateway's credential, so it is recorded before the result is returned.
type Operator struct {
	// Client is the network address from which the operator's request came.
	Client string
	// As names the principal whose view the console showed, such as "user:ann". It is empty if the
	// console showed the view of all principals.
	As string
}

// HandleLocal carries out a get or completion for a caller in this process. The result has the form
// for a client of the newest legacy revision. An operator gets the same error as a client; a
// command gets the cause. Server requests are refused.
func (h *Handler) HandleLocal(
	ctx context.Context, caller Local, method string, params wire.Object,
) (jsontext.Value, error) {
	var scope Scope
	defer scope.Close()
	x := newRun(&Request{
		Received: time.Now(), Message: wire.Message{Method: method}, Params: params, Revision: wire.LatestLegacy,
		Snapshot: h.source.Current(), local: &caller,
	}, &scope)
	result, err := h.answer(ctx, x)
	if caller.Operator != nil {
		if refusal := h.conclude(ctx, x, &err); refusal != nil {
			err = refusal
		}
	}
	if err != nil {
		return nil, err
	}
	return x.encode(nil, result, h.info).JSON, nil
}

// lookup returns the prompt under an exposed name, and its owners. With a principal, it returns
// only a prompt that the principal sees, and only that principal's owners. It returns nil for
// skills and unknown names.
func (l *Local) lookup(s *snapshot.Snapshot, name string) (*catalog.Entry, []catalog.Owner) {
	entry, ownersOf := s.Catalog.Lookup(name), func(e *catalog.Entry) []catalog.Owner { return e.Owners }
	if l.Principal != nil {
		audience := s.Policy.Audience(*l.Principal)
		entry = s.Lookup(audience, name)
		ownersOf = func(e *catalog.Entry) []catalog.Owner { return e.OwnersFor(audience) }
	}
	if entry == nil || entry.Skill != nil {
		return nil, nil
	}
	return entry, ownersOf(entry)
}
