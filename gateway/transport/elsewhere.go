package transport

import (
	"context"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

// With replicas, a client's next message may reach one that does not have what it is about. It is passed on to the one that does:
//
//	a reply to a server request       to the replica that sent it, which the id names
//	a cancellation                    to all: the client has chosen the id
//	a post to a session of HTTP+SSE   to the replica of its stream, which the session's id names
//
// What a server says after a get, for the stream of a session, goes to all: each keeps it until the stream is there. A client may receive it
// twice if its stream moves.
//
// A get that is repeated with replies is passed on by package requests.

// Topics of messages to other replicas.
const (
	topicReply  = "reply"
	topicCancel = "cancel"
	topicPost   = "post"
	topicMail   = "mail"
)

// maxCancelledID bounds the id of a request whose cancellation is passed on, in bytes.
const maxCancelledID = 1024

// serveReplicas has this replica do what other ones pass on.
func (t *Transport) serveReplicas() {
	t.replicas.Serve(topicReply, func(_ context.Context, message []byte) []byte {
		session, raw, ok := cutField(message)
		if reply, err := wire.Parse(raw); ok && err == nil && len(session) == len(sessionID{}) {
			t.replies.deliver(sessionID(session), &reply)
		}
		return nil
	})
	t.replicas.Serve(topicCancel, func(_ context.Context, message []byte) []byte {
		session, raw, ok := cutField(message)
		if ok && len(session) == len(sessionID{}) {
			id, params := sessionID(session), wire.Members(raw)
			t.inFlight.of(id).cancel(id, params.Get("requestId"), wire.ReadCancelled(params))
		}
		return nil
	})
	t.replicas.Serve(topicMail, func(_ context.Context, message []byte) []byte {
		t.hearMail(message)
		return nil
	})
	t.replicas.Serve(topicPost, func(ctx context.Context, message []byte) []byte {
		id, rest, _ := cutField(message)
		owner, body, ok := cutField(rest)
		if !ok {
			return []byte{byte(postUnknown)}
		}
		return []byte{byte(t.post(ctx, string(id), string(owner), body))}
	})
}

// hearMail takes what another replica has for a session's stream, or that its stream there has taken all.
func (t *Transport) hearMail(message []byte) {
	id, expires, mail, ok := readSession(message)
	switch {
	case !ok || !expires.After(time.Now()):
	case len(mail) == 0:
		t.sessions.dropMail(id)
	default:
		t.sessions.post(id, expires, mail)
	}
}

// postMail leaves a message for a session's stream, at whichever replica that is.
func (t *Transport) postMail(id sessionID, expires time.Time, message []byte) {
	t.sessions.post(id, expires, message)
	if t.replicas != nil {
		t.replicas.Tell("", topicMail, append(encodeSession(id, expires), message...))
	}
}

// takeMail tells the other replicas that a session's stream here has what they keep for it.
func (t *Transport) takeMail(s *seal.Session) {
	if t.replicas != nil {
		t.replicas.Tell("", topicMail, encodeSession(s.ID, s.Expires))
	}
}

// passOn passes a reply or cancellation that nothing here waits for on to the replica that it is for.
func (t *Transport) passOn(session sessionID, request *requests.Request) {
	m := &request.Message
	if m.IsResponse() {
		id, _ := wire.Text(m.ID)
		if replica := t.elsewhere(id); replica != "" {
			t.replicas.Tell(replica, topicReply, append(appendField(nil, session[:]), encodeReply(m)...))
		}
		return
	}
	if id := request.Params.Get("requestId"); id != nil && len(id) <= maxCancelledID {
		params := wire.Object{}.With("requestId", id).With("reason", wire.Quote(wire.ReadCancelled(request.Params).Reason))
		t.replicas.Tell("", topicCancel, append(appendField(nil, session[:]), params.JSON()...))
	}
}

// encodeReply returns a response as JSON.
func encodeReply(m *wire.Message) []byte {
	if m.Error != nil {
		return wire.Object{}.With("jsonrpc", wire.Quote("2.0")).With("id", m.ID).With("error", m.Error).JSON()
	}
	return wire.AppendResult(nil, m.ID, m.Result)
}

// posted is what becomes of a post to a session of HTTP+SSE. Replicas tell each other by the number.
type posted byte

const (
	postUnknown posted = iota // there is no such session
	postTaken
	postTooMany // too many posts of the principal wait for sessions that take none
)

// passPost passes what a client posts on to the replica that has its session of HTTP+SSE.
func (x *exchange) passPost(id, owner string, body []byte) posted {
	replica := x.t.elsewhere(id)
	if replica == "" {
		return postUnknown
	}
	message := append(appendField(appendField(nil, []byte(id)), []byte(owner)), body...)
	answer, err := x.t.replicas.Ask(x.r.Context(), replica, topicPost, message)
	if err != nil || len(answer) != 1 {
		return postUnknown
	}
	return posted(answer[0])
}

// post hands a message that another replica passes on to a session of HTTP+SSE of this one, which belongs to a principal.
func (t *Transport) post(ctx context.Context, id, owner string, body []byte) posted {
	s := t.sseSessions.find(id)
	if s == nil || s.owner != owner {
		return postUnknown
	}
	in, refusal := readIncoming(body)
	if refusal != nil {
		return postUnknown // the replica that passed it on has read it
	}
	in.header = http.Header{}
	release, ok := t.ledger.Count(owner, edge.Posts, maxPosts)
	if !ok {
		return postTooMany
	}
	defer release()
	if !s.enqueue(ctx, in) {
		return postUnknown
	}
	return postTaken
}

// elsewhere returns the other replica that an id of this gateway's names; empty where there is none.
func (t *Transport) elsewhere(id string) string {
	if t.replicas == nil {
		return ""
	}
	_, replica, _ := strings.Cut(id, ".")
	if here := t.replicas.Name(); replica == here || len(replica) != len(here) { // or a client made it up
		return ""
	}
	return replica
}

// named returns a random id with the replica's name, if there are replicas.
func named(id, replica string) string {
	if replica == "" {
		return id
	}
	return id + "." + replica
}

// appendField appends a field with its length, for [cutField].
func appendField(dst, field []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(field))), field...)
}

// cutField returns the first field of a message, and the rest.
func cutField(message []byte) (field, rest []byte, ok bool) {
	const size = 4
	if len(message) < size {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(message)
	if uint64(len(message)-size) < uint64(n) {
		return nil, nil, false
	}
	return message[size : size+n], message[size+n:], true
}
