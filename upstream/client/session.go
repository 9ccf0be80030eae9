package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Session is an open session with one server: a revision is agreed on, calls can be made. Its
// methods are safe for concurrent use.
type Session struct {
	// Revision is the protocol revision that both sides speak.
	Revision string
	// Declared is what the server declared.
	Declared Declared

	dialer     *Dialer
	ownsDialer bool
	// server says how the server was reached in the end; another session needs no negotiation.
	server    config.Upstream
	opts      SessionOptions
	transport transport
	// modern repeats what Revision says for messages that arrive while it is still being
	// negotiated.
	modern atomic.Bool

	// inFlight counts the calls that wait for their response. A subscription is not one.
	inFlight atomic.Int64
	lastID   atomic.Int64
	outbox   *outbox
	relays   *relays
	// severity is that from which on the server was told to send log messages; 0 before the first.
	// Whoever reads or sets it holds logSlot, which can be waited for until a context ends.
	severity int
	logSlot  *semaphore.Weighted

	mu sync.Mutex // guards what follows
	// acknowledged is called when the server acknowledges a subscriptions/listen request.
	acknowledged func()
}

func newSession(d *Dialer, server config.Upstream, t transport, opts SessionOptions) *Session {
	out := newOutbox(t.send, d.logger)
	return &Session{
		dialer: d, server: server, opts: opts, transport: t,
		outbox: out, relays: newRelays(opts, out, d.logger), logSlot: semaphore.NewWeighted(1),
	}
}

func (s *Session) negotiator() *negotiator {
	return &negotiator{
		transport: s.transport, lastID: &s.lastID, logger: s.dialer.logger,
		self: s.dialer.implementation, capabilities: s.opts.Capabilities,
	}
}

// open negotiates a revision and completes the handshake.
func (s *Session) open(ctx context.Context) error {
	begun := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.limitHandshake(cancel).Stop()
	agreed, err := s.negotiator().negotiate(ctx, s.server)
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		late := &stageError{method: wire.Initialize}
		if stopped, ok := errors.AsType[*stageError](err); ok {
			late.method, late.stage = stopped.method, stopped.stage
		}
		if err, late.error = late, context.DeadlineExceeded; s.server.Transport == config.Stdio {
			late.waited = time.Since(begun)
		}
	}
	if err != nil {
		return err
	}
	s.Revision, s.Declared = agreed.revision, declaredBy(agreed.capabilities, agreed.revision)
	s.modern.Store(wire.Modern(agreed.revision))
	s.server.Protocol = agreed.revision
	s.transport.setRevision(agreed.revision)
	if wire.Modern(s.Revision) {
		return nil
	}
	// Before it gets this, a legacy server may send only pings and log messages (2025-11-25,
	// Lifecycle, "Initialization").
	if err := s.transport.send(ctx, wire.AppendNotification(nil, wire.Initialized, nil)); err != nil {
		return fmt.Errorf("%s: %w", wire.Initialized, err)
	}
	return nil
}

// limitHandshake ends a handshake that takes too long. A child that writes to its stderr may be installing
// itself, and has more time.
func (s *Session) limitHandshake(end context.CancelCauseFunc) *time.Timer {
	limit, most := max(handshakeTimeout, s.server.Timeout), max(busyHandshakeTimeout, s.server.Timeout)
	timeOver := func() { end(context.DeadlineExceeded) }
	return time.AfterFunc(limit, func() {
		if c, ok := s.transport.(interface{ wroteStderr() bool }); ok && c.wroteStderr() && most > limit {
			time.AfterFunc(most-limit, timeOver)
			return
		}
		timeOver()
	})
}

// Sibling opens another session with the same server, without negotiating transport and revision
// again.
func (s *Session) Sibling(ctx context.Context, opts SessionOptions) (*Session, error) {
	return s.dialer.open(ctx, s.server, opts)
}

// LegacySibling opens a session of the legacy era with the server of a modern session, which may
// speak both.
func (s *Session) LegacySibling(ctx context.Context, opts SessionOptions) (*Session, error) {
	server := s.server
	server.Protocol = anyLegacy
	return s.dialer.open(ctx, server, opts)
}

// MayBeLegacyToo reports whether the server of a modern session may be spoken to in the legacy era
// as well: no revision is configured for it.
func (s *Session) MayBeLegacyToo() bool { return wire.Modern(s.Revision) && s.dialer.negotiatesEra() }

// Transport returns the transport by which the server was reached.
func (s *Session) Transport() config.Transport { return s.server.Transport }

