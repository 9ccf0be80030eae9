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

// session is the state of a legacy client over any transport.
type session struct {
	// id identifies the session in inFlight and replies. It is zero over stdio and HTTP+SSE, where each
	// connection has its own inFlight and replies.
	id       sessionID
	inFlight *inFlight
	replies  *replies

	// revision is empty before initialize.
	revision string
	// capabilities are the kinds of server requests that the client supports.
	capabilities wire.Capabilities
	// software is the name and version of the client, from initialize.
	software    requests.Software
	logLevel    string
	setLogLevel func(level string)
}

// initialize returns the result of an initialize request. It stores the negotiated revision, the
// client's capabilities and its software in the request.
func initialize(handler *requests.Handler, request *requests.Request) (jsontext.Value, *wire.Error) {
	requested, ok := request.Params.Text("protocolVersion")
	if !ok {
		return nil, wire.NewError(wire.InvalidParams, "Invalid params: protocolVersion must be a string")
	}
	// Offer the latest legacy revision to a client that requests an unknown one. The client
	// disconnects if it does not support that revision (2025-11-25, Lifecycle, "Version Negotiation").
	request.Revision = wire.LatestLegacy
	if wire.KnownLegacy(requested) {
		request.Revision = requested
	}
	request.Capabilities = wire.ReadCapabilities(request.Params.Object("capabilities"))
	request.Software = requests.ReadSoftware(request.Params.Object("clientInfo"))
	return handler.Initialization(request), nil
}

// connect stores the session's state in a request. If the request may relay messages to its client, it
// also gets a relay and a function that sends server requests.
func (s *session) connect(request *requests.Request) {
	request.Capabilities, request.LogLevel, request.Software = s.capabilities, s.logLevel, s.software
	if request.Message.Method == wire.SetLogLevel {
		request.SetLogLevel = s.setLogLevel
	}
	if !request.WantsRelay() {
		return
	}
	// Copy these fields: a closure over s would move s to the heap in each get.
	relay, replies, id := requests.NewRelayQueue(), s.replies, s.id
	request.Relay = relay
	request.ServerRequest = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		return replies.request(ctx, id, relay.Send, method, params)
	}
}

// receive handles a notification or a reply. It returns false for a reply for which no server request
// of this replica waits.
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

// incoming is a message or a batch of messages.
type incoming struct {
	request *requests.Request
	// batch contains the unparsed messages of a batch. It is nil for a single message.
	batch []jsontext.Value
	// raw is the body of the HTTP request. It is nil over stdio.
	raw []byte
	// header is the header of the HTTP request. It is nil over stdio.
	header http.Header
}

// readIncoming parses a message or batch. Even after an error, in.request is not nil and contains the
// message's id if that could be parsed. The caller must check whether the client's revision has
// batches.
func readIncoming(raw []byte) (in incoming, refusal *wire.Error) {
	if !wire.IsBatch(raw) {
		in.request, refusal = requests.Read(raw)
		return in, refusal
	}
	// An error about the whole batch has no id.
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

// handleRelaying handles a request. Before it returns the response, it sends the upstream's progress,
// log messages and server requests to the client.
func (t *Transport) handleRelaying(
	ctx context.Context, request *requests.Request, scope *requests.Scope, buffer []byte, out outlet,
) (response requests.Response) {
	// Count the relay's large messages in the client's memory until they have been written.
	request.Relay.Hold(scope, t.ledger, request.Snapshot.Config.Gateway.MaxBuffered, request.Key())
	done := make(chan struct{})
	// Handle the request on another goroutine: this goroutine writes the messages to the client.
	go func() {
		defer close(done)
		response = t.requests.Handle(ctx, request, scope, buffer)
		request.Relay.Close()
	}()
	for {
		select {
		case <-request.Relay.Ready():
			out.sendAll(request.Relay)
		case <-done:
			out.sendAll(request.Relay) // the last messages must precede the response
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

// batchWidth bounds the concurrent requests of a batch.
const batchWidth = 8

// job is a request to handle.
type job struct {
	scope requests.Scope // close it when the response has been written
	// run handles the request. The JSON of its response is nil if the client gets no response.
	run func(*requests.Scope) requests.Response
}

// serveBatch serves a batch over Streamable HTTP.
func (l *legacyExchange) serveBatch(batch []jsontext.Value) {
	x := l.x
	if !wire.Batches(l.sealed.Revision) {
		x.refuse(http.StatusBadRequest, nil, wire.NoBatches())
		return
	}
	s := l.session()
	s.setLogLevel = l.logLevelSetter()
	x.t.pendings.add(&x.pending, x.w, &requests.Request{Received: time.Now()})
	responses, release := runBatch(readBatch(batch, func(raw jsontext.Value, request *requests.Request) *job {
		request.Caller, request.Snapshot = l.caller, x.snapshot
		request.Revision, request.Session = l.sealed.Revision, l.sealed.ID
		request.Software, request.Client, request.Variant = s.software, x.client, x.variant
		if request.Message.IsRequest() {
			return l.acceptBatched(&s, request)
		}
		if s.receive(request) {
			return nil
		}
		return &job{run: func(*requests.Scope) requests.Response {
			l.forwardReply(unanswered{}, &request.Message, raw)
			return requests.Response{}
		}}
	}))
	defer release()
	stream := x.t.pendings.end(&x.pending)
	switch {
	case stream != nil:
		if responses != nil {
			stream.event("", responses)
		}
		stream.end()
		return
	case responses == nil:
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	// An error means that the client has left.
	_ = write(x.r.Context(), x.w, time.Now(), http.StatusOK, true, responses)
}

// acceptBatched returns the job of one request of a batch. The request gets no relay: all responses
// are sent together, and no messages are sent before them.
func (l *legacyExchange) acceptBatched(s *session, request *requests.Request) *job {
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
	run := func(scope *requests.Scope) requests.Response { return x.t.requests.Handle(ctx, request, scope, nil) }
	return &job{run: run, scope: requests.Scope{InFlight: begun}}
}

// readBatch parses the messages of a batch and calls accept for each, in order. It returns the jobs
// from accept. An invalid message, or a message that must not be in a batch, gets a job with an error.
func readBatch(batch []jsontext.Value, accept func(jsontext.Value, *requests.Request) *job) (jobs []*job) {
	for _, raw := range batch {
		request, refusal := requests.Read(raw)
		switch {
		case refusal != nil || !request.Message.IsRequest():
		case request.Message.Method == wire.Initialize:
			// A client must not send other requests before the response to initialize (2025-03-26,
			// Lifecycle).
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

// refuseJob returns a job with an error response.
func refuseJob(id jsontext.Value, refusal *wire.Error) *job {
	return answered(wire.AppendError(nil, id, refusal))
}

// answered returns a job with a fixed response.
func answered(response []byte) *job {
	return &job{run: func(*requests.Scope) requests.Response { return requests.Response{JSON: response} }}
}

// runBatch runs jobs concurrently. It returns their responses as a batch, or nil if there are none.
// Call release when the batch has been written.
func runBatch(jobs []*job) (batch []byte, release func()) {
	responses := make([]requests.Response, len(jobs))
	release = func() {
		for _, j := range jobs {
			j.scope.Close()
		}
	}
	var group errgroup.Group
	group.SetLimit(batchWidth)
	for i, j := range jobs {
		group.Go(func() error {
			responses[i] = j.run(&j.scope)
			return nil
		})
	}
	_ = group.Wait() // always nil
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
