package transport

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// With replicas, a client's next message may reach one that does not have what it is about. It is
// passed on to the one that does:
//
//	a reply to a server request       to the replica that sent it, which the id names
//	a cancellation                    to all: the client has chosen the id
//	a post to a session of HTTP+SSE   to the replica of its stream, which the session's id names
//
// The end of a session and its log level are announced to all. A get that is repeated with replies
// is passed on by package requests.

// Topics of messages to peer replicas. The level of log messages has one of its own, so that
// clients that change it often do not push out which sessions have ended.
const (
	topicReply   = "reply"
	topicCancel  = "cancel"
	topicSession = "session"
	topicPost    = "post"
	topicEnded   = "session ended"
	topicLevel   = "session level"
)

// maxCancelledID bounds the id of a request whose cancellation is passed on, in bytes.
const maxCancelledID = 1024

// reply is a client's reply to a server request.
type reply struct {
	Session sessionID      `json:"session"`
	Message jsontext.Value `json:"message"`
}

// cancellation is that of a request in flight.
type cancellation struct {
	Session sessionID      `json:"session"`
	Request jsontext.Value `json:"request"`
	Reason  string         `json:"reason,omitzero"`
}

// post is what a client posts to a session of HTTP+SSE. Without a body it asks whether the session
// is there.
type post struct {
	ID    string         `json:"id"`
	Owner string         `json:"owner"`
	Body  jsontext.Value `json:"body,omitzero"`
}

// ended is the end of a legacy session of Streamable HTTP, or the level of log messages that it
// wants.
type ended struct {
	Session sessionID `json:"session"`
	Expires time.Time `json:"expires"`
	Level   string    `json:"level,omitzero"`
	Set     time.Time `json:"set,omitzero"`
}

// handlePeers has this replica do what its peers pass on, and what is done to a session at one of
// them.
func (t *Transport) handlePeers() {
	handle(t, topicReply, func(_ context.Context, r reply) any {
		if message, err := wire.Parse(r.Message); err == nil {
			t.replies.deliver(r.Session, &message)
		}
		// It has arrived, even if nobody waits for it any more. At the replica that asked, such a
		// reply is accepted as well.
		return true
	})
	handle(t, topicCancel, func(_ context.Context, c cancellation) any {
		t.inFlight.cancel(c.Session, c.Request, &wire.CancelledError{Reason: c.Reason})
		return nil
	})
	handle(t, topicSession, func(_ context.Context, p post) any { return t.sessionOf(p) != nil })
	handle(t, topicPost, func(ctx context.Context, p post) any { return t.post(ctx, p) })
	handle(t, topicEnded, func(_ context.Context, e ended) any {
		if e.Expires.After(time.Now()) {
			t.endHere(e.Session)
		}
		return nil
	})
	handle(t, topicLevel, func(_ context.Context, e ended) any {
		if e.Expires.After(time.Now()) {
			t.sessions.adoptLogLevel(e.Session, sessionLevel{e.Level, e.Set})
		}
		return nil
	})
}

// handle has a function called with each message under a topic, but for those that cannot be read:
// only a peer of another version sends any.
func handle[T any](t *Transport, topic string, do func(context.Context, T) any) {
	t.peers.Handle(topic, func(ctx context.Context, read func(any) error) any {
		var message T
		if read(&message) != nil {
			return nil
		}
		return do(ctx, message)
	})
}

// sessionOf returns the session of this replica that something is posted to; nil if there is none
// of its owner.
func (t *Transport) sessionOf(p post) *sseSession {
	if s := t.sseSessions.find(p.ID); s != nil && s.owner == p.Owner {
		return s
	}
	return nil
}

// endSession ends a session at all replicas.
func (t *Transport) endSession(id sessionID, expires time.Time) {
	t.endHere(id)
	if t.peers != nil {
		t.peers.Announce(topicEnded, ended{Session: id, Expires: expires})
	}
}

// endHere ends a session at this replica.
func (t *Transport) endHere(id sessionID) {
	t.sessions.end(id)
	t.replies.end(id)
}

// setLogLevel sets the level of a session at all replicas.
func (t *Transport) setLogLevel(id sessionID, expires time.Time, level string) {
	if set, changed := t.sessions.setLogLevel(id, level); changed && t.peers != nil {
		t.peers.Announce(topicLevel, ended{Session: id, Expires: expires, Level: level, Set: set})
	}
}

// passOn passes a reply or cancellation that nothing here waits for on to the replica that it is
// for. It returns false for a reply that did not arrive there.
func (t *Transport) passOn(ctx context.Context, session sessionID, request *requests.Request) bool {
	m := &request.Message
	if t.peers == nil {
		return true // nobody waits for it
	}
	if m.IsResponse() {
		id, _ := wire.Text(m.ID)
		replica := requests.PeerIn(id, t.peers)
		if replica == "" {
			return true // as above
		}
		// Called and not published: a user has answered, and the client has to know where that is
		// lost.
		var arrived bool
		principal, reply := request.Caller.Principal.Key(), reply{session, encodeReply(m)}
		err := t.peers.Call(ctx, replica, topicReply, principal, reply, &arrived)
		return err == nil && arrived
	}
	// Published and not called: nobody waits for the outcome of a cancellation, and which replica
	// it is for is not known.
	if id := request.Params.Get("requestId"); id != nil && len(id) <= maxCancelledID {
		reason := wire.ReadCancelled(request.Params).Reason
		t.peers.Publish("", topicCancel, cancellation{session, id, reason})
	}
	return true
}

// encodeReply returns a response as JSON.
func encodeReply(m *wire.Message) []byte {
	if m.Error != nil {
		return wire.Object{}.With("jsonrpc", wire.Quote("2.0")).With("id", m.ID).With("error", m.Error).JSON()
	}
	return wire.AppendResult(nil, m.ID, m.Result)
}

// posted is what becomes of a post to a session of HTTP+SSE.
type posted string

const (
	postUnknown posted = "unknown" // there is no such session
	postTaken   posted = "taken"
	postTooMany posted = "too many" // the peer has no slot for another of the principal's
)

// passPost passes what a client posts on to the replica that has its session of HTTP+SSE.
func (x *exchange) passPost(id, owner string, body []byte) posted {
	// That is asked first: a client can make up a session, and the store would keep for nobody what
	// it posts.
	replica := requests.PeerIn(id, x.t.peers)
	if replica == "" {
		return postUnknown
	}
	var isThere bool
	ctx := x.r.Context()
	err := x.t.peers.Call(ctx, replica, topicSession, owner, post{ID: id, Owner: owner}, &isThere)
	if err != nil || !isThere {
		return postUnknown
	}
	answer := postTooMany // where the peer has no slot for the principal, or the way to it is full
	_ = x.t.peers.Call(ctx, replica, topicPost, owner, post{id, owner, body}, &answer)
	return answer
}

// post hands a message that a peer replica passes on to a session of HTTP+SSE of this one.
func (t *Transport) post(ctx context.Context, p post) posted {
	s := t.sessionOf(p)
	if s == nil {
		return postUnknown
	}
	in, refusal := readIncoming(p.Body)
	if refusal != nil {
		return postUnknown // the replica that passed it on has read it
	}
	// It waits while the client does not read, and takes one of its principal's slots among the
	// calls that this replica handles for its peers.
	if !s.enqueue(ctx, in) {
		return postUnknown
	}
	return postTaken
}
