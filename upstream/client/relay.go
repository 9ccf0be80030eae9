package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Relay passes on what a server says about a request, before the response, to the client that the
// request is made for. The zero value passes on nothing.
type Relay struct {
	// Capabilities is the object in which the client declares its capabilities; if nil, the one in
	// _meta counts.
	Capabilities jsontext.Value
	// Caller identifies the client among others, so that one client cannot hold all sessions on
	// which calls take turns. All with an empty Caller are one.
	Caller string
	// Reply passes a server request (elicitation, sampling, roots) to the client and returns its
	// reply, or the [*wire.Error] with which it is refused. It must return soon after ctx has
	// ended. If nil, all are refused.
	Reply func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error)
	// Progress says that the client wants progress notifications, and LogLevel from which level on
	// it wants log messages; none if empty.
	Progress bool
	LogLevel string
	// Notify passes on a notification that belongs to the request: progress (the token is the
	// session's, not the client's), log messages of any level, the end of an elicitation by URL. It
	// must not block. It may be nil.
	Notify func(method string, params jsontext.Value)
}

// relays reports whether there is anything that could be passed on.
func (r *Relay) relays() bool {
	return r.Reply != nil || (r.Notify != nil && (r.Progress || r.LogLevel != ""))
}

// maxServerRequests bounds the server requests that wait for a reply during one call.
const maxServerRequests = 8

// relays finds the call that a message of the server belongs to, and passes the message on.
type relays struct {
	opts   SessionOptions
	outbox *outbox
	logger *slog.Logger
	// abandoned is set once any call has ended without a response: the server may still be working
	// on it.
	abandoned atomic.Bool

	mu sync.Mutex // guards what follows, and the fields of calls
	// calls are those in flight with a relay, by request id, which is the progress token as well.
	calls map[int64]*relayedCall
	// begun counts all calls so far.
	begun int
	// pending has what cancels each server request that waits for a reply, by the server's id.
	pending map[string]context.CancelFunc
}

func newRelays(opts SessionOptions, out *outbox, logger *slog.Logger) *relays {
	return &relays{
		opts: opts, outbox: out, logger: logger,
		calls: map[int64]*relayedCall{}, pending: map[string]context.CancelFunc{},
	}
}

// relayedCall is a call in flight with its relay.
type relayedCall struct {
	relays *relays
	relay  *Relay
	id     int64
	ctx    context.Context //nolint:containedctx // the call's
	cancel context.CancelFunc
	work   sync.WaitGroup // replies that are awaited
	// notified is set once a notification was passed on, and requested once a server request was.
	notified, requested atomic.Bool

	// The lock of relays guards what follows.
	pending int
	ended   bool
	urls    []string // ids of the elicitations by URL that the client accepted
}

// begin registers a call. Its end method must be called.
func (rs *relays) begin(ctx context.Context, relay *Relay, id int64) *relayedCall {
	ctx, cancel := context.WithCancel(ctx)
	c := &relayedCall{relays: rs, relay: relay, id: id, ctx: ctx, cancel: cancel}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.calls[id] = c
	rs.begun++
	return c
}

// end cancels the server requests that still wait for a reply, and waits until they have ended.
func (c *relayedCall) end() {
	c.relays.mu.Lock()
	delete(c.relays.calls, c.id)
	c.ended = true
	// Released before the wait: the replies take it when they end.
	c.relays.mu.Unlock()
	c.cancel()
	c.work.Wait()
}

// receive passes on a request or notification of the server. Call is the call that the transport
// ties it to, or nil.
func (rs *relays) receive(m *wire.Message, call *relayedCall) {
	switch {
	case m.IsRequest():
		rs.receiveRequest(m, call)
	case m.Method == wire.Cancelled:
		rs.cancelRequest(m)
	case m.Method == wire.Progress:
		rs.receiveProgress(m, call)
	case m.Method == wire.LogMessage:
		rs.receiveLog(m, call)
	case m.Method == wire.ElicitComplete:
		rs.receiveElicited(m, call)
	default:
		rs.logger.Debug("message ignored", slog.String("method", m.Method))
	}
}

