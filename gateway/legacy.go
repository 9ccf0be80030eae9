package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sessionLife is how long a legacy session lasts.
const sessionLife = 24 * time.Hour

// serveLegacy handles a message of the legacy era over HTTP.
func (g *Gateway) serveLegacy(w http.ResponseWriter, r *http.Request, call *request) {
	ctx, end, ok := g.admitLegacy(w, r, call)
	if !ok {
		return
	}
	defer end()
	g.serveRequest(ctx, w, call, http.StatusOK)
}

// admitLegacy returns the context of a request that is to be carried out, and what is to be called when it is over. It handles
// all else.
func (g *Gateway) admitLegacy(w http.ResponseWriter, r *http.Request, call *request) (ctx context.Context, end func(), ok bool) {
	who, ok := g.authenticate(w, r, call.message.ID)
	if !ok {
		return nil, nil, false
	}
	call.principal = who.Principal
	if call.message.Method == wire.Initialize && call.message.IsRequest() {
		g.serveInitialize(w, r, call)
		return nil, nil, false
	}
	session, ok := g.openSession(w, r, who.Principal, call.begun)
	if !ok {
		return nil, nil, false
	}
	call.revision = session.Revision
	if !call.message.IsRequest() {
		g.noted(&session, call)
		w.WriteHeader(http.StatusAccepted)
		return nil, nil, false
	}
	ctx, end = extractTrace(r.Context(), call.meta, r.Header), func() {}
	switch call.message.Method {
	case wire.PromptsGet, wire.Complete, wire.SetLogLevel: // all else is answered on the spot
		g.connect(&session, call)
		ctx, end, _ = g.calls.begin(ctx, callKey(&session, call.message.ID))
	}
	return ctx, end, true
}

// connect gives a request of a session the ways to its client.
func (g *Gateway) connect(session *seal.Session, call *request) {
	call.level = g.sessions.level(session.ID)
	call.declared = declared(session)
	if call.message.Method == wire.SetLogLevel {
		session := *session
		call.setLevel = func(level string) { g.sessions.setLevel(&session, level) }
	}
	if !call.mayHear() {
		return
	}
	call.talk = newTalk()
	id := string(session.ID[:])
	call.ask = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		return g.questions.ask(ctx, id, call.talk.say, method, params)
	}
}

// noted handles a notification, or an answer.
func (g *Gateway) noted(session *seal.Session, call *request) {
	switch {
	case call.message.IsResponse():
		g.questions.answered(string(session.ID[:]), &call.message)
	case call.message.Method == wire.Cancelled:
		g.calls.cancel(callKey(session, call.params.Get("requestId")))
	}
}

// callKey tells a session's request from every other one on this replica.
func callKey(session *seal.Session, id jsontext.Value) string {
	return string(session.ID[:]) + string(id)
}

// serveInitialize begins a session: all that is known of it travels in its id.
func (g *Gateway) serveInitialize(w http.ResponseWriter, r *http.Request, call *request) {
	requested, ok := call.params.Text("protocolVersion")
	if !ok {
		refuse(w, http.StatusOK, call.message.ID,
			wire.NewError(wire.InvalidParams, "Invalid params: protocolVersion must be a string"))
		return
	}
	call.revision = negotiate(requested)
	g.metrics.start(extractTrace(r.Context(), call.meta, r.Header), call)
	session := seal.Session{
		Revision:  call.revision,
		Principal: call.principal.Key(),
		Expires:   time.Now().Add(sessionLife),
	}
	remember(&session, call.params.Object("capabilities"))
	_, _ = rand.Read(session.ID[:]) // never fails
	token, err := g.setup().sealer.SealSession(session)
	call.end(err)
	if err != nil {
		g.logger.ErrorContext(r.Context(), "session not sealed", slog.Any("error", err))
		refuse(w, http.StatusInternalServerError, call.message.ID, wire.NewError(wire.InternalError, "Internal error"))
		return
	}
	w.Header().Set(wire.HeaderSessionID, token)
	body := wire.AppendResult(nil, call.message.ID, g.initialization(session.Revision))
	_ = writeJSON(w, http.StatusOK, body) // the client has gone
}

