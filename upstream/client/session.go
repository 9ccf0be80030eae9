package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// Declared are the capabilities that the server declared.
	Declared Declared
	// Promptless explains why the server offers neither prompts nor served skills. It is nil if the server offers any.
	Promptless *Cause

	dialer     *Dialer
	ownsDialer bool
	// server is the configuration with the transport and revision that were found, so that Sibling does not negotiate
	// again.
	server    config.Upstream
	opts      SessionOptions
	transport transport
	// modern is true for a session of the modern era. Unlike Revision, it may be read during the negotiation.
	modern atomic.Bool

	// inFlight counts the calls that wait for a response. A subscription does not count.
	inFlight atomic.Int64
	lastID   atomic.Int64
	outbox   *outbox
	relays   *relays
	// severity is the least severe level of log messages that the server was told to send, or 0 if
	// it was told no level yet. Only the holder of logSlot reads and sets it. logSlot is a
	// semaphore, because a wait for it can end with a context.
	severity int
	logSlot  *semaphore.Weighted

	// acknowledged is called when the server acknowledges a subscriptions/listen request. It is nil
	// before the first such request.
	acknowledged atomic.Pointer[func()]
}

func newSession(d *Dialer, server config.Upstream, t transport, opts SessionOptions) *Session {
	out := &outbox{send: t.send, logger: d.logger, slots: semaphore.NewWeighted(maxBackground)}
	return &Session{
		dialer: d, server: server, opts: opts, transport: t, outbox: out, logSlot: semaphore.NewWeighted(1),
		relays: &relays{
			opts: opts, outbox: out, logger: d.logger,
			calls: map[int64]*relayedCall{}, pending: map[string]context.CancelFunc{},
		},
	}
}

// open negotiates a revision and completes the handshake.
func (s *Session) open(ctx context.Context) error {
	begun := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.limitHandshake(cancel).Stop()
	agreed, err := s.negotiate(ctx)
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		late := &stageError{error: context.DeadlineExceeded, method: wire.Initialize}
		if stopped, ok := errors.AsType[*stageError](err); ok {
			late.method, late.stage = stopped.method, stopped.stage
		}
		if s.server.Transport == config.Stdio {
			late.waited = time.Since(begun)
		}
		err = late
	}
	if err != nil {
		return err
	}
	s.Revision, s.Declared = agreed.revision, declaredBy(agreed.capabilities, agreed.revision)
	if !s.Declared.Prompts && !s.ServesSkills() {
		s.Promptless = promptless(agreed.capabilities)
	}
	s.modern.Store(wire.Modern(agreed.revision))
	s.server.Protocol = agreed.revision
	s.transport.setRevision(agreed.revision)
	if wire.Modern(s.Revision) {
		return nil
	}
	// Before this notification, a legacy server may send only pings and log messages (2025-11-25, Lifecycle,
	// "Initialization").
	if err := s.transport.send(ctx, wire.AppendNotification(nil, wire.Initialized, nil)); err != nil {
		return fmt.Errorf("%s: %w", wire.Initialized, err)
	}
	return nil
}

// limitHandshake ends a handshake that takes too long. A child that writes to its stderr may be
// installing itself, so it gets more time.
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

// LegacySibling tries to open a session of the legacy era with the server of a modern session. Not
// every modern server supports the legacy era.
func (s *Session) LegacySibling(ctx context.Context, opts SessionOptions) (*Session, error) {
	server := s.server
	server.Protocol = anyLegacy
	return s.dialer.open(ctx, server, opts)
}

// MayBeLegacyToo reports whether a modern session was negotiated, so that its server may speak the
// legacy era as well.
func (s *Session) MayBeLegacyToo() bool { return wire.Modern(s.Revision) && s.dialer.negotiatesEra() }

// Transport returns the transport that was configured or found.
func (s *Session) Transport() config.Transport { return s.server.Transport }

