package requests

import (
	"bytes"
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
}

// resumed is the answer.
type resumed struct {
	// Failed says that there is an error instead of a result, and FromServer that it is the server's own.
	Failed, FromServer bool
	// Owner, Revision and Parked are of the outcome of a get that has not failed.
	Owner, Revision, Parked string
}

// pack returns a line of JSON with what is said about a payload, and the payload, which arrives as it is.
func pack[T resumption | resumed](about T, payload []byte) []byte {
	line, _ := json.Marshal(about) // strings and truth values
	return append(append(line, '\n'), payload...)
}

// unpack reads what pack has written.
func unpack[T resumption | resumed](message []byte, about *T) (payload []byte, err error) {
	line, payload, _ := bytes.Cut(message, []byte{'\n'})
	return payload, json.Unmarshal(line, about)
}

// serveReplicas has this replica resume gets that are parked here for clients that have come back to another one.
func (p *parked) serveReplicas() {
	p.replicas.Serve(topicResume, func(ctx context.Context, message []byte) []byte {
		return pack(p.answerResume(ctx, message))
	})
	p.replicas.Serve(topicAbandon, func(_ context.Context, message []byte) []byte {
		var asked resumption
		if _, err := unpack(message, &asked); err == nil {
			p.abandonHere(asked.Name, asked.Principal)
		}
		return nil
	})
}

// answerResume resumes a get that is parked here for another replica. What the server relays meanwhile is lost.
func (p *parked) answerResume(ctx context.Context, message []byte) (answer resumed, resultOrError []byte) {
	var asked resumption
	replies, err := unpack(message, &asked)
	var out outcome
	if err == nil {
		out, err = p.resumeHere(ctx, &Request{}, asked.Name, asked.Principal, wire.Members(replies))
	}
	if err != nil {
		refusal := wireError(ctx, p.logger, err)
		return resumed{Failed: true, FromServer: refusal.FromPeer()}, refusal.JSON()
	}
	return resumed{Owner: out.owner, Revision: out.result.Revision, Parked: out.parked}, out.result.JSON
}

// resume hands the client's replies to a parked get, wherever it is, and waits for it.
func (p *parked) resume(ctx context.Context, r *Request, name string) (outcome, error) {
	replies, principal := r.Params.Object(memberResponses), r.Caller.Principal.Key()
	if err := checkReplies(replies); err != nil {
		return outcome{}, err
	}
	replica := p.replicaOf(name)
	if replica == "" {
		return p.resumeHere(ctx, r, name, principal, replies)
	}
	answer, err := p.replicas.Ask(ctx, replica, topicResume, pack(resumption{Name: name, Principal: principal}, replies.JSON()))
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	var got resumed
	var payload []byte
	if err == nil {
		payload, err = unpack(answer, &got)
	}
	if err != nil { // the replica is gone, and the get with it
		return outcome{}, errState()
	}
	if got.Failed {
		return outcome{}, readError(payload, got.FromServer)
	}
	return outcome{owner: got.Owner, parked: got.Parked, result: upstream.Result{JSON: payload, Revision: got.Revision}}, nil
}

// readError returns the error in an answer, which may be the server's own.
func readError(payload []byte, fromServer bool) error {
	refusal, err := wire.ReadError(payload)
	if err != nil {
		return err
	}
	if fromServer {
		return refusal
	}
	return wire.NewError(refusal.Code, refusal.Message).WithData(refusal.Data)
}

// abandon ends a parked get, wherever it is, that its client will not come back to.
func (p *parked) abandon(name, principal string) {
	replica := p.replicaOf(name)
	if replica == "" {
		p.abandonHere(name, principal)
		return
	}
	p.replicas.Tell(replica, topicAbandon, pack(resumption{Name: name, Principal: principal}, nil))
}

// replicaOf returns the other replica that the name of a parked get has in it; empty where there is none.
func (p *parked) replicaOf(name string) string {
	if p.replicas == nil {
		return ""
	}
	_, replica, _ := strings.Cut(name, ".")
	if here := p.replicas.Name(); replica == here || len(replica) != len(here) { // or a client made it up
		return ""
	}
	return replica
}
