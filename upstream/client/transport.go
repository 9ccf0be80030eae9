package client

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// transport carries messages to one server and back. There are three: Streamable HTTP, HTTP+SSE and stdio.
type transport interface {
	// start begins the exchange. From then on receive gets each message that is not a response; it must not block. Start
	// is called once, before anything else.
	start(receive func(*wire.Message))
	// roundTrip sends a request and stores its response.
	roundTrip(ctx context.Context, r *request) error
	// send sends a message that has no response.
	send(ctx context.Context, message []byte) error
	// standalone carries what a legacy server says outside of calls, until ctx ends or the stream breaks. It calls ready
	// once nothing can be missed any more, and returns ErrNoStream if the server offers no such stream.
	standalone(ctx context.Context, ready func()) error
	// tiesMessages reports whether the transport knows which call a server's message belongs to.
	tiesMessages() bool
	// mayIgnoreUnknown reports whether a legacy server may leave a request that it does not know unanswered.
	mayIgnoreUnknown() bool
	// setRevision is called once, when a revision has been agreed on.
	setRevision(revision string)
	// idle measures for how long nothing has come from the server.
	idle() *idleTime
	// stream is that of the stream of changes, if there are others; else nil.
	stream() *streamIdle
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
	// traced is what the headers say about the span of the request.
	traced *traceContext
	// onMessage, if set, gets the messages that certainly belong to this request. It must not block. Only Streamable HTTP
	// can tell.
	onMessage func(*wire.Message)
	// response is set once it has arrived.
	response *wire.Message
	// position is how far the response's stream was read. Only Streamable HTTP has one.
	position streamPosition
}