// ClockOffset returns how far the server's clock was ahead of this machine's during the handshake, rounded to the second
// (RFC 9110, section 6.6.1). It is 0 unless the server speaks Streamable HTTP and sends its time.
func (s *Session) ClockOffset() time.Duration {
	if t, ok := s.transport.(*httpTransport); ok {
		return t.clockOffset
	}
	return 0
}

// TiesMessages reports whether the transport shows which call a server's message belongs to.
func (s *Session) TiesMessages() bool { return s.Transport() == config.StreamableHTTP }

// Abandoned reports whether a call ended without a response, so that the server may still be
// working on it.
func (s *Session) Abandoned() bool { return s.relays.abandoned.Load() }

// Done is closed when the session can no longer be used. [Session.Err] then returns the reason.
func (s *Session) Done() <-chan struct{} { return s.transport.done() }

// Err returns the reason why the session can no longer be used. Call it only after [Session.Done] is closed.
func (s *Session) Err() error { return s.dialer.failure(s.transport.err()) }

// Request is a request for a server.
type Request struct {
	Method string
	// Name is the value of the Mcp-Name header: the prompt's name for prompts/get, the uri for
	// resources/read. It is empty for other methods.
	Name string
	// Params may be nil. Meta are the members of their _meta, or nil if they are not known yet.
	Params, Meta wire.Object
	// Assertion tells the server who the caller is. It is sent over HTTP only.
	Assertion Assertion
	// Memory is memory that the result may use: the result is invalid once something else uses it. The call
	// replaces memory that is too small. If Memory is nil, the result has memory of its own.
	Memory *[]byte
}

// Assertion is a header that identifies the caller of one request. The zero value adds no header.
type Assertion struct{ Header, Value string }

// Result is the result of a request.
type Result struct {
	// JSON is the result as the server sent it, always an object, but without optional members that
	// are null.
	JSON jsontext.Value
	// Revision is the protocol revision of the session.
	Revision string
	// HasOwnMeta reports whether JSON may contain promptweir's keys, see [wire.Message.HasOwnMeta]. Commands read the keys
	// that a gateway sets. A gateway removes the keys that a server sets.
	HasOwnMeta bool
}

// Call sends a request and returns its result. It returns an error as soon as ctx ends. The error
// is a [*wire.Error] if the server answered with an error. Until Call returns, the relay passes on
// the server's messages about this request. A nil relay passes on nothing.
func (s *Session) Call(ctx context.Context, q *Request, relay *Relay) (Result, error) {
	if relay == nil {
		relay = &Relay{}
	}
	if q.Method != wire.Listen {
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
	}
	r := &request{id: s.lastID.Add(1), method: q.Method, name: q.Name, revision: s.Revision, assertion: q.Assertion, memory: q.Memory}
	r.params = outgoingParams(ctx, s.Revision, s.dialer.implementation, relay, r.id, q.Params, q.Meta)
	// Most calls relay nothing, so the session need not match messages with them.
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
		// The transport's error only shows where the end of the context interrupted the request. The cause of the
		// context is the reason, such as a deadline.
		s.giveUp(ctx, r.id)
		err = replaceCause(err, context.Cause(ctx))
	case err != nil:
	case r.response.Error != nil:
		// The error may outlast the memory of the result, such as in the state of the upstream.
		err = responseError(bytes.Clone(r.response.Error))
	case r.response.Result.Kind() != '{':
		err = &ProtocolError{problem: "the result is not an object"}
	default:
		result := r.response.Result
		if r.response.HasNull && (q.Method == wire.PromptsGet || q.Method == wire.Complete) {
			result = withoutNulls(result)
		}
		return Result{JSON: result, Revision: s.Revision, HasOwnMeta: r.response.HasOwnMeta}, nil
	}
	switch {
	case call == nil:
	case call.requested.Load(): // a repeated request would ask the client twice
		err = &startedError{err}
	case call.notified.Load():
		err = &relayedError{err}
	}
	return Result{}, s.dialer.failure(err)
}

