package requests

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Peers are the peer replicas of a gateway. Messages are values that are JSON.
type Peers interface {
	// Name returns that of this replica.
	Name() string
	// Publish sends a message to a replica, or to all others if to is empty. Nobody confirms that
	// it arrives.
	Publish(to, topic string, message any)
	// Announce publishes a message to all others, and again after an absence of the store.
	Announce(topic string, message any)
	// Call sends a question to a replica, on behalf of a principal, and reads its answer. An error
	// means that there is none.
	Call(ctx context.Context, to, topic, principal string, question, answer any) error
	// Handle has a function called with each message under a topic. It returns the answer to a
	// call.
	Handle(topic string, handle func(ctx context.Context, read func(message any) error) (answer any))
}

// NewID returns a random id that names this replica, if it has peers: ID.REPLICA.
func NewID(peers Peers) string {
	if peers == nil {
		return rand.Text()
	}
	return rand.Text() + "." + peers.Name()
}

// PeerIn returns the other replica that an id of this gateway names, as in ID.REPLICA; empty where
// there is none.
func PeerIn(id string, peers Peers) string {
	if peers == nil {
		return ""
	}
	_, name, _ := strings.Cut(id, ".")
	if self := peers.Name(); name == self || len(name) != len(self) { // or a client made it up
		return ""
	}
	return name
}

// Topics of messages to the replica that has a parked get.
const (
	topicResume  = "resume"
	topicAbandon = "abandon"
)

// resumption is what a replica asks of the one that has a parked get.
type resumption struct {
	// Name is that of the get, Principal that of its caller.
	Name      string         `json:"name"`
	Principal string         `json:"principal"`
	Replies   jsontext.Value `json:"replies,omitzero"`
}

// resumed is the answer.
type resumed struct {
	// Error is there instead of a result; FromServer says that it is the server's own.
	Error      jsontext.Value `json:"error,omitzero"`
	FromServer bool           `json:"from_server,omitzero"`
	Owner      string         `json:"owner,omitzero"`
	// Revision and Parked are of the outcome of a get that has not failed.
	Result   jsontext.Value `json:"result,omitzero"`
	Revision string         `json:"revision,omitzero"`
	Parked   string         `json:"parked,omitzero"`
}

// handlePeers has this replica resume gets that are parked here for clients that have come back to
// another one.
func (p *parked) handlePeers() {
	p.peers.Handle(topicResume, func(ctx context.Context, read func(any) error) any {
		return p.answerResume(ctx, read)
	})
	p.peers.Handle(topicAbandon, func(_ context.Context, read func(any) error) any {
		var asked resumption
		if read(&asked) == nil {
			p.abandonHere(asked.Name, asked.Principal)
		}
		return nil
	})
}

// answerResume resumes a get that is parked here. What the server relays meanwhile is lost.
func (p *parked) answerResume(ctx context.Context, read func(any) error) resumed {
	var asked resumption
	err := read(&asked)
	var out outcome
	if err == nil {
		out, err = p.resumeHere(ctx, &Request{}, asked.Name, asked.Principal, wire.Members(asked.Replies))
	}
	if err != nil {
		refusal := wireError(ctx, p.logger, err)
		return resumed{Error: refusal.JSON(), FromServer: refusal.FromPeer(), Owner: out.owner}
	}
	return resumed{Result: out.result.JSON, Owner: out.owner, Revision: out.result.Revision, Parked: out.parked}
}

// resume hands the client's replies to a parked get, at whichever replica, and waits for it.
func (p *parked) resume(ctx context.Context, r *Request, name string) (outcome, error) {
	replies, principal := r.Params.Object(memberResponses), r.Caller.Principal.Key()
	if err := checkReplies(replies); err != nil {
		return outcome{}, err
	}
	replica := PeerIn(name, p.peers)
	if replica == "" {
		return p.resumeHere(ctx, r, name, principal, replies)
	}
	var got resumed
	err := p.peers.Call(ctx, replica, topicResume, principal, resumption{name, principal, replies.JSON()}, &got)
	switch {
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	case err != nil: // the replica is gone, and the get with it
		return outcome{}, errState()
	case got.Error != nil:
		return outcome{owner: got.Owner}, readError(got.Error, got.FromServer)
	}
	result := upstream.Result{JSON: got.Result, Revision: got.Revision}
	return outcome{owner: got.Owner, parked: got.Parked, result: result}, nil
}

// readError returns the error in an answer, which may be the server's own.
func readError(payload jsontext.Value, fromServer bool) error {
	// ReadError takes it for a server's own. One of the gateway's is made anew below, without what it
	// was read from.
	refusal, err := wire.ReadError(payload)
	if err != nil {
		return err
	}
	if fromServer {
		return refusal
	}
	return wire.NewError(refusal.Code, refusal.Message).WithData(refusal.Data)
}

// abandon ends a parked get, at whichever replica, that its client will not come back to.
func (p *parked) abandon(name, principal string) {
	if replica := PeerIn(name, p.peers); replica != "" {
		p.peers.Publish(replica, topicAbandon, resumption{Name: name, Principal: principal})
		return
	}
	p.abandonHere(name, principal)
}
