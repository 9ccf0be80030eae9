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

// sessionLifetime is the time after which a client must send initialize again.
const sessionLifetime = 24 * time.Hour

// legacyExchange is an HTTP request in a legacy session.
type legacyExchange struct {
	x      *exchange
	caller snapshot.Caller
	sealed seal.Session
}

// inSession authenticates the caller, opens its session and calls serve. If the credential or the
// session is not accepted, it responds with an error.
func (x *exchange) inSession(serve func(*legacyExchange)) {
	caller, ok := x.authenticate(nil)
	if !ok {
		return
	}
	if sealed, ok := x.openSession(&caller, time.Now()); ok {
		serve(&legacyExchange{x, caller, sealed})
	}
}

// admitLegacy implements [protocol].admit for the legacy era.
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
		// Only these requests need the session's state. The gateway answers all others itself.
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

// errInFlight returns the error for a request of a session that has too many requests in flight.
func errInFlight() *wire.Error {
	return requests.Overloaded("Too many requests in flight: read the responses before you send more")
}

// session returns the session's state, without setLogLevel.
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

// serveInitialize begins a session and responds with its token. The token contains the session's
// state, so that any replica can serve the session.
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
	// An error means that the client has left.
	_ = writeJSON(x.w, http.StatusOK, wire.AppendResult(nil, request.Message.ID, result))
}

// openSession opens the session token of a legacy request. If that fails, it responds and returns
// false: 400 for an unsupported revision or a missing token, 404 for a token that is invalid, has
// ended, or belongs to another caller or variant (2025-11-25, Transports, "Session Management").
func (x *exchange) openSession(caller *snapshot.Caller, now time.Time) (seal.Session, bool) {
	// Clients of revisions before 2025-06-18 do not send this header. The token contains the session's
	// revision.
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

// end ends the session, on this replica.
func (l *legacyExchange) end() {
	l.x.t.sessions.end(l.sealed.ID)
	l.x.t.replies.end(l.sealed.ID)
	l.x.w.WriteHeader(http.StatusNoContent)
}

// serveStream serves the GET stream of a legacy client, with notifications of changes. Event ids end
// in the fingerprint of the client's view. A client that resumes the stream after an event with another
// fingerprint is notified immediately.
func (l *legacyExchange) serveStream() {
	x, caller, s := l.x, l.caller, l.sealed
	// Wait before the stream is counted: this may take two seconds.
	if !x.awaitTried(&caller, nil) {
		return
	}
	release, ok := x.countStream(&caller, nil)
	if !ok {
		return
	}
	last, sub, t := wire.Header(x.r.Header, wire.HeaderLastEventID), x.t.publisher.Subscribe(caller.Principal), x.t
	x.snapshot = nil // frees the snapshot while the stream is open
	x.serveStream(release, sub, caller.Principal.Expires, func(ctx context.Context, out *eventStream) {
		ctx, leave := t.sessions.addStream(ctx, &s)
		defer leave()
		// Read the view after Subscribe: follow then notices every later change.
		ids := eventIDs{stream: rand.Text()}
		view := sub.View()
		changed := wire.AppendNotification(nil, wire.PromptsListChanged, nil)
		switch {
		case last != "" && !isAbout(last, view):
			// Send the id with the notification. If the client got the id first and lost the connection,
			// it would resume without the notification.
			out.event(ids.next(view), changed)
		case s.Revision >= wire.Rev20251125: // these clients accept events without data
			out.event(ids.next(view), nil)
		default: // proxies and clients may wait for a first byte
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

// isAbout reports whether an event id ends in the view's fingerprint. The id may be from another
// replica or stream.
func isAbout(id string, view catalog.Fingerprint) bool {
	return id[strings.LastIndexByte(id, '.')+1:] == hex.EncodeToString(view[:])
}