// ClockOffset returns by how much the server's clock was ahead of this machine's when it answered
// the handshake, to the second. It is 0 where the server did not tell its time, as no child process
// does.
func (s *Session) ClockOffset() time.Duration {
	if t, ok := s.transport.(*httpTransport); ok {
		return t.clockOffset
	}
	return 0
}

// TiesMessages reports whether the transport tells which call a server's message belongs to.
func (s *Session) TiesMessages() bool { return s.Transport() == config.StreamableHTTP }

// Abandoned reports whether a call ended without a response, so that the server may still be
// working on it.
func (s *Session) Abandoned() bool { return s.relays.abandoned.Load() }

// Done is closed when the session's connection has broken for good. [Session.Err] then says why.
func (s *Session) Done() <-chan struct{} { return s.transport.done() }

// Err returns why the connection broke. It must not be called before [Session.Done] is closed.
func (s *Session) Err() error { return s.dialer.failure(s.transport.err()) }

// Request is a request for a server.
type Request struct {
	Method string
	// Name is the prompt's name for prompts/get and empty otherwise: it goes into the Mcp-Name
	// header.
	Name string
	// Params may be nil.
	Params wire.Object
	// Assertion says to the server who calls. It is sent over HTTP only.
	Assertion Assertion
}

// Assertion is a header of one request; the zero value is none.
type Assertion struct{ Header, Value string }

// set sets the header.
func (a Assertion) set(header http.Header) {
	if a.Value != "" {
		header.Set(a.Header, a.Value)
	}
}

// Result is the result of a request.
type Result struct {
	// JSON is the result as it was sent, always an object, without optional members that are null.
	JSON jsontext.Value
	// Revision is the protocol revision that the server speaks.
	Revision string
}

// Call sends a request and returns its result, or an error as soon as ctx ends. The error is a
// [*wire.Error] if the server answered with one. Until Call returns, the relay passes on what the
// server says about this request; a nil relay passes on nothing.
func (s *Session) Call(ctx context.Context, q *Request, relay *Relay) (Result, error) {
	if relay == nil {
		relay = &Relay{}
	}
	if q.Method != wire.Listen {
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
	}
	r := &request{id: s.lastID.Add(1), method: q.Method, name: q.Name, revision: s.Revision, assertion: q.Assertion}
	r.params = outgoingParams(ctx, s.Revision, s.dialer.implementation, relay, r.id, q.Params)
	// Most calls relay nothing, so that no message of the server has to be matched with them.
	var call *relayedCall
	if relay.relays() {
		s.lowerLogLevel(ctx, relay.LogLevel)
		call = s.relays.begin(ctx, relay, r.id)
		defer call.end()
		r.onMessage = func(m *wire.Message) { s.receive(m, call) }
	}
	err := s.transport.roundTrip(ctx, r)
	switch {
	case err != nil && ctx.Err() != nil:
		// Transports return what broke when the context ended. The cause says why it ended, a
		// deadline for example.
		s.giveUp(ctx, r.id)
		err = replaceCause(err, context.Cause(ctx))
	case err != nil:
	case r.response.Error != nil:
		err = responseError(r.response.Error)
	case r.response.Result.Kind() != '{':
		err = &ProtocolError{problem: "the result is not an object"}
	default:
		return Result{JSON: withoutNulls(q.Method, r.response.Result), Revision: s.Revision}, nil
	}
	switch {
	case call == nil:
	case call.requested.Load(): // the client must not be asked the same again
		err = &startedError{err}
	case call.notified.Load():
		err = &relayedError{err}
	}
	return Result{}, s.dialer.failure(err)
}

// responseError returns the error that an error response contains, or says why it contains none.
func responseError(raw jsontext.Value) error {
	wireErr, err := wire.ReadError(raw)
	if err != nil {
		return &ProtocolError{problem: err.Error()}
	}
	return wireErr
}

// giveUp tells the server in the background that nobody waits for a request any more, and why if
// its client said so. Over HTTP in the modern era the closed stream says so already, and the
// transport drops the message.
func (s *Session) giveUp(ctx context.Context, id int64) {
	s.relays.abandoned.Store(true)
	reason := "the caller gave up"
	if cancelled, ok := errors.AsType[*wire.CancelledError](context.Cause(ctx)); ok && cancelled.Reason != "" {
		reason = cancelled.Reason
	}
	params := wire.Object{}.With("requestId", wire.NumberID(id)).With("reason", wire.Quote(reason))
	s.outbox.post(wire.AppendNotification(nil, wire.Cancelled, params.JSON()))
}

// Ping checks that the server still answers. Any answer will do, even an error, unless it shows that
// the session is lost: then the error is [ErrSessionLost].
func (s *Session) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	_, err := ping(ctx, s)
	if o := OutcomeOf(err); o.Lost || o.Suspicious {
		return err
	}
	return nil
}

