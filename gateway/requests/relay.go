package requests

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxRelayed and maxRelayedBytes bound a queue: a notification beyond them is dropped. They do
	// not bound server requests. The memory of large notifications and server requests counts in
	// max_buffered.
	maxRelayed      = 256
	maxRelayedBytes = 1 << 20
	// maxServerRequest bounds the params of one server request, in bytes.
	maxServerRequest = 1 << 20
)

// RelayQueue holds the messages for a client before its response: progress, log messages and server
// requests. Adding a message never blocks. It is safe for concurrent use. Make it with
// [NewRelayQueue].
type RelayQueue struct {
	ready chan struct{} // receives a value if there is something to send

	mu     sync.Mutex // guards the fields below
	queue  [][]byte
	bytes  int
	closed bool
	// hold counts the memory of a large message. If hold is nil, nothing is counted. queued are the
	// reservations for the messages in the queue. sending are the reservations for the messages that
	// Drain returned last.
	hold            func(bytes int) (edge.Reservation, bool)
	queued, sending []edge.Reservation
}

// NewRelayQueue returns an empty queue.
func NewRelayQueue() *RelayQueue { return &RelayQueue{ready: make(chan struct{}, 1)} }

// Ready returns a channel that receives a value if there is something to send.
func (q *RelayQueue) Ready() <-chan struct{} { return q.ready }

// Hold makes the queue count its large messages for a client until the scope is closed, because the
// client may not be reading.
func (q *RelayQueue) Hold(scope *Scope, ledger *edge.Ledger, maxBuffered config.Share, client string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold = func(bytes int) (edge.Reservation, bool) { return ledger.Acquire(maxBuffered, client, "", bytes) }
	scope.relayed = q
}

func (q *RelayQueue) release() {
	q.Close()
	for range 2 { // first the messages being sent, then the queue
		q.Drain()
	}
}

// Drain returns the messages to send now, in order. It releases the memory of the messages that the
// previous call returned, so call it only after they were sent.
func (q *RelayQueue) Drain() [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.sending {
		q.sending[i].Release()
	}
	messages := q.queue
	q.queue, q.bytes = nil, 0
	q.sending, q.queued = q.queued, nil
	return messages
}

// Close refuses further messages, because the response is ready.
func (q *RelayQueue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Send adds a message that must not be dropped. It returns false if the response is ready, or if
// the client has too many unread bytes.
func (q *RelayQueue) Send(message []byte) bool { return q.add(message, true) }

// add adds a message, and reports whether it was added. If must is false, add drops the message when
// the queue is full.
func (q *RelayQueue) add(message []byte, must bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || (!must && (len(q.queue) >= maxRelayed || q.bytes+len(message) > maxRelayedBytes)) {
		return false
	}
	if q.hold != nil && len(message) >= edge.Least {
		held, ok := q.hold(len(message))
		if !ok {
			return false
		}
		q.queued = append(q.queued, held)
	}
	q.queue = append(q.queue, message)
	q.bytes += len(message)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return true
}

// upstreamRelay returns the relay from an upstream to the request's client.
func (x *run) upstreamRelay(ctx context.Context) upstream.Relay {
	r := x.r
	c := upstream.Relay{Capabilities: x.era.capabilities(r), Caller: x.Key()}
	if r.Relay == nil {
		return c
	}
	c.Progress, c.LogLevel = r.progressToken() != nil, r.LogLevel
	c.Notify = func(method string, params jsontext.Value) { x.relayNotification(ctx, method, params) }
	if r.ServerRequest != nil && r.Message.Method != wire.Complete {
		c.Capabilities, c.Reply = r.Capabilities.Object().JSON(), x.sendServerRequest
	}
	return c
}

// relayNotification passes on an upstream's notification if the client's revision supports it and
// the client requested it.
func (x *run) relayNotification(ctx context.Context, method string, params jsontext.Value) {
	r := x.r
	var broke error
	defer func() {
		if broke != nil {
			x.screening.logger.ErrorContext(ctx, "recovered from a panic", slog.Any("error", broke))
		}
	}()
	defer recovered(&broke) // a panic must not end this goroutine, which reads the server's messages
	object, err := wire.ParseObject(params)
	if err != nil {
		return
	}
	switch method {
	case wire.Progress:
		if r.progressToken() == nil {
			return
		}
		object = object.With(wire.MetaProgressToken, r.progressToken())
	case wire.LogMessage:
		level, _ := object.Text("level")
		if r.LogLevel == "" || wire.Severity(level) < wire.Severity(r.LogLevel) {
			return
		}
	// Only 2025-11-25 has this notification. In 2026-07-28, results ask for input.
	case wire.ElicitComplete:
		if r.Revision != wire.Rev20251125 {
			return
		}
	}
	if relayed, ok := x.screening.relayed(ctx, object.JSON()); ok {
		r.Relay.add(wire.AppendNotification(nil, method, relayed), false)
	}
}

// sendServerRequest sends an upstream's server request to a legacy client, and returns its reply.
func (x *run) sendServerRequest(
	ctx context.Context, method string, params jsontext.Value,
) (jsontext.Value, error) {
	params, err := x.serverRequestParams(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return x.r.ServerRequest(ctx, method, params)
}

// serverRequestParams returns the params of a server request for the client. It refuses a server
// request that the client could not answer.
func (x *run) serverRequestParams(
	ctx context.Context, method string, params jsontext.Value,
) (_ jsontext.Value, err error) {
	defer recovered(&err)
	r := x.r
	if len(params) > maxServerRequest {
		return nil, wire.NewError(wire.InvalidParams, "The request to the client is too large")
	}
	object := wire.Object{}
	if params != nil {
		if object, err = wire.ParseObject(params); err != nil {
			return nil, AsWireError(err)
		}
	}
	needed := wire.NeededCapability(method, object)
	switch {
	case needed == 0, !r.Capabilities.Has(needed & (wire.Elicitation | wire.Sampling | wire.Roots)):
		return nil, wire.NewError(wire.MethodNotFound, "Method not found: the client did not declare this capability")
	case !r.Capabilities.Has(needed):
		return nil, invalidParams("the client did not declare " + needed.String())
	}
	isToken := func(name string) bool { return name == wire.MetaProgressToken }
	if meta := object.Object("_meta"); meta.Get(wire.MetaProgressToken) != nil {
		object = object.With("_meta", meta.Without(isToken).JSON()) // the client's progress is not relayed
	}
	// 2025-11-25 requires an elicitationId, which 2026-07-28 does not have.
	if needed&wire.ElicitationURL != 0 && !r.Modern() && object.Get("elicitationId") == nil {
		object = object.With("elicitationId", wire.Quote(rand.Text()))
	}
	// Without params, which roots/list allows, there is nothing to screen.
	if params == nil {
		return nil, nil
	}
	passed, ok := x.screening.relayed(ctx, object.JSON())
	if !ok {
		return nil, invalidParams("a screen of the gateway rejects the request to the client")
	}
	return passed, nil
}
