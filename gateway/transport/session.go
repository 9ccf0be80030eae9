package transport

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

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
	// A client that asks for another revision is offered this one, and goes if it does not know it
	// (2025-11-25, Lifecycle, "Version Negotiation").
	request.Revision = wire.LatestLegacy
	if wire.KnownLegacy(requested) {
		request.Revision = requested
	}
	request.Capabilities = wire.ReadCapabilities(request.Params.Object("capabilities"))
	request.Software = requests.ReadSoftware(request.Params.Object("clientInfo"))
	return handler.Initialization(request), nil
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
	// What the function keeps is copied out of s, which would else go to the heap with each get.
	relay, replies, id := requests.NewRelayQueue(), s.replies, s.id
	request.Relay = relay
	request.ServerRequest = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		return replies.request(ctx, id, relay.Send, method, params)
	}
}

// receive handles a notification, or a reply to a server request. It returns false for a reply that
// no server request of this replica waits for.
func (s *session) receive(request *requests.Request) bool {
	switch {
	case request.Message.IsResponse():
		return s.replies.deliver(s.id, &request.Message)
	case request.Message.Method == wire.Cancelled:
		s.inFlight.cancel(s.id, request.Params.Get("requestId"), wire.ReadCancelled(request.Params))
	}
	return true
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
	// Without an id: an error about a batch as a whole answers none of its messages.
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
	maxBuffered := request.Snapshot.Config.Gateway.MaxBuffered
	// Until the client has read them, its messages wait in the queue, which nobody else counts.
	defer request.Relay.Hold(t.ledger, maxBuffered, request.Key())()
	done := make(chan struct{})
	// This goroutine is the only one that writes to the client, so that the request has one of its
	// own.
	go func() {
		defer close(done)
		response = t.requests.Handle(ctx, request, buffer)
		request.Relay.Close()
	}()
	for {
		select {
		case <-request.Relay.Ready():
			out.sendAll(request.Relay)
		case <-done:
			// What came last: the response must not overtake it.
			out.sendAll(request.Relay)
			return response
		}
	}
}

func (o outlet) sendAll(relay *requests.RelayQueue) {
	for messages := relay.Drain(); len(messages) > 0; messages = relay.Drain() {
		for _, message := range messages {
			o.send(message)
		}
	}
}

// batchWidth is how many requests of a batch run concurrently.
const batchWidth = 8

// job carries out one request and returns its response, which has no JSON if the client no longer
// wants one.
type job func() requests.Response

// serveBatch handles a batch over Streamable HTTP, each message as if it had come by itself.
func (l *legacyExchange) serveBatch(batch []jsontext.Value) {
	x := l.x
	if !wire.Batches(l.sealed.Revision) {
		x.refuse(http.StatusBadRequest, nil, wire.NoBatches())
		return
	}
	s := l.session()
	s.setLogLevel = l.logLevelSetter()
	responses, release := runBatch(readBatch(batch, func(raw jsontext.Value, request *requests.Request) job {
		request.Caller, request.Snapshot = l.caller, x.snapshot
		request.Revision, request.Session = l.sealed.Revision, l.sealed.ID
		request.Software, request.Client, request.Variant = s.software, x.client, x.variant
		if request.Message.IsRequest() {
			return l.acceptBatched(&s, request)
		}
		if s.receive(request) {
			return nil
		}
		return func() requests.Response {
			l.forwardReply(unanswered{}, &request.Message, raw)
			return requests.Response{}
		}
	}))
	defer release()
	if responses == nil {
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	// An error means that the client has gone.
	_ = write(x.r.Context(), x.w, time.Now(), http.StatusOK, true, responses)
}

// acceptBatched returns the job of one request of a batch. Responses come together at the end, so
// nothing can be relayed before one of them.
func (l *legacyExchange) acceptBatched(s *session, request *requests.Request) job {
	x := l.x
	request.SetLogLevel = s.setLogLevel
	request.ResolveTool()
	ctx := requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header)
	ctx, begun := s.inFlight.begin(ctx, s.id, request.Message.ID)
	if begun == nil {
		refusal := errInFlight()
		x.t.requests.Record(ctx, request, refusal)
		return refuseJob(request.Message.ID, refusal)
	}
	return func() requests.Response {
		defer begun.end()
		return x.t.requests.Handle(ctx, request, nil)
	}
}

// readBatch reads the messages of a batch in order and passes each to accept. It returns the jobs
// that make the responses; what is not a message, or must not be part of a batch, gets an error.
func readBatch(batch []jsontext.Value, accept func(jsontext.Value, *requests.Request) job) (jobs []job) {
	for _, raw := range batch {
		request, refusal := requests.Read(raw)
		switch {
		case refusal != nil || !request.Message.IsRequest():
		case request.Message.Method == wire.Initialize:
			// Nothing else is possible until it is answered (2025-03-26, Lifecycle).
			refusal = wire.NewError(wire.InvalidRequest, "Invalid request: initialize must not be part of a batch")
		case request.ClaimsModern():
			refusal = wire.NoBatches()
		}
		if refusal != nil {
			jobs = append(jobs, refuseJob(request.Message.ID, refusal))
		} else if run := accept(raw, request); run != nil {
			jobs = append(jobs, run)
		}
	}
	return jobs
}

// refuseJob returns the job of a request that is refused.
func refuseJob(id jsontext.Value, refusal *wire.Error) job {
	return func() requests.Response {
		return requests.Response{JSON: wire.AppendError(nil, id, refusal), Code: refusal.Code}
	}
}

// runBatch runs jobs concurrently and returns their responses as a batch; nil where there are none.
// Release must be called when the batch is written.
func runBatch(jobs []job) (batch []byte, release func()) {
	responses := make([]requests.Response, len(jobs))
	release = func() {
		for i := range responses {
			responses[i].Release()
		}
	}
	var group errgroup.Group
	group.SetLimit(batchWidth)
	for i, run := range jobs {
		group.Go(func() error {
			responses[i] = run()
			return nil
		})
	}
	_ = group.Wait() // jobs return no errors
	var written []jsontext.Value
	for _, response := range responses {
		if response.JSON != nil {
			written = append(written, response.JSON)
		}
	}
	if written == nil {
		return nil, release
	}
	return wire.Array(written), release
}
