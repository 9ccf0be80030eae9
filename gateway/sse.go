package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// ssePath is where HTTP+SSE of 2024-11-05 is served, and sseSessionKey what its clients name their session by.
const (
	ssePath       = "/sse"
	sseSessionKey = "sessionId"
)

// sseSession is a conversation over HTTP+SSE: what the client says comes by POSTs, what it hears goes on its GET
// stream. It lives on this replica, as long as the stream.
type sseSession struct {
	*conversation

	// owner is the key of the principal that may post.
	owner string
	posts chan incoming
	// over is closed when nothing is taken any more.
	over chan struct{}
}

// sseSessions are the open sessions by their ids. The zero value is ready.
type sseSessions struct {
	mu  sync.Mutex // guards all
	all map[string]*sseSession
}

// add gives a session an id that nobody can guess.
func (s *sseSessions) add(session *sseSession) (id string) {
	id = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*sseSession{}
	}
	s.all[id] = session
	return id
}

func (s *sseSessions) find(id string) *sseSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

func (s *sseSessions) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

// serveSSE serves clients of 2024-11-05, and of any later legacy revision that still speaks HTTP+SSE.
func (g *Gateway) serveSSE(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		g.serveSSEStream(w, r)
	case http.MethodPost:
		g.serveSSEMessage(w, r)
	default:
		refuseMethod(w, "GET, POST", "Method not allowed")
	}
}

// serveSSEStream begins a session and is it: it ends with the stream, and with it the client's requests. A gateway that
// drains answers those that it has, and ends the stream then.
func (g *Gateway) serveSSEStream(w http.ResponseWriter, r *http.Request) {
	if !acceptsStream(w, r) {
		return
	}
	who, ok := g.authenticate(w, r, nil)
	if !ok {
		return
	}
	ctx, cancel := until(r.Context(), who.Expires)
	defer cancel()
	s := &sseSession{conversation: g.converse(who), owner: who.Key(), posts: make(chan incoming), over: make(chan struct{})}
	s.legacy = true
	id := g.sse.add(s)
	defer g.sse.remove(id)
	out := openStream(w)
	defer out.end()
	out.named("endpoint", []byte(ssePath+"?"+sseSessionKey+"="+id))
	go s.run(ctx)
	s.writeEvents(out, cancel)
}

// run takes what the client posts, until ctx ends, the gateway drains or a reload does not accept the client any more.
func (s *sseSession) run(ctx context.Context) {
	defer s.finish()
	defer close(s.over)
	for {
		select {
		case in := <-s.posts:
			if s.remains(ctx) != nil {
				return
			}
			s.take(ctx, in)
		case <-s.who.by.replaced:
			if s.remains(ctx) != nil {
				return
			}
		case <-s.gateway.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// writeEvents writes what comes out of the conversation until its end. A client that does not read is given up.
func (s *sseSession) writeEvents(out *eventStream, giveUp context.CancelFunc) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case message, ok := <-s.out:
			if !ok {
				return
			}
			out.named("message", message)
		case <-alive.C:
			out.comment()
		}
		if out.err != nil {
			giveUp()
		}
	}
}

// serveSSEMessage hands what a client posts to its session, which is there for whoever opened it only.
func (g *Gateway) serveSSEMessage(w http.ResponseWriter, r *http.Request) {
	in, ok := receive(w, r)
	if !ok {
		return
	}
	from := g.clientAddress(r) // the request is answered after it is over
	in.call.client = func() string { return from }
	id := in.call.message.ID
	who, ok := g.authenticate(w, r, id)
	if !ok {
		return
	}
	if s := g.sse.find(r.URL.Query().Get(sseSessionKey)); s != nil && s.owner == who.Key() {
		select {
		case s.posts <- in:
			w.WriteHeader(http.StatusAccepted)
			return
		case <-s.over:
		case <-r.Context().Done():
			return
		}
	}
	refuse(w, http.StatusNotFound, id, wire.NewError(wire.InvalidRequest, "Session not found: begin with the stream"))
}
