package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sessionLifetime is the lifetime of a legacy session.
const sessionLifetime = 24 * time.Hour

// legacyExchange is an HTTP request within a session of the legacy era.
type legacyExchange struct {
	x      *exchange
	caller snapshot.Caller
	sealed seal.Session
}

// inSession authenticates the caller, opens its session and calls serve. Otherwise it responds with
// the error.
func (x *exchange) inSession(serve func(*legacyExchange)) {
	caller, ok := x.authenticate(nil)
	if !ok {
		return
	}
	if sealed, ok := x.openSession(&caller, time.Now()); ok {
		serve(&legacyExchange{x, caller, sealed})
	}
}

// admitLegacy checks a message of the legacy era over HTTP, see [protocol].
func (x *exchange) admitLegacy(request *requests.Request, raw []byte) (ctx context.Context, status int, ok bool) {
	request.ResolveTool()
	// Authenticate first: a session token is valid only for its principal.
	caller, ok := x.authenticate(request.Message.ID)
	if !ok {
		return nil, 0, false
	}
	request.Caller, request.Snapshot = caller, x.snapshot
	if request.Message.Method == wire.Initialize && request.Message.IsRequest() {
		x.serveInitialize(request)
		return nil, 0, false
	}
	sealed, ok := x.openSession(&caller, request.Received)
	if !ok {
		return nil, 0, false
	}
	l := legacyExchange{x, caller, sealed}
	request.Revision, request.Session = sealed.Revision, sealed.ID
	request.Software = requests.Software{Name: sealed.ClientName, Version: sealed.ClientVersion}
	if !request.Message.IsRequest() {
		s := l.session()
		if !s.receive(request) && l.forwardReply(x.w, &request.Message, raw) {
			return nil, 0, false
		}
		x.w.WriteHeader(http.StatusAccepted)
		return nil, 0, false
	}
	ctx = requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header)
	switch request.Message.Method {
	case wire.PromptsGet, wire.Complete, wire.SetLogLevel, wire.ResourcesRead, wire.DirectoryRead:
		// Other messages are answered at once, without the session's state.
		s := l.session()
		if request.Message.Method == wire.SetLogLevel {
			s.setLogLevel = l.logLevelSetter()
		}
		s.connect(request)
		var begun *cancellable
		if ctx, begun = s.inFlight.begin(ctx, s.id, request.Message.ID); begun == nil {
			refusal := errInFlight()
			x.record(ctx, request, refusal)
			x.refuse(http.StatusOK, request.Message.ID, refusal)
			return nil, 0, false
		}
		x.scope.InFlight = begun
	}
	return ctx, http.StatusOK, true
}

// errInFlight refuses a request of a session with too many in flight.
func errInFlight() *wire.Error {
	return requests.Overloaded("Too many requests in flight: read the responses before you send more")
}

// session returns the state of a sealed session. Set its setLogLevel if a request may change the
// log level.
func (l *legacyExchange) session() session {
	t, sealed := l.x.t, &l.sealed
	return session{
		id: sealed.ID, inFlight: &t.inFlight, replies: &t.replies,
		revision: sealed.Revision, capabilities: wire.Capabilities(sealed.Capabilities),
		software: requests.Software{Name: sealed.ClientName, Version: sealed.ClientVersion},
		logLevel: t.sessions.logLevel(sealed.ID),
	}
}

func (l *legacyExchange) logLevelSetter() func(level string) {
	sessions, id := l.x.t.sessions, l.sealed.ID
	return func(level string) { sessions.setLogLevel(id, level) }
}

// serveInitialize begins a session. Its sealed token contains all that other replicas need.
func (x *exchange) serveInitialize(request *requests.Request) {
	ctx := requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header)
	result, refusal := initialize(x.t.requests, request)
	if refusal != nil {
		x.refuse(http.StatusOK, request.Message.ID, refusal)
		return
	}
	sealed := seal.Session{
		Revision: request.Revision, Capabilities: uint8(request.Capabilities),
		ClientName: request.Software.Name, ClientVersion: request.Software.Version, Variant: string(x.variant),
		Principal: request.Caller.Principal.Key(), Expires: time.Now().Add(sessionLifetime),
	}
	_, _ = rand.Read(sealed.ID[:]) // never fails
	token, err := x.snapshot.Sealer.SealSession(sealed)
	x.record(ctx, request, err)
	if err != nil {
		x.t.logger.ErrorContext(ctx, "session not sealed", slog.Any("error", err))
		x.refuse(http.StatusInternalServerError, request.Message.ID,
			wire.NewError(wire.InternalError, "Internal error"))
		return
	}
	x.w.Header().Set(wire.HeaderSessionID, token)
	// The write fails only if the client has left.
	_ = writeJSON(x.w, http.StatusOK, wire.AppendResult(nil, request.Message.ID, result))
}

