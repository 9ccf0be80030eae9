package requests

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Replicas are the replicas of a gateway.
type Replicas interface {
	// Name returns that of this replica.
	Name() string
	// Tell sends a message to a replica. Nobody confirms that it arrives.
	Tell(to, topic string, message []byte)
	// Ask sends a message to a replica and returns its answer. An error means that there is none.
	Ask(ctx context.Context, to, topic string, message []byte) (answer []byte, err error)
	// Serve has a function called with what another replica sends under a topic, and returns the answer for one that asks.
	Serve(topic string, f func(ctx context.Context, message []byte) (answer []byte))
}

// Topics of messages to the replica that has a parked get.
const (
	topicResume  = "resume"
	topicAbandon = "abandon"
)

// resumption is what a replica asks of the one that has a parked get.
type resumption struct {
	// Name is that of the get, Principal that of its caller.
	Name, Principal string
	// Replies is an object of JSON.
	Replies []byte
}

// resumed is the answer. JSON is as bytes, so that it arrives as it is.
type resumed struct {
	// Error is a JSON-RPC error, FromServer says that it is the server's own; the rest is the outcome of a get that has none.
	Error      []byte
	FromServer bool

	Owner, Revision, Parked string
	Result                  []byte
}

// serveReplicas has this replica resume gets that are parked here for clients that have come back to another one.
func (h *Handler) serveReplicas() {
	h.replicas.Serve(topicResume, func(ctx context.Context, message []byte) []byte {
		answer, _ := json.Marshal(h.resumeHere(ctx, message)) // bytes and strings
		return answer
	})
	h.replicas.Serve(topicAbandon, func(_ context.Context, message []byte) []byte {
		var asked resumption
		if json.Unmarshal(message, &asked) == nil {
			h.parked.abandon(asked.Name, asked.Principal)
		}
		return nil
	})
}

// resumeHere resumes a get that is parked here. What the server relays meanwhile is lost.
func (h *Handler) resumeHere(ctx context.Context, message []byte) resumed {
	var asked resumption
	err := json.Unmarshal(message, &asked)
	var out outcome
	if err == nil {
		out, err = h.parked.resume(ctx, &Request{}, asked.Name, asked.Principal, wire.Members(asked.Replies))
	}
	if err != nil {
		refusal := wireError(ctx, h.logger, err)
		return resumed{Error: refusal.JSON(), FromServer: refusal.FromPeer()}
	}
	return resumed{Owner: out.owner, Revision: out.result.Revision, Parked: out.parked, Result: out.result.JSON}
}

// resume hands the client's replies to a parked get, wherever it is, and waits for it.
func (h *Handler) resume(ctx context.Context, r *Request, name string) (outcome, error) {
	replies, principal := r.Params.Object(memberResponses), r.Caller.Principal.Key()
	if err := checkReplies(replies); err != nil {
		return outcome{}, err
	}
	replica := h.elsewhere(name)
	if replica == "" {
		return h.parked.resume(ctx, r, name, principal, replies)
	}
	message, _ := json.Marshal(resumption{Name: name, Principal: principal, Replies: replies.JSON()}) // bytes and strings
	answer, err := h.replicas.Ask(ctx, replica, topicResume, message)
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	var got resumed
	if err != nil || json.Unmarshal(answer, &got) != nil { // the replica is gone, and the get with it
		return outcome{}, errState()
	}
	if got.Error != nil {
		return outcome{}, got.error()
	}
	return outcome{owner: got.Owner, parked: got.Parked, result: upstream.Result{JSON: got.Result, Revision: got.Revision}}, nil
}

// error returns the error in an answer.
func (a *resumed) error() error {
	refusal, err := wire.ReadError(a.Error)
	if err != nil {
		return err
	}
	if a.FromServer {
		return refusal
	}
	return wire.NewError(refusal.Code, refusal.Message).WithData(refusal.Data)
}

// abandon ends a parked get, wherever it is, that its client will not come back to.
func (h *Handler) abandon(name, principal string) {
	replica := h.elsewhere(name)
	if replica == "" {
		h.parked.abandon(name, principal)
		return
	}
	message, _ := json.Marshal(resumption{Name: name, Principal: principal}) // strings
	h.replicas.Tell(replica, topicAbandon, message)
}

// elsewhere returns the other replica that the name of a parked get has in it; empty where there is none.
func (h *Handler) elsewhere(name string) string {
	if h.replicas == nil {
		return ""
	}
	_, replica, _ := strings.Cut(name, ".")
	if here := h.replicas.Name(); replica == here || len(replica) != len(here) { // or a client made it up
		return ""
	}
	return replica
}
