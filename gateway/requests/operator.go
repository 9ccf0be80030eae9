package requests

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// operatorSubject is the subject of operators in the audit log. It is unlike that of any principal, which begins with "user:".
const operatorSubject = "operator"

// Operator is somebody who gets a prompt in the console.
type Operator struct {
	// Client is the network address that the request came from.
	Client string
	// As is whose view was shown meanwhile, such as "user:ann"; empty for everybody's.
	As string
}

// GetAsOperator is [Handler.GetDirectly] for an operator, who may get every prompt, whoever sees it. It is the operator's own act,
// with the gateway's credential at the upstream, and recorded before the result is returned.
func (h *Handler) GetAsOperator(
	ctx context.Context, s *snapshot.Snapshot, o Operator, params wire.Object, reply Reply,
) (jsontext.Value, error) {
	return h.asOperator(ctx, s, o, wire.PromptsGet, params, func() (jsontext.Value, error) {
		return h.GetDirectly(ctx, s, nil, params, reply)
	})
}

// CompleteAsOperator is for completions what [Handler.GetAsOperator] is for gets.
func (h *Handler) CompleteAsOperator(
	ctx context.Context, s *snapshot.Snapshot, o Operator, params wire.Object,
) (jsontext.Value, error) {
	return h.asOperator(ctx, s, o, wire.Complete, params, func() (jsontext.Value, error) {
		return h.CompleteDirectly(ctx, s, nil, params)
	})
}

// asOperator does what an operator asks for, and records it. The error is the one that a client would get.
func (h *Handler) asOperator(
	ctx context.Context, s *snapshot.Snapshot, o Operator, method string, params wire.Object, do func() (jsontext.Value, error),
) (jsontext.Value, error) {
	if h.audit.Refuses() {
		return nil, errAudit()
	}
	begun := time.Now()
	result, err := do()
	var wireErr *wire.Error
	if err != nil {
		wireErr = wireError(ctx, h.logger, err)
	}
	now := time.Now()
	line := audit.Line{
		Time: now, Event: eventOf(method), Subject: operatorSubject, Client: o.Client, Via: "console", As: o.As, Duration: now.Sub(begun),
		Outcome: audit.OK,
	}
	r := &Request{Params: params, Snapshot: s, Message: wire.Message{Method: method}}
	name, _ := params.Text("name")
	if line.Event == audit.Completion {
		name, _ = params.Object("ref").Text("name")
	}
	if r.target.entry = s.Catalog.Lookup(name); r.target.entry != nil {
		line.Upstream = r.target.entry.Owners[0].Upstream
	} else {
		r.target.notFound = true
	}
	if err != nil {
		line.Outcome, line.Code, line.Reason = outcomeOf(ctx, r, &Response{}, err), wireErr.Code, ownReason(wireErr)
		if unavailable, ok := errors.AsType[*upstream.Unavailable](err); ok {
			line.Upstream = unavailable.Upstream
		}
	}
	h.describeTarget(&line, r)
	if h.audit.Write(&line) != nil {
		return nil, errAudit()
	}
	if err != nil {
		return nil, wireErr
	}
	return result, nil
}
