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

// Relay passes the server's messages about a request to the client of that request, before the
// response. The zero value passes on nothing.
type Relay struct {
	// Capabilities is the object with the client's declared capabilities. If nil, the object in
	// _meta applies.
	Capabilities jsontext.Value
	// Caller identifies the client, so that one client cannot hold all sessions that serve one call at a time. All calls
	// with an empty Caller count as one client.
	Caller string
	// Reply passes a server request (elicitation, sampling, roots) to the client. It returns the
	// reply, or a [*wire.Error] to refuse the request. It must return soon after ctx ends. If Reply
	// is nil, all server requests are refused.
	Reply func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error)
	// Progress requests progress notifications. LogLevel requests log messages of at least this
	// level, or none if it is empty.
	Progress bool
	LogLevel string
	// Notify passes on a notification about the request: progress (with the session's token, not
	// the client's), log messages of any level, the end of an elicitation by URL. It must not
	// block. It may be nil.
	Notify func(method string, params jsontext.Value)
}

// relays reports whether anything could be passed on.
func (r *Relay) relays() bool {
	return r.Reply != nil || (r.Notify != nil && (r.Progress || r.LogLevel != ""))
}

// maxServerRequests bounds the server requests of one call that wait for a reply.
const maxServerRequests = 8

// relays finds the call to which a server's message belongs, and passes the message on.
type relays struct {
	opts   SessionOptions
	outbox *outbox
	logger *slog.Logger
	// abandoned is true once a call has ended without a response. The server may still be working
	// on that call.
	abandoned atomic.Bool

	mu sync.Mutex // guards the fields below, and some fields of each call
	// calls are the calls in flight with a relay, by request id, which is also the progress token.
	calls map[int64]*relayedCall
	// begun counts the calls with a relay since the session began.
	begun int
	// pending cancels the server requests that wait for a reply, by the server's id.
	pending map[string]context.CancelFunc
}

// relayedCall is a call in flight with its relay.
type relayedCall struct {
	relays *relays
	relay  *Relay
	id     int64
	ctx    context.Context //nolint:containedctx // the call's
	cancel context.CancelFunc
	work   sync.WaitGroup // server requests that wait for a reply
	// notified is true once a notification was passed on. requested is true once a server request was passed on.
	notified, requested atomic.Bool

	// The lock of relays guards the fields below.
	pending int
	ended   bool
	urls    []string // ids of the elicitations by URL, except the refused ones
}

// begin registers a call until its end method is called.
func (rs *relays) begin(ctx context.Context, relay *Relay, id int64) *relayedCall {
	ctx, cancel := context.WithCancel(ctx)
	c := &relayedCall{relays: rs, relay: relay, id: id, ctx: ctx, cancel: cancel}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.calls[id] = c
	rs.begun++
	return c
}

// end cancels the server requests of the call that still wait, and returns when they have ended.
func (c *relayedCall) end() {
	c.relays.mu.Lock()
	delete(c.relays.calls, c.id)
	c.ended = true
	// Unlock before the wait: the replies need the lock to end.
	c.relays.mu.Unlock()
	c.cancel()
	c.work.Wait()
}

// receive handles a request or notification of the server. The transport ties it to call, which may
// be nil.
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

// receiveRequest answers a ping, passes on requests that the call's client may be able to answer,
// and refuses all others.
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
	// MCP has no error code for a request that no client can answer. So use MethodNotFound, which clients without the
	// capability return.
	if call == nil || !isForClient || call.relay.Reply == nil || !call.passOn(m) {
		rs.refuse(m.ID, wire.NewError(wire.MethodNotFound, "Method not found: no client can be asked during this call"))
	}
}

func (rs *relays) refuse(id jsontext.Value, err *wire.Error) {
	rs.outbox.post(wire.AppendError(nil, slices.Clone(id), err))
}

// soleCall returns the only call in flight with a relay, for a message that is not tied to a call. It returns nil if the
// message may belong to another call: several relayed calls are in flight, a shared session has had an earlier relayed
// call, or a call was abandoned. It also returns nil if the session's options do not allow relays.
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