// openSession reads the session of a legacy request, or answers: 400 without one, 404 for one that is not this
// caller's, ended or made up (2025-11-25, Transports, "Session Management").
func (g *Gateway) openSession(w http.ResponseWriter, r *http.Request, principal policy.Principal, now time.Time) (seal.Session, bool) {
	if header := wire.Header(r.Header, wire.HeaderProtocolVersion); header != "" && !wire.KnownLegacy(header) {
		refuse(w, http.StatusBadRequest, nil, unsupportedVersion(header))
		return seal.Session{}, false
	}
	token := wire.Header(r.Header, wire.HeaderSessionID)
	if token == "" {
		refuse(w, http.StatusBadRequest, nil, wire.NewError(wire.InvalidRequest, "Mcp-Session-Id is required: begin with initialize"))
		return seal.Session{}, false
	}
	session, err := g.setup().sealer.OpenSession(token)
	if err != nil || !principal.HasKey(session.Principal) || !session.Expires.After(now) || g.sessions.hasEnded(session.ID) {
		refuse(w, http.StatusNotFound, nil, wire.NewError(wire.InvalidRequest, "Session not found: begin with initialize"))
		return seal.Session{}, false
	}
	return session, true
}

// unsupportedVersion is the error of a revision that is not served.
func unsupportedVersion(requested string) *wire.Error {
	data := wire.Object{}.With("supported", supportedVersions()).With("requested", wire.Quote(requested))
	return wire.NewError(wire.UnsupportedProtocolVersion, "Unsupported protocol version").WithData(data.JSON())
}

// serveDelete ends a session on this replica.
func (g *Gateway) serveDelete(w http.ResponseWriter, r *http.Request) {
	if wire.Modern(wire.Header(r.Header, wire.HeaderProtocolVersion)) {
		refuseMethod(w, "POST", "There are no sessions in this revision")
		return
	}
	who, ok := g.authenticate(w, r, nil)
	if !ok {
		return
	}
	session, ok := g.openSession(w, r, who.Principal, time.Now())
	if !ok {
		return
	}
	g.sessions.end(session.ID, session.Expires)
	g.questions.end(string(session.ID[:]))
	w.WriteHeader(http.StatusNoContent)
}

// legacySessions is what this replica knows of legacy sessions beside what their ids say: which were ended before they
// expired, the stream of each, and which log messages it wants. The zero value is ready.
type legacySessions struct {
	mu      sync.Mutex             // guards what follows
	ended   map[[16]byte]time.Time // when each would have expired
	swept   time.Time              // when those that have were last forgotten
	streams map[[16]byte]*context.CancelFunc
	levels  map[[16]byte]sessionLevel
}

// sessionLevel is what a session's client said by logging/setLevel.
type sessionLevel struct {
	level   string
	expires time.Time
}

const (
	// sweepInterval is how often expired sessions are forgotten.
	sweepInterval = time.Minute
	// maxEnded bounds the sessions that are remembered as ended: over it one is forgotten, and its id good again.
	maxEnded = 100_000
	// maxLevels bounds the sessions whose log level is known: over it one is forgotten, and gets no more log messages.
	maxLevels = 100_000
)

// level returns from which severity on a session wants log messages; empty for none.
func (l *legacySessions) level(id [16]byte) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.levels[id].level
}

func (l *legacySessions) setLevel(session *seal.Session, level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.levels == nil {
		l.levels = map[[16]byte]sessionLevel{}
	}
	l.sweep()
	if len(l.levels) >= maxLevels {
		for one := range l.levels {
			delete(l.levels, one)
			break
		}
	}
	l.levels[session.ID] = sessionLevel{level, session.Expires}
}

