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
	// maxRelayed and maxRelayedBytes bound the notifications that wait in a queue. Server requests
	// have a bound of their own, and all of them count in max_buffered.
	maxRelayed      = 256
	maxRelayedBytes = 1 << 20
	// maxServerRequest bounds the params of one server request, in bytes.
	maxServerRequest = 1 << 20
)

// RelayQueue holds what is to be sent to the client of one request before its response: progress,
// log messages and server requests. Adding never blocks. It is safe for concurrent use; make it
// with [NewRelayQueue].
type RelayQueue struct {
	ready chan struct{} // holds at most one mark: there is something to send

	mu     sync.Mutex // guards what follows
	queue  [][]byte
	bytes  int
	closed bool
	// hold counts a large message for the client; nil counts none. Queued are those of messages in
	// the queue, and sending of those that were drained last.
	hold            func(bytes int) (edge.Hold, bool)
	queued, sending []edge.Hold
}

// NewRelayQueue returns an empty queue.
func NewRelayQueue() *RelayQueue { return &RelayQueue{ready: make(chan struct{}, 1)} }

// Ready receives a value when there is something to send.
func (q *RelayQueue) Ready() <-chan struct{} { return q.ready }

// Hold has the queue count what it holds for a client, who may have stopped reading, until
// release is called.
func (q *RelayQueue) Hold(ledger *edge.Ledger, maxBuffered config.Share, client string) (release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold = func(bytes int) (edge.Hold, bool) { return ledger.Acquire(maxBuffered, client, "", bytes) }
	return func() {
		q.Close()
		for range 2 { // what is being sent, and what never will be
			q.Drain()
		}
	}
}

// Drain returns the messages to send now, in order. Those of the last time have been sent.
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

// Close refuses further messages: the response is ready.
func (q *RelayQueue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// notify adds a message that a slow client can do without.
func (q *RelayQueue) notify(message []byte) { q.add(message, false) }

// Send adds a message that must reach the client. It reports false if the request has been
// answered, or the client does not read.
func (q *RelayQueue) Send(message []byte) bool { return q.add(message, true) }

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

// upstreamRelay returns the relay by which an upstream reaches the request's client.
func (r *Request) upstreamRelay(ctx context.Context) upstream.Relay {
	c := upstream.Relay{Capabilities: r.Meta.Get(wire.MetaClientCapabilities), Caller: r.Key()}
	if !r.Modern() {
		c.Capabilities = emptyObject
	}
	if r.Relay == nil {
		return c
	}
	c.Progress, c.LogLevel = r.progressToken() != nil, r.LogLevel
	c.Notify = func(method string, params jsontext.Value) { r.relayNotification(ctx, method, params) }
	if r.ServerRequest != nil && r.Message.Method != wire.Complete {
		c.Capabilities, c.Reply = r.Capabilities.Object().JSON(), r.sendServerRequest
	}
	return c
}

// relayNotification passes on an upstream's notification if the client's revision knows it and the
// client wants it.
func (r *Request) relayNotification(ctx context.Context, method string, params jsontext.Value) {
	var broke error
	defer func() {
		if broke != nil {
			r.screening.logger.ErrorContext(ctx, "recovered from a panic", slog.Any("error", broke))
		}
	}()
	defer recovered(&broke) // this is the goroutine that reads what the server sends
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
	// Only 2025-11-25 has it: 2026-07-28 asks for input by results.
	case wire.ElicitComplete:
		if r.Modern() || r.Revision < wire.Rev20251125 {
			return
		}
	}
	if relayed, ok := r.screening.relayed(ctx, object.JSON()); ok {
		r.Relay.notify(wire.AppendNotification(nil, method, relayed))
	}
}

// sendServerRequest sends an upstream's server request to a client of the legacy era and returns
// its reply.
func (r *Request) sendServerRequest(
	ctx context.Context, method string, params jsontext.Value,
) (jsontext.Value, error) {
	params, err := r.serverRequestParams(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return r.ServerRequest(ctx, method, params)
}

// serverRequestParams returns the params of a server request as they go to the client, or the
// refusal of one that the client could not answer.
func (r *Request) serverRequestParams(
	ctx context.Context, method string, params jsontext.Value,
) (_ jsontext.Value, err error) {
	defer recovered(&err)
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
	// roots/list may come without params, and then there is nothing to screen.
	if params == nil {
		return nil, nil
	}
	passed, ok := r.screening.relayed(ctx, object.JSON())
	if !ok {
		return nil, invalidParams("a screen of the gateway rejects the request to the client")
	}
	return passed, nil
}
