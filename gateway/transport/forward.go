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

// With replicas, a client's next message may reach one that does not hold what it is about. An id in
// it names the replica that does:
//
//	a post to a session of HTTP+SSE   the session's id, in the URL
//	a reply to a server request       the id of the server request
//	a get with replies                the id of the parked get, in its requestState
//
// The other replica answers in place of this one. If it is gone, this one handles the message as if
// it had been restarted itself: it does not know the id.

// proxied is a response that another replica writes. Its client may delay each part of it for as long
// as one of this replica's own.
type proxied struct{ http.ResponseWriter }

func (p proxied) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p proxied) Write(b []byte) (int, error) {
	// A writer without deadlines stays unbounded.
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.ResponseWriter.Write(b)
}

// forward has the replica that made an id answer the exchange, whose body was read, or one message
// of it. It returns false if this replica has to answer.
func (x *exchange) forward(w http.ResponseWriter, id string, caller *snapshot.Caller, body []byte) (answered bool) {
	home, ok := x.t.forwarder.Elsewhere(id)
	return ok && x.t.forwarder.Forward(proxied{w}, x.r, body, home, cluster.Origin{
		Principal: caller.Principal.Key(), Client: x.client,
	})
}

// forwardReply is forward for a reply that nothing here waits for.
func (l *legacyExchange) forwardReply(w http.ResponseWriter, reply *wire.Message, body []byte) (answered bool) {
	id, _ := wire.Text(reply.ID)
	return reply.IsResponse() && l.x.forward(w, id, &l.caller, body)
}

// unanswered is a response that nobody reads, since that of a batch is another one.
type unanswered http.Header

func (u unanswered) Header() http.Header       { return http.Header(u) }
func (unanswered) Write(b []byte) (int, error) { return len(b), nil }
func (unanswered) WriteHeader(int)             {}

// serveForwarded serves a request with the header of another replica: for what this replica holds,
// by the caller that is stored there. Everything else is not found, whatever credentials the
// request has besides, and nothing is forwarded again.
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

// deliverForwarded delivers a reply to the server request that waits for it, if that was sent to the
// principal.
func (x *exchange) deliverForwarded(principal string, reply *wire.Message) bool {
	session, err := x.snapshot.Sealer.OpenSession(wire.Header(x.r.Header, wire.HeaderSessionID))
	return err == nil && session.Principal == principal && x.t.replies.deliver(session.ID, reply)
}

// resumeForwarded carries out a get that is parked here for the principal. It returns false if there
// is none.
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
	current, _, err := x.t.publisher.Retain(x.r.Context(), &caller)
	if err != nil {
		return false
	}
	request.Caller, request.Snapshot = caller, current
	if request.Relay == nil { // respond begins a stream with it
		request.Relay = requests.NewRelayQueue()
	}
	x.respond(requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header), request, http.StatusOK)
	return true
}