// sweep forgets, from time to time, what has expired. Called with the lock.
func (l *legacySessions) sweep() {
	now := time.Now()
	if now.Sub(l.swept) <= sweepInterval {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.ended, func(_ [16]byte, expiry time.Time) bool { return expiry.Before(now) })
	maps.DeleteFunc(l.levels, func(_ [16]byte, level sessionLevel) bool { return level.expires.Before(now) })
}

func (l *legacySessions) hasEnded(id [16]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.ended[id]
	return ok
}

// end ends a session and its stream.
func (l *legacySessions) end(id [16]byte, expires time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.ended = map[[16]byte]time.Time{}
	}
	l.sweep()
	delete(l.levels, id)
	if len(l.ended) >= maxEnded {
		for one := range l.ended {
			delete(l.ended, one)
			break
		}
	}
	l.ended[id] = expires
	if cancel := l.streams[id]; cancel != nil {
		(*cancel)()
	}
}

// stream returns the context of a session's stream and what is to be called at its end. A session has one stream: it
// ends the one before, so that nothing is said twice.
func (l *legacySessions) stream(ctx context.Context, session *seal.Session) (_ context.Context, leave func()) {
	ctx, cancel := context.WithDeadline(ctx, session.Expires)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams == nil {
		l.streams = map[[16]byte]*context.CancelFunc{}
	}
	if before := l.streams[session.ID]; before != nil {
		(*before)()
	}
	l.streams[session.ID] = &cancel
	if _, ended := l.ended[session.ID]; ended { // meanwhile
		cancel()
	}
	return ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.streams[session.ID] == &cancel {
			delete(l.streams, session.ID)
		}
	}
}

// serveLegacyStream serves the GET stream on which a legacy client hears of changes. Each event's id ends in the
// view's fingerprint: a client that comes back with an old one missed something, and is told so at once.
func (g *Gateway) serveLegacyStream(w http.ResponseWriter, r *http.Request) {
	switch {
	case wire.Modern(wire.Header(r.Header, wire.HeaderProtocolVersion)):
		refuseMethod(w, "POST", "This revision listens by subscriptions/listen")
		return
	case !acceptsStream(w, r):
		return
	}
	who, ok := g.authenticate(w, r, nil)
	if !ok {
		return
	}
	session, ok := g.openSession(w, r, who.Principal, time.Now())
	if !ok {
		return
	}
	g.settle(r.Context(), who.Principal) // a gateway that just began has no news for those who come back to it
	last, sub := wire.Header(r.Header, wire.HeaderLastEventID), g.subscribe(who.Principal)
	g.serveDetached(w, r, func(ctx context.Context, out *eventStream) {
		defer g.leave(sub)
		ctx, end := until(ctx, who.Expires)
		defer end()
		ctx, leave := g.sessions.stream(ctx, &session)
		defer leave()
		ids, view := eventIDs{stream: randomName()}, g.seen(sub)
		if session.Revision >= wire.Rev20251125 { // its clients know events without data
			out.event(ids.next(view), nil)
		}
		changed := wire.AppendNotification(nil, wire.PromptsListChanged, nil)
		if last != "" && !isAbout(last, view) {
			out.event(ids.next(view), changed)
		}
		g.stream(ctx, out, &who, sub, func() { out.event(ids.next(g.seen(sub)), changed) })
	})
}

// eventIDs makes the ids of one stream's events: STREAM.COUNTER.FINGERPRINT.
type eventIDs struct {
	stream  string
	counter int
}

func randomName() string {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}

func (e *eventIDs) next(view catalog.Fingerprint) string {
	e.counter++
	return e.stream + "." + strconv.Itoa(e.counter) + "." + hex.EncodeToString(view[:])
}

// isAbout reports whether an event's id, of whichever replica and stream, ends in the view's fingerprint.
func isAbout(id string, view catalog.Fingerprint) bool {
	return id[strings.LastIndexByte(id, '.')+1:] == hex.EncodeToString(view[:])
}
