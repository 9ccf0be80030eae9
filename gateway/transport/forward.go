package transport

import (
	"net/http"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// With several replicas, a message may reach a replica that does not have its session, server request
// or parked get. An id in the message names the replica that has it:
//
//	a post to a session of HTTP+SSE   the session's id, in the URL
//	a reply to a server request       the id of the server request
//	a get with replies                the id of the parked get, in its requestState
//
// This replica forwards the message, and the other replica answers it. If the other replica is gone,
// this replica answers that it does not know the id.

// proxied is a response from another replica. Each write to the client has its own writeTimeout.
type proxied struct{ http.ResponseWriter }

func (p proxied) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p proxied) Write(b []byte) (int, error) {
	// This fails for writers without deadlines, as in tests.
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.ResponseWriter.Write(b)
}

// forward sends the request, with the given body, to the replica that made an id, and writes its
// response to w. It returns false if this replica must answer.
func (x *exchange) forward(w http.ResponseWriter, id string, caller *snapshot.Caller, body []byte) (answered bool) {
	home, ok := x.t.forwarder.Elsewhere(id)
	return ok && x.t.forwarder.Forward(proxied{w}, x.r, body, home, cluster.Origin{
		Principal: caller.Principal.Key(), Client: x.client,
	})
}

// forwardReply forwards a reply for which no server request of this replica waits. It returns false if
// this replica must answer.
func (l *legacyExchange) forwardReply(w http.ResponseWriter, reply *wire.Message, body []byte) (answered bool) {
	id, _ := wire.Text(reply.ID)
	return reply.IsResponse() && l.x.forward(w, id, &l.caller, body)
}

// unanswered is a response writer that drops the response, because a reply in a batch gets none.
type unanswered http.Header

func (u unanswered) Header() http.Header       { return http.Header(u) }
func (unanswered) Write(b []byte) (int, error) { return len(b), nil }
func (unanswered) WriteHeader(int)             {}

// serveForwarded serves a request that another replica has forwarded. The message must be for a
// session, a server request or a parked get of this replica, and of its caller. Any other message gets
// 404, even with a valid credential. Nothing is forwarded a second time.
func (t *Transport) serveForwarded(w http.ResponseWriter, r *http.Request) {
	x, ok := t.begin(w, r)
	if !ok {
		return
	}
	defer x.release()
	x.forwarded = true
	body, err := x.readBody()
	from, ok := t.forwarder.Accept(r, body)
	if err != nil || !ok {
		x.refuseForwarded()
		return
	}
	x.conn.Authenticated()
	x.snapshot, x.client = t.publisher.Current(), from.Client
	in, refusal := readIncoming(body)
	switch {
	case refusal != nil:
	case r.URL.Path == config.SSEPath:
		if t.sseSessions.post(x, from.Principal, in) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
	case in.batch == nil && in.request.Message.IsResponse():
		if x.deliverForwarded(from.Principal, &in.request.Message) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
	case in.batch == nil:
		if x.resumeForwarded(from.Principal, in.request) {
			return
		}
	}
	x.refuseForwarded()
}

func (x *exchange) refuseForwarded() {
	x.refuse(http.StatusNotFound, nil, wire.NewError(wire.InvalidRequest, "Session not found"))
}

// deliverForwarded passes a reply to the server request that waits for it. It returns false if there
// is no such server request, or if the session belongs to another principal.
func (x *exchange) deliverForwarded(principal string, reply *wire.Message) bool {
	session, err := x.snapshot.Sealer.OpenSession(wire.Header(x.r.Header, wire.HeaderSessionID))
	return err == nil && session.Principal == principal && x.t.replies.deliver(session.ID, reply)
}

// resumeForwarded continues a parked get of the principal and writes the response. It returns false,
// without a response, if there is no such get on this replica.
func (x *exchange) resumeForwarded(principal string, request *requests.Request) bool {
	variant, ok := variantAt(x.snapshot.Config, x.r.URL.Path, x.snapshot.Config.Gateway.Path)
	x.variant = variant
	request.Client, request.Variant, request.Snapshot = x.client, variant, x.snapshot
	if !ok || !request.Message.IsRequest() || checkModern(request, nil) != nil {
		return false
	}
	caller, ok := x.t.requests.ParkedCaller(request.ParkedID(), principal)
	if !ok {
		return false
	}
	current, _, err := x.t.publisher.Reauthenticate(x.r.Context(), &caller)
	if err != nil {
		return false
	}
	request.Caller, request.Snapshot = caller, current
	if request.Relay == nil { // with a relay, respond sends the header early: the other replica waits for it
		request.Relay = requests.NewRelayQueue()
	}
	x.respond(requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header), request, http.StatusOK)
	return true
}
