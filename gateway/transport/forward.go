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

// With replicas, a client's next message may reach a replica that does not hold its session or
// call. An id in the message names the replica that does:
//
//	a post to a session of HTTP+SSE   the session's id, in the URL
//	a reply to a server request       the id of the server request
//	a get with replies                the id of the parked get, in its requestState
//
// The other replica answers instead. If it is gone, this replica answers as if it had been
// restarted itself: it does not know the id.

// proxied is a response that another replica writes. The client may delay each part for as long as
// a part of this replica's own responses.
type proxied struct{ http.ResponseWriter }

func (p proxied) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p proxied) Write(b []byte) (int, error) {
	// A writer without deadlines remains unbounded.
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.ResponseWriter.Write(b)
}

// forward passes the exchange, with its body, or one message of it, to the replica that made an id.
// It returns false if this replica must answer.
func (x *exchange) forward(w http.ResponseWriter, id string, caller *snapshot.Caller, body []byte) (answered bool) {
	home, ok := x.t.forwarder.Elsewhere(id)
	return ok && x.t.forwarder.Forward(proxied{w}, x.r, body, home, cluster.Origin{
		Principal: caller.Principal.Key(), Client: x.client,
	})
}

// forwardReply is forward for a reply that no server request of this replica waits for.
func (l *legacyExchange) forwardReply(w http.ResponseWriter, reply *wire.Message, body []byte) (answered bool) {
	id, _ := wire.Text(reply.ID)
	return reply.IsResponse() && l.x.forward(w, id, &l.caller, body)
}

// unanswered is a response that is dropped, because the batch has its own response.
type unanswered http.Header

func (u unanswered) Header() http.Header       { return http.Header(u) }
func (unanswered) Write(b []byte) (int, error) { return len(b), nil }
func (unanswered) WriteHeader(int)             {}

// serveForwarded serves a request with another replica's header. It serves only messages for a
// session, a server request or a parked get of this replica, as the caller that is stored there.
// Other messages get 404, even with other credentials, and nothing is forwarded again.
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

// deliverForwarded passes a reply to the server request that waits for it, if the server request
// was sent to this principal.
func (x *exchange) deliverForwarded(principal string, reply *wire.Message) bool {
	session, err := x.snapshot.Sealer.OpenSession(wire.Header(x.r.Header, wire.HeaderSessionID))
	return err == nil && session.Principal == principal && x.t.replies.deliver(session.ID, reply)
}

// resumeForwarded continues a get that is parked here for the principal. If it cannot, it returns
// false and writes no response.
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
	if request.Relay == nil { // with a relay, respond begins a stream
		request.Relay = requests.NewRelayQueue()
	}
	x.respond(requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header), request, http.StatusOK)
	return true
}
