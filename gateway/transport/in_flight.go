package transport

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxInFlight bounds the requests in flight on one connection of stdio or HTTP+SSE. It equals the
	// default concurrency of an upstream, so that a client that is a gateway itself can use all of
	// that concurrency.
	maxInFlight = 256
	// maxSessionInFlight bounds the requests in flight of one legacy session over Streamable HTTP. It is
	// high because a gateway as a client sends the requests of all its clients in one session.
	maxSessionInFlight = 4096
)

// inFlight contains requests in flight, so that clients can cancel them, and bounds their number per
// session. The zero value is ready for use.
type inFlight struct {
	mu       sync.Mutex // guards the fields below
	requests map[requestKey]*cancellable
	counts   map[sessionID]int
}

// requestKey identifies a request in flight by its session and id.
type requestKey struct {
	session sessionID
	id      string // as JSON
}

// cancellable is a request in flight.
type cancellable struct {
	stop     context.CancelCauseFunc
	inFlight *inFlight
	key      requestKey
	// isDuplicate is true if an earlier request of the session has the same id. The client can cancel
	// only the earlier one.
	isDuplicate bool
}

// begin registers a request. It returns a context that ends when the client cancels the request, and a
// value to release at the end. The value is nil if the session has too many requests in flight.
func (f *inFlight) begin(ctx context.Context, session sessionID, id jsontext.Value) (context.Context, *cancellable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts[session] >= maxSessionInFlight {
		return ctx, nil
	}
	if f.requests == nil {
		f.requests, f.counts = map[requestKey]*cancellable{}, map[sessionID]int{}
	}
	c := &cancellable{inFlight: f, key: requestKey{session, string(id)}}
	ctx, c.stop = context.WithCancelCause(ctx)
	f.counts[session]++
	// Accept a duplicate id: over HTTP, a response reaches its request without the id.
	if _, c.isDuplicate = f.requests[c.key]; !c.isDuplicate {
		f.requests[c.key] = c
	}
	return ctx, c
}

// Release removes a request and ends its context. The client may then use the id again.
func (c *cancellable) Release() {
	c.stop(nil)
	f, session := c.inFlight, c.key.session
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.isDuplicate {
		delete(f.requests, c.key)
	}
	if f.counts[session]--; f.counts[session] == 0 {
		delete(f.counts, session)
	}
}

// cancel ends the context of a session's request with a cause, if the request is in flight.
func (f *inFlight) cancel(session sessionID, id jsontext.Value, reason *wire.CancelledError) {
	f.mu.Lock()
	c := f.requests[requestKey{session, string(id)}]
	f.mu.Unlock()
	if c != nil {
		c.stop(reason)
	}
}

// maxAwaited bounds the server requests of one session that wait for a reply.
const maxAwaited = 16

// replies contains the server requests to legacy clients that wait for a reply. A reply counts once,
// and only from the session that received the server request. Ids are unique among replicas, so that a
// replica can tell that it must forward a reply. The zero value is ready for use.
type replies struct {
	forwarder *cluster.Forwarder // makes ids; nil if replies are not forwarded

	mu      sync.Mutex // guards the fields below
	awaited map[sessionID]map[string]chan<- wire.Message
	closed  bool
}

// request sends a server request to a session and waits for the reply, at most
// [requests.ReplyBound]. If ctx or this time ends first, it sends a cancellation.
func (q *replies) request(
	ctx context.Context, session sessionID, send func([]byte) bool, method string, params jsontext.Value,
) (jsontext.Value, error) {
	id, reply := q.forwarder.NewID(), make(chan wire.Message, 1)
	if !q.add(session, id, reply) {
		return nil, wire.NewError(wire.InternalError, "Too many requests to the client are waiting for a reply")
	}
	defer q.remove(session, id)
	quoted := wire.Quote(id)
	if !send(wire.AppendCall(nil, quoted, method, params)) {
		return nil, wire.NewError(wire.InternalError, "The client does not read, or its request has ended")
	}
	ctx, cancel := context.WithTimeout(ctx, requests.ReplyBound)
	defer cancel()
	select {
	case m := <-reply:
		return resultOf(m)
	case <-ctx.Done():
		params := wire.Object{}.With("requestId", quoted).With("reason", wire.Quote("the reply is no longer needed"))
		// Ignore a failure: a late reply finds no server request.
		send(wire.AppendNotification(nil, wire.Cancelled, params.JSON()))
		return nil, ctx.Err()
	}
}

// resultOf returns the result in a client's reply, or its error as a [*wire.Error].
func resultOf(m wire.Message) (jsontext.Value, error) {
	switch {
	case m.Error != nil:
		refusal, err := wire.ReadError(m.Error)
		if err != nil {
			return nil, wire.NewError(wire.InternalError, "The client sent an invalid error")
		}
		return nil, refusal
	case m.Result.Kind() != '{':
		return nil, wire.NewError(wire.InternalError, "The client's result is not an object")
	}
	return m.Result, nil
}

func (q *replies) add(session sessionID, id string, reply chan<- wire.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.awaited[session]) >= maxAwaited {
		return false
	}
	if q.awaited == nil {
		q.awaited = map[sessionID]map[string]chan<- wire.Message{}
	}
	if q.awaited[session] == nil {
		q.awaited[session] = map[string]chan<- wire.Message{}
	}
	q.awaited[session][id] = reply
	return true
}

func (q *replies) remove(session sessionID, id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.awaited[session], id)
	if len(q.awaited[session]) == 0 {
		delete(q.awaited, session)
	}
}

// len returns the number of server requests that wait for a reply.
func (q *replies) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, awaited := range q.awaited {
		n += len(awaited)
	}
	return n
}

// deliver passes a session's reply to its server request. It returns false if no server request of the
// session waits for the reply.
func (q *replies) deliver(session sessionID, m *wire.Message) bool {
	id, ok := wire.Text(m.ID)
	q.mu.Lock()
	defer q.mu.Unlock()
	reply := q.awaited[session][id]
	if !ok || reply == nil {
		return false
	}
	delete(q.awaited[session], id)
	// This does not block: the channel has room for one message, and only the goroutine that removes
	// the entry sends one.
	reply <- *m
	return true
}

// end fails all server requests of a session that wait for a reply.
func (q *replies) end(session sessionID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, reply := range q.awaited[session] {
		delete(q.awaited[session], id)
		reply <- wire.Message{} // resultOf returns an error for an empty message
	}
}

// close ends all sessions and refuses further server requests.
func (q *replies) close() {
	q.mu.Lock()
	q.closed = true
	sessions := make([]sessionID, 0, len(q.awaited))
	for session := range q.awaited {
		sessions = append(sessions, session)
	}
	q.mu.Unlock()
	for _, session := range sessions {
		q.end(session)
	}
}
