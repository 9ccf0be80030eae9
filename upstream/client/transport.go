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

// transport carries messages to one server and back. There are three: Streamable HTTP, HTTP+SSE and
// stdio.
type transport interface {
	// start begins the exchange. From then on receive gets each message that is not a response; it
	// must not block. Start is called once, before anything else.
	start(receive func(*wire.Message))
	// roundTrip sends a request and stores its response.
	roundTrip(ctx context.Context, r *request) error
	// send sends a message that has no response.
	send(ctx context.Context, message []byte) error
	// standalone carries what a legacy server says outside of calls, until ctx ends or the stream
	// breaks. It calls ready once nothing can be missed any more, and returns ErrNoStream if the
	// server offers no such stream.
	standalone(ctx context.Context, ready func()) error
	// setRevision is called once, when a revision has been agreed on.
	setRevision(revision string)
	// idle measures for how long nothing has come from the server.
	idle() *idleTime
	// done is closed when the transport cannot be used any more; err then says why.
	done() <-chan struct{}
	err() error
	close()
}

// request is a request on its way through a transport, and the response to it.
type request struct {
	id     int64
	method string
	// name is the value of Mcp-Name; empty for methods without one.
	name   string
	params jsontext.Value
	// revision is the protocol revision to claim in a header; empty for none.
	revision string
	// assertion is sent over HTTP.
	assertion Assertion
	// onMessage, if set, gets the messages that certainly belong to this request. It must not
	// block. Only Streamable HTTP can tell.
	onMessage func(*wire.Message)
	// response is set once it has arrived.
	response *wire.Message
	// position is how far the response's stream was read. Only Streamable HTTP has one.
	position streamPosition
}

// mux is the part that HTTP+SSE and stdio have in common: everything that the server says arrives
// on one stream, and responses find their requests by id.
type mux struct {
	logger  *slog.Logger
	receive func(*wire.Message)
	// idleTime is for how long no message came.
	idleTime *idleTime
	// closed is closed when the stream has ended; cause then says why.
	closed chan struct{}
	cause  error
	// agreed is the revision that was agreed on; nil before.
	agreed atomic.Pointer[string]

	mu      sync.Mutex // guards pending
	pending map[string]awaited
}

// awaited is a request that waits for its response.
type awaited struct {
	method   string
	response chan muxResponse
}

// muxResponse is the response to a request, or the reason why it cannot be read.
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
	// Before it is sent: over a fast server's stream, the response may come before send returns.
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
		case got = <-response: // it was the last message before the end
		default:
			return x.cause
		}
	case <-ctx.Done():
		return &stageError{error: ctx.Err(), method: r.method}
	}
	r.response = got.message
	return got.err
}

// dispatch hands on one JSON text from the stream: responses to whoever awaits them, everything
// else to receive. A text that is not valid, or that makes the gateway panic, ends the requests that
// it claims to answer, and no others.
func (x *mux) dispatch(raw []byte) error {
	raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
	err := Guard(x.logger, func() error { return x.deliver(raw) })
	if err == nil {
		return nil
	}
	_ = Guard(x.logger, func() error { // it may be the ids that are too much
		for _, id := range wire.ClaimedIDs(raw) {
			x.resolve(id, muxResponse{err: notAMessage(err)})
		}
		return nil
	})
	return err
}

func (x *mux) deliver(raw []byte) error {
	messages, err := x.parse(raw)
	if err != nil {
		return err
	}
	x.idleTime.reset()
	for i := range messages {
		message := &messages[i]
		if message.Method != "" {
			x.receive(message)
			continue
		}
		x.resolve(message.ID, muxResponse{message: message})
	}
	return nil
}

// parse reads one JSON text from the stream.
func (x *mux) parse(raw []byte) ([]wire.Message, error) {
	messages, err := wire.ParseAll(raw, x.revision())
	if err == nil {
		return messages, nil
	}
	ids := wire.ClaimedIDs(raw)
	if len(ids) != 1 { // no batch is the response to a list
		return nil, err
	}
	x.mu.Lock()
	method := x.pending[wire.CanonicalID(ids[0])].method
	x.mu.Unlock()
	return parseTolerantly(raw, method, err)
}

// parseTolerantly reads what ParseAll refused with an error, if it is the response to a request of
// the method, and that is one for a list, of which the invalid definitions are left to whoever
// reads them.
func parseTolerantly(raw []byte, method string, refusal error) ([]wire.Message, error) {
	member := listMembers[method]
	if member == "" {
		return nil, refusal
	}
	list, err := wire.ParseList(raw, member)
	return []wire.Message{list}, err
}

// notAMessage is the failure of a request whose response cannot be read.
func notAMessage(err error) error {
	problem := "the response is not a JSON-RPC message: " + err.Error()
	if errors.Is(err, errPanic) {
		problem = err.Error()
	}
	return &ProtocolError{problem: problem}
}

// resolve hands a response to whoever awaits it. A response that nobody awaits is dropped.
func (x *mux) resolve(id []byte, r muxResponse) {
	x.mu.Lock()
	key := wire.CanonicalID(id)
	waiting := x.pending[key]
	delete(x.pending, key)
	x.mu.Unlock()
	if waiting.response != nil {
		// It never blocks: there is room for one, and only the first response finds the entry.
		waiting.response <- r
	}
}

// end is called once, when the stream has ended.
func (x *mux) end(cause error) {
	x.cause = cause
	close(x.closed)
}

// standalone has nothing to open: the one stream carries everything.
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

func (x *mux) setRevision(revision string) { x.agreed.Store(&revision) }

// revision returns the revision that was agreed on; empty before.
func (x *mux) revision() string {
	if revision := x.agreed.Load(); revision != nil {
		return *revision
	}
	return ""
}

func (x *mux) done() <-chan struct{} { return x.closed }

func (x *mux) err() error { return x.cause }
