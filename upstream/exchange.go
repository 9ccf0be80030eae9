package upstream

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/upstream/wire"
)

// exchange is what the transports have in common over which all that the peer says comes on one stream, whatever it
// belongs to: responses find their requests by id.
type exchange struct {
	handle func(*wire.Message)
	// gone is closed when nothing more will be said, and cause is why.
	gone  chan struct{}
	cause error
	// revision is the one that was agreed on; nil before.
	revision atomic.Pointer[string]

	mu      sync.Mutex // guards pending
	pending map[string]chan reply
}

// reply is the response to a request, or why it cannot be taken.
type reply struct {
	message *wire.Message
	err     error
}

func newExchange() exchange {
	return exchange{gone: make(chan struct{}), pending: map[string]chan reply{}}
}

func (e *exchange) agree(revision string) { e.revision.Store(&revision) }

// agreed returns the revision that was agreed on; empty before.
func (e *exchange) agreed() string {
	if revision := e.revision.Load(); revision != nil {
		return *revision
	}
	return ""
}

// take hands on what the peer said at once: each response to whoever waits for it, everything else to handle.
func (e *exchange) take(raw []byte) error {
	messages, err := wire.ParseAll(raw, e.agreed())
	if err != nil {
		return err
	}
	for i := range messages {
		message := &messages[i]
		if message.Method != "" {
			e.handle(message)
			continue
		}
		e.resolve(message.ID, reply{message: message})
	}
	return nil
}

// resolve hands a reply to whoever waits for the response with the id.
func (e *exchange) resolve(id []byte, r reply) {
	e.mu.Lock()
	waiting := e.pending[string(id)]
	delete(e.pending, string(id))
	e.mu.Unlock()
	if waiting != nil {
		waiting <- r
	}
}

// await sends a request, by send, and waits for its response.
func (e *exchange) await(ctx context.Context, r *request, send func(context.Context, []byte) error) error {
	id := string(wire.NumberID(r.id))
	response := make(chan reply, 1)
	e.mu.Lock()
	e.pending[id] = response
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.pending, id)
		e.mu.Unlock()
	}()
	if err := send(ctx, wire.AppendRequest(nil, r.id, r.method, r.params)); err != nil {
		return err
	}
	var came reply
	select {
	case came = <-response:
	case <-e.gone:
		select {
		case came = <-response: // among its last words
		default:
			return e.cause
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	r.answer = came.message
	return came.err
}

// end says that nothing more will come. It is called once.
func (e *exchange) end(cause error) {
	e.cause = cause
	close(e.gone)
}

// standalone: all that the peer says comes anyway, so there is nothing to open and nothing to miss.
func (e *exchange) standalone(ctx context.Context, ready func()) error {
	ready()
	select {
	case <-e.gone:
		return e.cause
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *exchange) broken() <-chan struct{} { return e.gone }

func (e *exchange) brokenBy() error { return e.cause }
