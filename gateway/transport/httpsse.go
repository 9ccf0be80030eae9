package transport

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sseSessionKey is the query parameter with the session's id in HTTP+SSE.
const sseSessionKey = "sessionId"

// sseSession is a connection over HTTP+SSE. The client sends its messages as POSTs, and receives
// messages on its GET stream. The session exists on this replica while the stream is open. Other
// replicas forward posts to this one.
type sseSession struct {
	conn *connection

	// owner is the key of the principal that may post.
	owner string
	posts chan incoming
	// over is closed when no more posts are received.
	over chan struct{}
}

// sseSessions are the open sessions by id. The zero value is ready.
type sseSessions struct {
	all sync.Map // of *sseSession
}

// find returns nil if there is no such session.
func (s *sseSessions) find(id string) *sseSession {
	found, _ := s.all.Load(id)
	session, _ := found.(*sseSession)
	return session
}

// serve serves clients of 2024-11-05, and of later legacy revisions that still speak HTTP+SSE.
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

// serveStream begins a session, which ends with the stream, and so do its requests. When the
// gateway drains, it answers the requests in flight and then ends the stream.
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
		conn: newConnection(x.t, caller), owner: caller.Principal.Key(),
		posts: make(chan incoming), over: make(chan struct{}),
	}
	// Do this now: below, x drops the snapshot, which has the trusted proxies.
	opened.conn.legacyOnly, opened.conn.client = true, x.clientAddress()
	id := x.t.forwarder.NewID() // cannot be guessed
	s.all.Store(id, opened)
	defer s.all.Delete(id)
	x.snapshot = nil // it would stay in memory as long as the stream
	out := openStream(x.w)
	defer out.end()
	out.named("endpoint", []byte(config.SSEPath+"?"+sseSessionKey+"="+id))
	// This goroutine writes, because net/http ends the stream when the handler returns.
	go opened.receivePosts(ctx)
	opened.writeEvents(out, cancel)
}

// receivePosts receives the client's posts until ctx ends, the gateway drains, or a reload refuses
// the client.
func (s *sseSession) receivePosts(ctx context.Context) {
	defer s.conn.finish()
	// Deferred calls run in reverse: refuse posts first, then wait for the requests in flight.
	defer close(s.over)
	defer s.conn.t.recovered(ctx, nil)
	for {
		var err error
		select {
		case in := <-s.posts:
			err = s.conn.receive(ctx, in)
		case <-s.conn.caller.Generation.Replaced():
			current, retained := s.conn.retain(ctx)
			if err = retained; err == nil && !current.Config.Gateway.SSE {
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

// writeEvents writes the messages for the client until the session ends. Once a write fails, for
// example because the client does not read, it calls giveUp.
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
			// From now on messages are discarded, so that no request waits for a writer.
			giveUp()
		}
	}
}

// servePost passes a client's post to its session. Principals other than the session's owner get
// 404.
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
	isTaken := s.post(x, caller.Principal.Key(), in)
	switch {
	case x.r.Context().Err() != nil:
	case isTaken:
		x.w.WriteHeader(http.StatusAccepted)
	default:
		x.refuse(http.StatusNotFound, id, wire.NewError(wire.InvalidRequest, "Session not found: open a new stream"))
	}
}

// post passes a principal's post to the session in the URL. It returns false if this replica has no
// such session of that principal.
func (s *sseSessions) post(x *exchange, principal string, in incoming) bool {
	session := s.find(x.r.URL.Query().Get(sseSessionKey))
	return session != nil && session.owner == principal && session.enqueue(x.r.Context(), in)
}
