package transport

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// session is one client of the legacy era, whatever its transport: what it declared at initialize, and where its requests
// in flight and its replies are found.
type session struct {
	// id distinguishes the session in inFlight and replies. It is zero where these belong to one connection only.
	id       sessionID
	inFlight *inFlight
	replies  *replies

	// passOn is set if another replica may have what a message is about.
	passOn *Transport

	// revision is empty before initialize.
	revision string
	// capabilities are those by which the client can be asked for input.
	capabilities wire.Capabilities
	// software is what the client said that it is.
	software    requests.Software
	logLevel    string
	setLogLevel func(level string)
	// notifyLater is [requests.Request.NotifyLater]; nil where the client has no use for it.
	notifyLater func(message []byte)
}

// initialize determines the revision and capabilities of a session, stores them in the request, and returns the result.
func (t *Transport) initialize(request *requests.Request) (jsontext.Value, *wire.Error) {
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
	return t.requests.Initialization(request.Snapshot.Generation, request.Revision), nil
}

// connect gives a request what it needs to reach its client: a relay, and a way to send server requests.
func (s *session) connect(request *requests.Request) {
	request.Capabilities, request.LogLevel, request.Software = s.capabilities, s.logLevel, s.software
	if request.Message.Method == wire.SetLogLevel {
		request.SetLogLevel = s.setLogLevel
	}
	if !request.WantsRelay() {
		return
	}
	relay, replies, id := requests.NewRelayQueue(), s.replies, s.id
	request.Relay, request.NotifyLater = relay, s.notifyLater
	request.ServerRequest = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		return replies.request(ctx, id, relay.Send, method, params)
	}
}

// receive handles a notification, or a reply to a server request. What is not about this replica is passed on.
func (s *session) receive(request *requests.Request) {
	here := true
	switch {
	case request.Message.IsResponse():
		here = s.replies.deliver(s.id, &request.Message)
	case request.Message.Method == wire.Cancelled:
		here = s.inFlight.cancel(s.id, request.Params.Get("requestId"), wire.ReadCancelled(request.Params))
	}
	if !here && s.passOn != nil {
		s.passOn.passOn(s.id, request)
	}
}
