package transport

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// session is one client of the legacy era, whatever its transport: what it declared at initialize,
// and where its requests in flight and its replies are found.
type session struct {
	// id distinguishes the session in inFlight and replies. It is zero where these belong to one
	// connection only.
	id       sessionID
	inFlight *inFlight
	replies  *replies

	// passOn is set if another replica, where there are any, may have what a message is about.
	passOn *Transport

	// revision is empty before initialize.
	revision string
	// capabilities are those by which the client can be asked for input.
	capabilities wire.Capabilities
	// software is what the client said that it is.
	software    requests.Software
	logLevel    string
	setLogLevel func(level string)
}

// initialize determines the revision and capabilities of a session, stores them in the request, and
// returns the result.
func initialize(handler *requests.Handler, request *requests.Request) (jsontext.Value, *wire.Error) {
	requested, ok := request.Params.Text("protocolVersion")
	if !ok {
		return nil, wire.NewError(wire.InvalidParams, "Invalid params: protocolVersion must be a string")
	}
	request.Revision = wire.LatestLegacy
	if wire.KnownLegacy(requested) {
		request.Revision = requested
	}
	request.Capabilities = wire.ReadCapabilities(request.Params.Object("capabilities"))
	request.Software = requests.ReadSoftware(request.Params.Object("clientInfo"))
	return handler.Initialization(request.Snapshot.Generation, request.Revision), nil
}

// connect gives a request what it needs to reach its client: a relay, and a way to send server
// requests.
func (s *session) connect(request *requests.Request) {
	request.Capabilities, request.LogLevel, request.Software = s.capabilities, s.logLevel, s.software
	if request.Message.Method == wire.SetLogLevel {
		request.SetLogLevel = s.setLogLevel
	}
	if !request.WantsRelay() {
		return
	}
	relay, replies, id := requests.NewRelayQueue(), s.replies, s.id
	request.Relay = relay
	request.ServerRequest = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		return replies.request(ctx, id, relay.Send, method, params)
	}
}

// receive handles a notification, or a reply to a server request. What is not about this replica is
// passed on. It returns false for a reply that the replica that asked did not get.
func (s *session) receive(ctx context.Context, request *requests.Request) bool {
	here := true
	switch {
	case request.Message.IsResponse():
		here = s.replies.deliver(s.id, &request.Message)
	case request.Message.Method == wire.Cancelled:
		here = s.inFlight.cancel(s.id, request.Params.Get("requestId"), wire.ReadCancelled(request.Params))
	}
	return here || s.passOn == nil || s.passOn.passOn(ctx, s.id, request)
}

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// incoming is one message, or one batch of messages.
type incoming struct {
	request *requests.Request
	// batch holds the messages of a batch, each still to be read; nil for a single message.
	batch []jsontext.Value
	// raw is what was posted; nil over stdio.
	raw []byte
	// header is that of the HTTP request that brought it; nil over stdio.
	header http.Header
}

// readIncoming reads a message or batch. Even with an error the request has the message's id, if
// that much could be read. Whether the client's revision has batches is for the caller to check.
func readIncoming(raw []byte) (in incoming, refusal *wire.Error) {
	if !wire.IsBatch(raw) {
		in.request, refusal = requests.Read(raw)
		return in, refusal
	}
	in.request = &requests.Request{}
	batch, err := wire.ParseBatch(raw)
	switch {
	case err != nil:
		return in, requests.AsWireError(err)
	case len(batch) > maxBatch:
		return in, wire.NewError(wire.InvalidRequest,
			fmt.Sprintf("Invalid request: a batch has at most %d messages", maxBatch))
	}
	in.batch = batch
	return in, nil
}

// handleRelaying carries out a request and meanwhile sends what the upstream has for its client:
// progress, log messages and server requests, all of them before the response.
func (t *Transport) handleRelaying(
	ctx context.Context, request *requests.Request, buffer []byte, out outlet,
) (response requests.Response) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		response = t.requests.Handle(ctx, request, buffer)
		request.Relay.Close()
	}()
	ticks, stop := out.ticks()
	defer stop()
	for {
		select {
		case <-request.Relay.Ready():
			out.sendAll(request.Relay)
		case <-ticks:
			out.keepAlive()
		case <-done:
			out.sendAll(request.Relay)
			return response
		}
	}
}

func (o outlet) sendAll(relay *requests.RelayQueue) {
	for _, message := range relay.Drain() {
		o.send(message)
	}
}