// Recheck asks the server again which capabilities it has. The error is [ErrSessionLost] if they
// are no longer those of the session, so that a new one is needed, and otherwise that of a server
// that does not answer or refuses to.
//
// A modern server is asked by server/discover. A legacy one declares them only when a session
// begins, so a second session is opened; over stdio that would be a second process, whose answer
// would say nothing about the first, and a ping must do.
func (s *Session) Recheck(ctx context.Context) error {
	declared := s.Declared
	switch {
	case wire.Modern(s.Revision):
		ctx, cancel := context.WithTimeout(ctx, s.server.Timeout)
		defer cancel()
		result, err := ping(ctx, s)
		if o := OutcomeOf(err); o.Lost || o.Suspicious {
			return err
		}
		if members, err := wire.ParseObject(result.JSON); err == nil { // else the answer is an error
			declared = declaredBy(members.Object("capabilities"), s.Revision)
		}
	case s.server.Transport == config.Stdio:
		return s.Ping(ctx)
	default:
		other, err := s.dialer.Connect(ctx, SessionOptions{})
		if err != nil {
			return err
		}
		defer other.Close()
		declared = other.Declared
		if wire.Modern(other.Revision) {
			return fmt.Errorf("%w: the server has changed eras since the session began", ErrSessionLost)
		}
	}
	if !declared.same(s.Declared) {
		return fmt.Errorf("%w: the server's capabilities have changed since the session began", ErrSessionLost)
	}
	return nil
}

// Watch receives messages that belong to no call until ctx ends or the stream breaks. It calls
// ready as soon as no change of the list can be missed any more, and returns [ErrNoStream] if the
// server offers no such stream.
func (s *Session) Watch(ctx context.Context, ready func()) error {
	s.mu.Lock()
	s.acknowledged = ready
	s.mu.Unlock()
	if !wire.Modern(s.Revision) || s.opts.OnListChanged == nil {
		err := s.transport.standalone(ctx, ready)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return s.dialer.failure(err)
	}
	filter := wire.Object{}.With("promptsListChanged", jsontext.Value("true"))
	_, err := s.Call(ctx, &Request{Method: wire.Listen, Params: wire.Object{}.With("notifications", filter.JSON())}, nil)
	if wireErr, ok := errors.AsType[*wire.Error](err); ok && wireErr.Code == wire.MethodNotFound {
		return ErrNoStream
	}
	if err == nil { // the server ended the subscription gracefully
		return errStreamEnded
	}
	return err
}

// receive takes a message that is not a response. Call is the call that the transport ties it to,
// or nil. It must not block.
func (s *Session) receive(m *wire.Message, call *relayedCall) {
	switch {
	case m.Method == wire.PromptsListChanged:
		if s.opts.OnListChanged != nil {
			s.opts.OnListChanged()
		}
	case m.Method == wire.Acknowledged:
		s.mu.Lock()
		acknowledged := s.acknowledged
		s.mu.Unlock()
		if acknowledged != nil {
			acknowledged()
		}
	case m.IsRequest() && s.modern.Load(): // the modern era has none
		s.dialer.logger.Debug("message ignored", slog.String("method", m.Method))
	default:
		s.relays.receive(m, call)
	}
}

// lowerLogLevel makes a legacy server send the log messages that a client wants. The level counts
// for the whole session, so it is only ever lowered; relays hold back what other clients did not
// ask for.
func (s *Session) lowerLogLevel(ctx context.Context, level string) {
	if level == "" || wire.Modern(s.Revision) || !s.Declared.logging {
		return
	}
	if s.logSlot.Acquire(ctx, 1) != nil {
		return // nothing has failed: the call for which the level was to be set ends by itself
	}
	defer s.logSlot.Release(1)
	severity := wire.Severity(level)
	if s.severity != 0 && s.severity <= severity {
		return
	}
	params := wire.Object{}.With("level", wire.Quote(level))
	if _, err := s.Call(ctx, &Request{Method: wire.SetLogLevel, Params: params}, nil); err != nil {
		s.dialer.logger.DebugContext(ctx, "log level not set", slog.Any("error", err))
		return
	}
	s.severity = severity
}

// Close ends the session and waits until everything that belongs to it has ended. A child process
// is asked to exit, then killed.
func (s *Session) Close() {
	// Messages on their way fail as soon as the transport is closed, so that waiting for them does
	// not take long.
	s.outbox.close()
	s.transport.close()
	s.outbox.wait()
	if s.ownsDialer {
		s.dialer.CloseIdleConnections()
	}
}