// responseError returns the [*wire.Error] of an error response, or a [*ProtocolError] if the response is invalid.
func responseError(raw jsontext.Value) error {
	wireErr, err := wire.ReadError(raw)
	if err != nil {
		return &ProtocolError{problem: err.Error()}
	}
	return wireErr
}

// giveUp notifies the server, in the background, that a request is abandoned. The notification contains the client's
// reason, if there is one. Over HTTP in the modern era, the transport drops the notification: the closed stream has the
// same meaning.
func (s *Session) giveUp(ctx context.Context, id int64) {
	s.relays.abandoned.Store(true)
	reason := "the caller gave up"
	if cancelled, ok := errors.AsType[*wire.CancelledError](context.Cause(ctx)); ok && cancelled.Reason != "" {
		reason = cancelled.Reason
	}
	params := wire.Object{}.With("requestId", wire.NumberID(id)).With("reason", wire.Quote(reason))
	s.outbox.post(wire.AppendNotification(nil, wire.Cancelled, params.JSON()))
}

// Ping checks that the server still answers, within the upstream's timeout. An error is an answer too, unless it shows
// that the session is lost: then Ping returns an error that wraps [ErrSessionLost].
func (s *Session) Ping(ctx context.Context) error {
	_, err := ping(ctx, s)
	if o := OutcomeOf(err); o.Lost || o.Suspicious {
		return err
	}
	return nil
}

// Recheck requests the server's capabilities again. If they have changed, it returns an error that wraps
// [ErrSessionLost], because a new session is needed. Any other error means that the server does not answer or refuses
// the request.
//
// A modern server receives server/discover. A legacy server declares its capabilities only at the start of a session, so
// Recheck opens a second session. Over stdio, that would start a second process, which shows nothing about the first one.
// So a child process only receives a ping.
func (s *Session) Recheck(ctx context.Context) error {
	declared := s.Declared
	switch {
	case wire.Modern(s.Revision):
		result, err := ping(ctx, s)
		if o := OutcomeOf(err); o.Lost || o.Suspicious {
			return err
		}
		if members, err := wire.ParseObject(result.JSON); err == nil { // otherwise the server answered with an error
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
	if declared != s.Declared {
		return fmt.Errorf("%w: the server's capabilities have changed since the session began", ErrSessionLost)
	}
	return nil
}

// Watch receives messages that belong to no call until ctx ends or the stream breaks. It calls
// ready once no change of the list can be missed. If the server offers no such stream, it returns
// [ErrNoStream].
func (s *Session) Watch(ctx context.Context, ready func()) error {
	s.acknowledged.Store(&ready)
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

// receive handles a message that is not a response. call is the call to which the transport ties the message, or nil if
// it ties the message to no call. receive must not block.
func (s *Session) receive(m *wire.Message, call *relayedCall) {
	switch {
	case m.Method == wire.PromptsListChanged:
		if s.opts.OnListChanged != nil {
			s.opts.OnListChanged()
		}
	case m.Method == wire.Acknowledged:
		if acknowledged := s.acknowledged.Load(); acknowledged != nil {
			(*acknowledged)()
		}
	case m.IsRequest() && s.modern.Load(): // the modern era has no such requests
		s.dialer.logger.Debug("message ignored", slog.String("method", m.Method))
	default:
		s.relays.receive(m, call)
	}
}

// lowerLogLevel makes a legacy server send the log messages that a client requests. The level
// applies to the whole session, so it is only lowered. A relay drops all log messages if its client
// requested none.
func (s *Session) lowerLogLevel(ctx context.Context, level string) {
	if level == "" || wire.Modern(s.Revision) || !s.Declared.Logging {
		return
	}
	if s.logSlot.Acquire(ctx, 1) != nil {
		return // the call itself ends with its context
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
	// Messages in flight fail once the transport is closed, so the wait for them is short.
	s.outbox.close()
	s.transport.close()
	s.outbox.work.Wait()
	if s.ownsDialer {
		s.dialer.CloseIdleConnections()
	}
}