// passOn passes a server request to the client in the background. It returns false if the call has ended, too many of
// its requests wait for a reply, or the server uses the id of a waiting request again.
func (c *relayedCall) passOn(m *wire.Message) bool {
	rs, id := c.relays, string(m.ID)
	ctx, cancel := context.WithCancel(c.ctx)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if c.ended || c.pending >= maxServerRequests || rs.pending[id] != nil {
		cancel()
		return false
	}
	rs.pending[id] = cancel
	c.pending++
	c.requested.Store(true)
	// Copy before the goroutine starts, because the message's buffer belongs to the transport's reader.
	method, params := m.Method, bytes.Clone(m.Params)
	elicitation := ""
	if method == wire.Elicit {
		elicitation, _ = wire.Members(params).Text("elicitationId")
	}
	if elicitation != "" { // before the reply, because some clients reply only after the elicitation has ended
		c.urls = append(c.urls, elicitation)
	}
	// Start the goroutine under the lock that guards ended: work must not grow after end has begun to wait.
	c.work.Go(func() {
		defer cancel()
		var reply jsontext.Value
		err := RecoverToError(rs.logger, func() (err error) {
			reply, err = c.relay.Reply(ctx, method, params)
			return err
		})
		c.replied(id, elicitation, err)
		switch {
		case c.ctx.Err() != nil: // the outbox sends the refusal, whose timeout does not depend on c.ctx
			rs.refuse(jsontext.Value(id), wire.NewError(wire.InternalError, "The client's "+
				"request has ended"))
		case ctx.Err() == nil: // otherwise the server cancelled its request
			c.deliver(jsontext.Value(id), reply, err)
		}
	})
	return true
}

// replied removes a waiting server request. If err is not nil, it also removes the elicitation by URL.
func (c *relayedCall) replied(id, elicitation string, err error) {
	c.relays.mu.Lock()
	defer c.relays.mu.Unlock()
	delete(c.relays.pending, id)
	c.pending--
	if err != nil {
		c.urls = slices.DeleteFunc(c.urls, func(other string) bool { return other == elicitation })
	}
}

// deliver sends a reply, or a refusal if err is not nil. It does so in the background: the server may end the call before
// it confirms the delivery, and the end of the call must not cancel the delivery.
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

// cancelRequest cancels a waiting server request, as the notification of the server demands.
func (rs *relays) cancelRequest(m *wire.Message) {
	id := wire.Members(m.Params).Get("requestId")
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if cancel := rs.pending[string(id)]; cancel != nil {
		cancel()
	}
}

// receiveProgress passes progress to the call that its token names, unless the progress arrived on the stream of another
// call.
func (rs *relays) receiveProgress(m *wire.Message, call *relayedCall) {
	// Tokens are request ids of this session, so that a server cannot name a call of another
	// session.
	token, ok := wire.Int(wire.Members(m.Params).Get(wire.MetaProgressToken))
	rs.mu.Lock()
	named := rs.calls[token]
	rs.mu.Unlock()
	if ok && named != nil && named.relay.Progress && (call == nil || call == named) {
		named.notify(m)
	}
}

// receiveLog passes on a log message if the call's client requested log messages.
func (rs *relays) receiveLog(m *wire.Message, call *relayedCall) {
	if call == nil {
		call = rs.soleCall()
	}
	if call != nil && call.relay.LogLevel != "" {
		call.notify(m)
	}
}

// receiveElicited passes on the end of an elicitation by URL. Servers send it on any stream, so the elicitation's id
// determines the call. If several calls in flight used the same id, the notification is dropped.
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
	// backgroundTimeout bounds the delivery of a message that no call waits for. replyTimeout
	// bounds the delivery of a client's reply.
	backgroundTimeout = 2 * time.Second
	replyTimeout      = 5 * time.Second
	// maxBackground bounds the messages in delivery. Beyond this bound, the gateway's own messages
	// are dropped, but a client's reply waits for room.
	maxBackground = 64
)

// outbox sends messages in the background, so that neither a call that has ended nor the reader of a transport is delayed.
type outbox struct {
	send   func(ctx context.Context, message []byte) error
	logger *slog.Logger
	slots  *semaphore.Weighted
	work   sync.WaitGroup

	mu     sync.Mutex // guards closed
	closed bool
}

// post sends a message. It drops the message if too many are in delivery.
func (o *outbox) post(message []byte) {
	if o.slots.TryAcquire(1) {
		o.deliver(message, backgroundTimeout, slog.LevelDebug)
	}
}

// postReply sends a client's reply. If too many messages are in delivery, it waits. It drops the reply if ctx ends first.
func (o *outbox) postReply(ctx context.Context, message []byte) {
	if o.slots.Acquire(ctx, 1) == nil {
		o.deliver(message, replyTimeout, slog.LevelWarn)
	}
}

// deliver sends a message in the background, and then releases the slot that the caller acquired.
func (o *outbox) deliver(message []byte, timeout time.Duration, level slog.Level) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		o.slots.Release(1)
		return
	}
	// Start the goroutine under the lock that guards closed: work must not grow after Session.Close has begun to wait.
	o.work.Go(func() {
		defer o.slots.Release(1)
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := o.send(ctx, message); err != nil {
			o.logger.Log(ctx, level, "message not delivered", slog.Any("error", err))
		}
	})
}

// close makes deliver drop all later messages.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}
