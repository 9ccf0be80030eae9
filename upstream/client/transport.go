package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// transport carries messages to one server and back. There are three implementations: Streamable
// HTTP, HTTP+SSE and stdio.
type transport interface {
	// start begins the exchange. receive gets each message that is not a response, and must not
	// block. Call start once, before any other method.
	start(receive func(*wire.Message))
	// roundTrip sends a request and stores its response.
	roundTrip(ctx context.Context, r *request) error
	// send sends a message that has no response.
	send(ctx context.Context, message []byte) error
	// standalone receives a legacy server's messages outside of calls, until ctx ends or the stream
	// breaks. It calls ready once no message can be missed. If the server offers no such stream, it
	// returns ErrNoStream.
	standalone(ctx context.Context, ready func()) error
	// setRevision is called once, after the negotiation.
	setRevision(revision string)
	// idle measures the time since the server's last byte.
	idle() *idleTime
	// done is closed when the transport can no longer be used. Then err returns the reason.
	done() <-chan struct{}
	err() error
	close()
}

// request is a request and, later, its response.
type request struct {
	id     int64
	method string
	// name is the value of Mcp-Name, or empty for a request without that header.
	name   string
	params jsontext.Value
	// revision is the value of MCP-Protocol-Version, or empty for a request without that header.
	revision string
	// assertion is sent over HTTP only.
	assertion Assertion
	// memory is [Request.Memory].
	memory *[]byte
	// onMessage, if set, gets the messages that belong to this request with certainty. It must not
	// block. Only Streamable HTTP calls it.
	onMessage func(*wire.Message)
	// response is nil until it has arrived.
	response *wire.Message
	// position is the position in the response's stream, over Streamable HTTP.
	position streamPosition
}

// mux is shared by HTTP+SSE and stdio, where all messages arrive on one stream and responses are
// matched to requests by id.
type mux struct {
	logger  *slog.Logger
	receive func(*wire.Message)
	// idleTime measures the time since the last message or, over HTTP+SSE, the last byte.
	idleTime *idleTime
	// closed is closed when the stream has ended, for the reason in cause.
	closed chan struct{}
	cause  error
	// agreed is the negotiated revision, a string. It is nil before the negotiation.
	agreed atomic.Value

	mu      sync.Mutex // guards pending
	pending map[string]awaited
}

// awaited is a request that waits for its response.
type awaited struct {
	method   string
	response chan muxResponse
}

// muxResponse is the response to a request, or the error of reading it.
type muxResponse struct {
	message *wire.Message
	err     error
}

func newMux(logger *slog.Logger) mux {
	return mux{logger: logger, idleTime: newIdleTime(), closed: make(chan struct{}), pending: map[string]awaited{}}
}

// await sends a request and waits for its response.
func (x *mux) await(ctx context.Context, r *request, send func(context.Context, []byte) error) error {
	id := string(wire.NumberID(r.id))
	response := make(chan muxResponse, 1)
	x.mu.Lock()
	// Register the request first: the response may arrive before send returns.
	x.pending[id] = awaited{r.method, response}
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.pending, id)
		x.mu.Unlock()
	}()
	if err := send(ctx, wire.AppendRequest(nil, r.id, r.method, r.params)); err != nil {
		return err
	}
	var got muxResponse
	select {
	case got = <-response:
	case <-x.closed:
		select {
		case got = <-response: // the last message before the end
		default:
			return x.cause
		}
	case <-ctx.Done():
		return &stageError{error: ctx.Err(), method: r.method}
	}
	r.response = got.message
	return got.err
}

// dispatch handles one JSON text from the stream. Responses go to their requests, other messages to receive. If a text is
// invalid, or makes the gateway panic, only the requests whose ids the text contains fail.
func (x *mux) dispatch(raw []byte) error {
	raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
	err := RecoverToError(x.logger, func() error { return x.deliver(raw) })
	if err == nil {
		return nil
	}
	_ = RecoverToError(x.logger, func() error { // the panic may come from reading the ids
		for _, id := range wire.ClaimedIDs(raw) {
			x.resolve(id, muxResponse{err: notAMessage(err)})
		}
		return nil
	})
	return err
}

func (x *mux) deliver(raw []byte) error {
	messages, err := wire.ParseAll(raw, x.revision())
	if err != nil {
		ids := wire.ClaimedIDs(raw)
		if len(ids) != 1 { // a batch is never the response to a list
			return err
		}
		x.mu.Lock()
		method := x.pending[wire.CanonicalID(ids[0])].method
		x.mu.Unlock()
		if messages, err = parseTolerantly(raw, method, err); err != nil {
			return err
		}
	}
	x.idleTime.reset()
	for i := range messages {
		if message := &messages[i]; message.Method != "" {
			x.receive(message)
		} else {
			x.resolve(message.ID, muxResponse{message: message})
		}
	}
	return nil
}

// parseTolerantly parses a text that ParseAll has refused, if it is the response to a list. The result includes invalid
// definitions, which readers of the list leave out. For other methods it returns the refusal.
func parseTolerantly(raw []byte, method string, refusal error) ([]wire.Message, error) {
	member := listMembers[method]
	if member == "" {
		return nil, refusal
	}
	list, err := wire.ParseList(raw, member)
	return []wire.Message{list}, err
}

// notAMessage returns the error of a request whose response cannot be read.
func notAMessage(err error) error {
	problem := "the response is not a JSON-RPC message: " + err.Error()
	if errors.Is(err, errPanic) {
		problem = err.Error()
	}
	return &ProtocolError{problem: problem}
}

// resolve passes a response to its request. It drops a response without a request.
func (x *mux) resolve(id []byte, r muxResponse) {
	x.mu.Lock()
	key := wire.CanonicalID(id)
	waiting := x.pending[key]
	delete(x.pending, key)
	x.mu.Unlock()
	if waiting.response != nil {
		// The send never blocks: the channel has room for one response, and only the first response finds the entry.
		waiting.response <- r
	}
}

// end is called once, at the end of the stream.
func (x *mux) end(cause error) {
	x.cause = cause
	close(x.closed)
}

// standalone opens nothing, because the one stream carries all messages.
func (x *mux) standalone(ctx context.Context, ready func()) error {
	ready()
	select {
	case <-x.closed:
		return x.cause
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *mux) idle() *idleTime { return x.idleTime }

func (x *mux) setRevision(revision string) { x.agreed.Store(revision) }

// revision returns the negotiated revision, or "" before the negotiation.
func (x *mux) revision() string {
	revision, _ := x.agreed.Load().(string)
	return revision
}

func (x *mux) done() <-chan struct{} { return x.closed }

func (x *mux) err() error { return x.cause }