// openSession opens the session token of a legacy request. Otherwise it responds: 400 without a
// token, 404 if the session has ended, belongs to another caller or variant, or was not made by the
// gateway (2025-11-25, Transports, "Session Management").
func (x *exchange) openSession(caller *snapshot.Caller, now time.Time) (seal.Session, bool) {
	// Revisions before 2025-06-18 do not have this header. The session's revision is sealed in its
	// token.
	if header := wire.Header(x.r.Header, wire.HeaderProtocolVersion); header != "" && !wire.KnownLegacy(header) {
		x.refuse(http.StatusBadRequest, nil, requests.UnsupportedVersion(header))
		return seal.Session{}, false
	}
	token := wire.Header(x.r.Header, wire.HeaderSessionID)
	if token == "" {
		x.refuse(http.StatusBadRequest, nil,
			wire.NewError(wire.InvalidRequest, "Mcp-Session-Id is required: begin with initialize"))
		return seal.Session{}, false
	}
	s, err := x.snapshot.Sealer.OpenSession(token)
	if err != nil || !caller.Principal.HasKey(s.Principal) || s.Variant != string(x.variant) ||
		!s.Expires.After(now) || x.t.sessions.hasEnded(s.ID) {
		x.refuse(http.StatusNotFound, nil,
			wire.NewError(wire.InvalidRequest, "Session not found: begin with initialize"))
		return seal.Session{}, false
	}
	return s, true
}

// end ends the session.
func (l *legacyExchange) end() {
	l.x.t.sessions.end(l.sealed.ID)
	l.x.t.replies.end(l.sealed.ID)
	l.x.w.WriteHeader(http.StatusNoContent)
}

// serveStream serves the GET stream of a legacy client with notifications of changes. Event ids end
// in the view's fingerprint. A client that resumes after an id with another fingerprint, or without
// one, is notified at once.
func (l *legacyExchange) serveStream() {
	x, caller, s := l.x, l.caller, l.sealed
	// Wait before the stream is counted, because this may take two seconds.
	if !x.awaitTried(&caller, nil) {
		return
	}
	release, ok := x.countStream(&caller, nil)
	if !ok {
		return
	}
	last, sub, t := wire.Header(x.r.Header, wire.HeaderLastEventID), x.t.publisher.Subscribe(caller.Principal), x.t
	x.snapshot = nil // would stay in memory as long as the stream
	x.serveStream(release, sub, caller.Principal.Expires, func(ctx context.Context, out *eventStream) {
		ctx, leave := t.sessions.addStream(ctx, &s)
		defer leave()
		// Read the view after Subscribe, so that follow notices every later change.
		ids := eventIDs{stream: rand.Text()}
		view := sub.View()
		changed := wire.AppendNotification(nil, wire.PromptsListChanged, nil)
		switch {
		case last != "" && !isAbout(last, view):
			// Send the id with the notification. After an event with only the id, a client could
			// resume without having received the notification.
			out.event(ids.next(view), changed)
		case s.Revision >= wire.Rev20251125: // clients of that revision accept events without data
			out.event(ids.next(view), nil)
		default: // proxies and clients may wait for the first byte
			out.comment()
		}
		send := func(message []byte) { out.event(ids.next(sub.View()), message) }
		t.follow(ctx, &caller, sub, func() { send(changed) },
			outlet{send, out.comment, func() bool { return out.err != nil }, nil, x.variant})
	})
}

// eventIDs makes the event ids of one stream: STREAM.COUNTER.FINGERPRINT.
type eventIDs struct {
	stream  string
	counter int
}

func (e *eventIDs) next(view catalog.Fingerprint) string {
	e.counter++
	return e.stream + "." + strconv.Itoa(e.counter) + "." + hex.EncodeToString(view[:])
}

// isAbout reports whether an event id, of any replica and stream, ends in the view's fingerprint.
func isAbout(id string, view catalog.Fingerprint) bool {
	return id[strings.LastIndexByte(id, '.')+1:] == hex.EncodeToString(view[:])
}