// receiveRequest replies to ping itself, passes on requests that the client of the call may be able
// to answer, and refuses all others.
func (rs *relays) receiveRequest(m *wire.Message, call *relayedCall) {
	if m.Method == wire.Ping {
		rs.outbox.post(wire.AppendResult(nil, slices.Clone(m.ID), jsontext.Value(emptyObject)))
		return
	}
	isForClient := wire.NeededCapability(m.Method, nil) != 0
	if isForClient && call == nil {
		call = rs.soleCall()
		if rs.opts.OnUntied != nil {
			rs.opts.OnUntied()
		}
		if call == nil {
			rs.logger.Warn("server request refused: it belongs to no call in flight", slog.String("method", m.Method))
		}
	}
	// MCP has no error code for a client that cannot be asked; clients without a capability answer
	// so.
	if call == nil || !isForClient || call.relay.Reply == nil || !call.passOn(m) {
		rs.refuse(m.ID, wire.NewError(wire.MethodNotFound, "Method not found: no client can be asked during this call"))
	}
}

func (rs *relays) refuse(id jsontext.Value, err *wire.Error) {
	rs.outbox.post(wire.AppendError(nil, slices.Clone(id), err))
}

// soleCall returns the call that an untied message must belong to: the only one in flight. It
// returns nil if calls have overlapped or followed each other on a shared session, or if one was
// abandoned: messages about an ended call may still arrive, after an abandoned one at any time.
func (rs *relays) soleCall() *relayedCall {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !rs.opts.Relays || rs.abandoned.Load() || len(rs.calls) != 1 || (!rs.opts.Exclusive && rs.begun > 1) {
		return nil
	}
	for _, c := range rs.calls {
		return c
	}
	return nil
}

// passOn passes a server request to the client in the background. It reports false if the call
// takes no more of them.
func (c *relayedCall) passOn(m *wire.Message) bool {
	rs, id := c.relays, string(m.ID)
	ctx, cancel := context.WithCancel(c.ctx)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if c.ended || c.pending >= maxServerRequests || rs.pending[id] != nil {
		cancel()
		return false
	}
	// All of this before the message is handed on, because the message's buffer belongs to the
	// reader of the transport.
	rs.pending[id] = cancel
	c.pending++
	c.requested.Store(true)
	method, params := m.Method, bytes.Clone(m.Params)
	// Begun under the lock that guards ended, so that end waits only when nothing is added any
	// more.
	c.work.Go(func() {
		defer cancel()
		var reply jsontext.Value
		err := Guard(rs.logger, func() (err error) {
			reply, err = c.relay.Reply(ctx, method, params)
			return err
		})
		c.replied(id, method, params, err)
		switch {
		case c.ctx.Err() != nil: // nobody waits here for the reply to be delivered
			rs.refuse(jsontext.Value(id), wire.NewError(wire.InternalError, "The client's "+
				"request has ended"))
		case ctx.Err() == nil: // else the server cancelled its request
			c.deliver(jsontext.Value(id), reply, err)
		}
	})
	return true
}

// replied takes a server request off those that wait, and remembers the elicitation that it may
// have started.
func (c *relayedCall) replied(id, method string, params jsontext.Value, err error) {
	elicitation := ""
	if method == wire.Elicit && err == nil {
		elicitation, _ = wire.Members(params).Text("elicitationId")
	}
	c.relays.mu.Lock()
	defer c.relays.mu.Unlock()
	delete(c.relays.pending, id)
	c.pending--
	if elicitation != "" {
		c.urls = append(c.urls, elicitation)
	}
}

// deliver sends a reply in the background, not within the call: the server may end the call before
// it confirms the delivery, and cancelling an HTTP request at that moment can take the connection
// from another one that net/http has already handed it to.
func (c *relayedCall) deliver(id, reply jsontext.Value, err error) {
	response := wire.AppendResult(nil, id, reply)
	if err != nil {
		refusal, ok := errors.AsType[*wire.Error](err)
		if !ok {
			refusal = wire.NewError(wire.InternalError, "The client did not reply")
		}
		response = wire.AppendError(nil, id, refusal)
	}
	c.relays.outbox.postReply(c.ctx, response)
}

