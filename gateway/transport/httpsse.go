package transport

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sseSessionKey is the name of the query parameter with the session's id.
const sseSessionKey = "sessionId"

// sseSession is a session over HTTP+SSE. The client sends messages by POST, and receives messages on
// its GET stream. The session exists on this replica until the stream ends. Other replicas forward
// posts to this replica.
type sseSession struct {
	conn *connection

	principal string // the key of the principal that may post
	posts     chan incoming
	over      chan struct{} // closed when posts are no longer received
}

// sseSessions are the open sessions by id. The zero value is ready for use.
type sseSessions struct {
	all sync.Map // of *sseSession
}

// find returns the session with an id, or nil if there is none.
func (s *sseSessions) find(id string) *sseSession {
	found, _ := s.all.Load(id)
	session, _ := found.(*sseSession)
	return session
}

// serve serves HTTP+SSE: the transport of revision 2024-11-05, which some clients of later legacy
// revisions also use.
func (s *sseSessions) serve(x *exchange) {
	if gateway := &x.snapshot.Config.Gateway; !gateway.SSE {
		x.refuse(http.StatusNotFound, nil, wire.NewError(wire.InvalidRequest,
			"HTTP+SSE is turned off: use Streamable HTTP at "+gateway.Path))
		return
	}
	switch x.r.Method {
	case http.MethodGet:
		s.serveStream(x)
	case http.MethodPost:
		s.servePost(x)
	default:
		refuseMethod(x.w, "GET, POST", "Method not allowed")
	}
}

// serveStream serves the GET stream of a new session. The session and its requests end with the stream.
// When the gateway drains, the requests in flight are answered before the stream ends.
func (s *sseSessions) serveStream(x *exchange) {
	if !x.acceptsStream() {
		return
	}
	caller, ok := x.authenticate(nil)
	if !ok {
		return
	}
	release, ok := x.countStream(&caller, nil)
	if !ok {
		return
	}
	defer release()
	ctx, cancel := withExpiry(x.r.Context(), caller.Principal.Expires)
	defer cancel()
	opened := &sseSession{
		conn: newConnection(x.t, caller), principal: caller.Principal.Key(),
		posts: make(chan incoming), over: make(chan struct{}),
	}
	opened.conn.legacyOnly, opened.conn.client = true, x.clientAddress()
	id := x.t.forwarder.NewID() // random, so that other clients cannot guess it
	s.all.Store(id, opened)
	defer s.all.Delete(id)
	x.snapshot = nil // frees the snapshot while the stream is open
	out := openStream(x.w)
	defer out.end()
	out.named("endpoint", []byte(config.SSEPath+"?"+sseSessionKey+"="+id))
	// Write on this goroutine: net/http ends the stream when the handler returns.
	go opened.receivePosts(ctx)
	opened.writeEvents(out, cancel)
}

// receivePosts receives the client's posts until ctx ends, the gateway drains, or a reload refuses the
// client or turns HTTP+SSE off.
func (s *sseSession) receivePosts(ctx context.Context) {
	defer s.conn.finish()
	defer close(s.over) // before finish: refuse posts while it waits for the requests in flight
	defer s.conn.t.recovered(ctx, nil)
	for {
		var err error
		select {
		case in := <-s.posts:
			err = s.conn.receive(ctx, in)
		case <-s.conn.caller.Generation.Replaced():
			var current *snapshot.Snapshot
			if current, err = s.conn.reauthenticate(ctx); err == nil && !current.Config.Gateway.SSE {
				return
			}
		case <-s.conn.t.closing:
			return
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// enqueue passes a message to the session. It returns false if the session is over or ctx has
// ended.
func (s *sseSession) enqueue(ctx context.Context, in incoming) bool {
	select {
	case s.posts <- in:
		return true
	case <-s.over:
	case <-ctx.Done():
	}
	return false
}

// writeEvents writes messages to the client until the session ends. If a write fails, for example
// because the client does not read, it calls giveUp and drops all further messages.
func (s *sseSession) writeEvents(out *eventStream, giveUp context.CancelFunc) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case next, ok := <-s.conn.out:
			if !ok {
				return
			}
			out.named("message", next.message)
			next.done()
		case <-alive.C:
			out.comment()
		}
		if out.err != nil {
			giveUp() // keep receiving messages: otherwise requests would block when they send one
		}
	}
}

// servePost passes a message to the session in the URL, on this or another replica. It responds with
// 404 if there is no such session or if it belongs to another principal.
func (s *sseSessions) servePost(x *exchange) {
	in, ok := x.receive()
	if !ok {
		return
	}
	id := in.request.Message.ID
	caller, ok := x.authenticate(id)
	if !ok {
		return
	}
	to := x.r.URL.Query().Get(sseSessionKey)
	if s.find(to) == nil && x.forward(x.w, to, &caller, in.raw) {
		return
	}
	ok = s.post(x, caller.Principal.Key(), in)
	switch {
	case x.r.Context().Err() != nil:
	case ok:
		x.w.WriteHeader(http.StatusAccepted)
	default:
		x.refuse(http.StatusNotFound, id, wire.NewError(wire.InvalidRequest, "Session not found: open a new stream"))
	}
}

// post passes a principal's message to the session in the URL. It returns false if the principal has
// no such session on this replica.
func (s *sseSessions) post(x *exchange, principal string, in incoming) bool {
	session := s.find(x.r.URL.Query().Get(sseSessionKey))
	return session != nil && session.principal == principal && session.enqueue(x.r.Context(), in)
}
