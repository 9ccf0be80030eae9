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

// sessionLifetime is how long a legacy session lasts.
const sessionLifetime = 24 * time.Hour

// legacyExchange is an HTTP request in a session of the legacy era.
type legacyExchange struct {
	x      *exchange
	caller snapshot.Caller
	sealed seal.Session
}

// inSession returns the exchange of an authenticated caller with its session, or answers why it is
// none.
func (x *exchange) inSession() (l legacyExchange, ok bool) {
	l.x = x
	if l.caller, ok = x.authenticate(nil); !ok {
		return l, false
	}
	l.sealed, ok = x.openSession(&l.caller, time.Now())
	return l, ok
}

// admitLegacy checks a message of the legacy era over HTTP. It returns the context of a request
// that is to be carried out, and answers everything else.
func (x *exchange) admitLegacy(request *requests.Request, raw []byte) (ctx context.Context, ok bool) {
	request.ResolveTool()
	// Before the session is opened: a token is only its principal's.
	caller, ok := x.authenticate(request.Message.ID)
	if !ok {
		return nil, false
	}
	request.Caller, request.Snapshot = caller, x.snapshot
	if request.Message.Method == wire.Initialize && request.Message.IsRequest() {
		x.serveInitialize(request)
		return nil, false
	}
	sealed, ok := x.openSession(&caller, request.Received)
	if !ok {
		return nil, false
	}
	l := legacyExchange{x, caller, sealed}
	request.Revision, request.Session = sealed.Revision, sealed.ID
	request.Software = requests.Software{Name: sealed.ClientName, Version: sealed.ClientVersion}
	if !request.Message.IsRequest() {
		s := l.session()
		if !s.receive(request) && l.forwardReply(x.w, &request.Message, raw) {
			return nil, false
		}
		x.w.WriteHeader(http.StatusAccepted)
		return nil, false
	}
	ctx = requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header)
	switch request.Message.Method {
	case wire.PromptsGet, wire.Complete, wire.SetLogLevel, wire.ResourcesRead, wire.DirectoryRead:
		// Everything else is answered at once, and needs no session.
		s := l.session()
		if request.Message.Method == wire.SetLogLevel {
			s.setLogLevel = l.logLevelSetter()
		}
		s.connect(request)
		if ctx, x.inFlight = s.inFlight.begin(ctx, s.id, request.Message.ID); x.inFlight == nil {
			refusal := errInFlight()
			x.t.requests.Record(ctx, request, refusal)
			x.refuse(http.StatusOK, request.Message.ID, refusal)
			return nil, false
		}
	}
	return ctx, true
}

// errInFlight refuses a request of a session that has too many in flight.
func errInFlight() *wire.Error {
	return requests.Overloaded("Too many requests in flight: read the responses before you send more")
}

// session returns the driver's session for the sealed one. It cannot set its log level without
// logLevelSetter.
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

// serveInitialize begins a session. All that a replica needs to know of it is in its sealed token.
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
	x.t.requests.Record(ctx, request, err)
	if err != nil {
		x.t.logger.ErrorContext(ctx, "session not sealed", slog.Any("error", err))
		x.refuse(http.StatusInternalServerError, request.Message.ID,
			wire.NewError(wire.InternalError, "Internal error"))
		return
	}
	x.w.Header().Set(wire.HeaderSessionID, token)
	// An error means that the client has gone.
	_ = writeJSON(x.w, http.StatusOK, wire.AppendResult(nil, request.Message.ID, result))
}

// openSession opens the session token of a legacy request, or answers: 400 without one, 404 for one
// that has ended, is not the caller's, is another variant's or was not made by the gateway
// (2025-11-25, Transports, "Session Management").
func (x *exchange) openSession(caller *snapshot.Caller, now time.Time) (seal.Session, bool) {
	// Revisions before 2025-06-18 have no such header. Which one the session speaks is sealed in
	// its token.
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

// serveStream serves the GET stream that tells a legacy client of changes. Each event's id ends in
// the view's fingerprint: a client that resumes from an old fingerprint has missed something, and
// is told at once. So is one that resumes from none.
func (l *legacyExchange) serveStream() {
	x, caller, s := l.x, l.caller, l.sealed
	// Before a stream is counted, since this may take two seconds.
	if !x.settle(&caller, nil) {
		return
	}
	release, ok := x.countStream(&caller, nil)
	if !ok {
		return
	}
	last, sub, t := wire.Header(x.r.Header, wire.HeaderLastEventID), x.t.publisher.Subscribe(caller.Principal), x.t
	x.snapshot = nil // otherwise it would stay in memory as long as the stream
	x.serveStream(release, sub, caller.Principal.Expires, func(ctx context.Context, out *eventStream) {
		ctx, leave := t.sessions.addStream(ctx, &s)
		defer leave()
		// After Subscribe: a change since then is one that follow will tell of.
		ids := eventIDs{stream: rand.Text()}
		view := sub.View()
		changed := wire.AppendNotification(nil, wire.PromptsListChanged, nil)
		switch {
		case last != "" && !isAbout(last, view):
			// Not after an event with only this id, from which the client would go on without the
			// change.
			out.event(ids.next(view), changed)
		case s.Revision >= wire.Rev20251125: // clients of that revision know events without data
			out.event(ids.next(view), nil)
		default: // so that a proxy, or a client, that waits for the first byte has it
			out.comment()
		}
		send := func(message []byte) { out.event(ids.next(sub.View()), message) }
		t.follow(ctx, &caller, sub, func() { send(changed) },
			outlet{send, out.comment, func() bool { return out.err != nil }, nil, x.variant})
	})
}

// eventIDs makes the ids of one stream's events: STREAM.COUNTER.FINGERPRINT.
type eventIDs struct {
	stream  string
	counter int
}

func (e *eventIDs) next(view catalog.Fingerprint) string {
	e.counter++
	return e.stream + "." + strconv.Itoa(e.counter) + "." + hex.EncodeToString(view[:])
}

// isAbout reports whether an event id, of whichever replica and stream, ends in the view's
// fingerprint.
func isAbout(id string, view catalog.Fingerprint) bool {
	return id[strings.LastIndexByte(id, '.')+1:] == hex.EncodeToString(view[:])
}