// cancelRequest ends a server request that the server does not want a reply to any more.
func (rs *relays) cancelRequest(m *wire.Message) {
	id := wire.Members(m.Params).Get("requestId")
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if cancel := rs.pending[string(id)]; cancel != nil {
		cancel()
	}
}

// receiveProgress passes progress on by its token, unless it arrived with another call.
func (rs *relays) receiveProgress(m *wire.Message, call *relayedCall) {
	// Tokens are the session's own request ids, so that a server cannot name a call of another
	// session.
	token, ok := wire.Int(wire.Members(m.Params).Get(wire.MetaProgressToken))
	rs.mu.Lock()
	named := rs.calls[token]
	rs.mu.Unlock()
	if ok && named != nil && named.relay.Progress && (call == nil || call == named) {
		named.notify(m)
	}
}

// receiveLog passes on a log message.
func (rs *relays) receiveLog(m *wire.Message, call *relayedCall) {
	if call == nil {
		call = rs.soleCall()
	}
	if call != nil && call.relay.LogLevel != "" {
		call.notify(m)
	}
}

// receiveElicited tells the client whose elicitation by URL has ended, while its call is in flight.
// If several calls in flight used the same id, nobody knows which of them is meant, and none is
// told.
func (rs *relays) receiveElicited(m *wire.Message, call *relayedCall) {
	id, _ := wire.Members(m.Params).Text("elicitationId")
	var found []*relayedCall
	rs.mu.Lock()
	for _, c := range rs.calls {
		if slices.Contains(c.urls, id) && (call == nil || call == c) {
			found = append(found, c)
		}
	}
	rs.mu.Unlock()
	if len(found) == 1 {
		found[0].notify(m)
	}
}

func (c *relayedCall) notify(m *wire.Message) {
	if c.relay.Notify != nil {
		c.notified.Store(true)
		c.relay.Notify(m.Method, bytes.Clone(m.Params))
	}
}

const (
	// backgroundTimeout is how long a message that nobody waits for may take to be delivered, and
	// replyTimeout how long a client's reply to a server request may.
	backgroundTimeout = 2 * time.Second
	replyTimeout      = 5 * time.Second
	// maxBackground bounds the messages on their way: a server that sends requests and reads no
	// replies loses the replies.
	maxBackground = 64
)

// outbox sends messages in the background, because neither a caller that has left nor the reader of
// a transport may wait for them.
type outbox struct {
	send   func(ctx context.Context, message []byte) error
	logger *slog.Logger
	slots  *semaphore.Weighted
	work   sync.WaitGroup

	mu     sync.Mutex // guards closed
	closed bool
}

func newOutbox(send func(context.Context, []byte) error, logger *slog.Logger) *outbox {
	return &outbox{send: send, logger: logger, slots: semaphore.NewWeighted(maxBackground)}
}

// post sends a message, or drops it if too many are on their way.
func (o *outbox) post(message []byte) {
	if o.slots.TryAcquire(1) {
		o.deliver(message, backgroundTimeout, slog.LevelDebug)
	}
}

// postReply sends a client's reply, once fewer messages are on their way. It gives up when ctx
// ends.
func (o *outbox) postReply(ctx context.Context, message []byte) {
	if o.slots.Acquire(ctx, 1) == nil {
		o.deliver(message, replyTimeout, slog.LevelWarn)
	}
}

// deliver sends a message for which a slot was acquired, and releases the slot.
func (o *outbox) deliver(message []byte, timeout time.Duration, level slog.Level) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		o.slots.Release(1)
		return
	}
	// As for replies: under the lock that guards closed.
	o.work.Go(func() {
		defer o.slots.Release(1)
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := o.send(ctx, message); err != nil {
			o.logger.Log(ctx, level, "message not delivered", slog.Any("error", err))
		}
	})
}

// close drops the messages that are posted from now on.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// wait returns when all messages were sent or their time is over.
func (o *outbox) wait() { o.work.Wait() }
