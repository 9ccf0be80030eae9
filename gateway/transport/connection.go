package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// connection is a client all of whose messages travel over one connection in both directions, so
// that the connection is the session: a pair of pipes, or a stream of HTTP+SSE. Whatever carries it
// hands the client's messages to [connection.receive], from one goroutine, and sends to the client
// what it takes from out, until out is closed.
type connection struct {
	t *Transport

	// The goroutine that calls receive owns caller, session's fields and notified.
	caller  snapshot.Caller
	client  string // its address; empty over stdio
	session session
	// notified is set once the client is told of changes.
	notified bool
	// legacyOnly is set for HTTP+SSE, which the modern era does not have.
	legacyOnly bool

	// work is all requests and streams.
	work     sync.WaitGroup
	inFlight inFlight
	// slots counts the requests and streams whose response is not written yet.
	slots   atomic.Int32
	replies replies
	// out hands messages to the one goroutine that writes them.
	out chan outgoing
	// ending is closed when streams are to end, abandoned when the client is taken to have stopped
	// reading.
	ending, abandoned chan struct{}
}

// outgoing is a message on its way to the client.
type outgoing struct {
	message []byte
	// written is called when the message is written, or cannot be any more; nil where nothing waits
	// for that.
	written func()
}

// done is to be called by the goroutine that writes.
func (o outgoing) done() {
	if o.written != nil {
		o.written()
	}
}

func newConnection(t *Transport, caller snapshot.Caller) *connection {
	c := &connection{
		t: t, caller: caller,
		out: make(chan outgoing), ending: make(chan struct{}), abandoned: make(chan struct{}),
	}
	c.session = session{
		inFlight: &c.inFlight, replies: &c.replies,
		setLogLevel: func(level string) { c.session.logLevel = level },
	}
	return c
}

// retain returns the current snapshot, and authenticates the client again if its configuration is
// another one. An error says why the client is not to be served any more. To be called from
// receive's goroutine.
func (c *connection) retain(ctx context.Context) (*snapshot.Snapshot, error) {
	s, _, err := c.t.publisher.Retain(ctx, &c.caller)
	return s, err
}

// finish ends the streams, waits for the requests in flight, and closes out. To be called after the
// last receive.
func (c *connection) finish() {
	// Streams are part of the work that is waited for, and only end by this.
	close(c.ending)
	c.replies.close()
	c.work.Wait()
	close(c.out)
}

// send hands a message to the writer; it ignores nil. It waits for a client that is slow to read.
func (c *connection) send(message []byte) { c.hand(outgoing{message: message}) }

// hand is send for a message after which something is over.
func (c *connection) hand(o outgoing) {
	if o.message == nil {
		o.done()
		return
	}
	select {
	case c.out <- o:
	case <-c.abandoned:
		o.done()
	}
}

// run carries out the job of a request and hands its response to the writer.
func (c *connection) run(run job) {
	response := run()
	c.hand(outgoing{response.JSON, func() {
		response.Release()
		c.slots.Add(-1)
	}})
}

// receive handles a message or batch of the client with the current snapshot. Requests run
// concurrently; changes of the session's own state do not. An error says why the client is not to
// be served any more.
func (c *connection) receive(ctx context.Context, in incoming) error {
	s, err := c.retain(ctx)
	if err != nil {
		return err
	}
	ctx = requests.ExtractTrace(ctx, nil, in.header)
	if in.batch != nil {
		c.receiveBatch(ctx, s, in.batch)
		return nil
	}
	response, run := c.accept(ctx, s, in.request)
	c.send(response)
	if run != nil {
		c.work.Go(func() { c.run(run) })
	}
	return nil
}

// receiveBatch handles the messages of a batch, and responds with a batch.
func (c *connection) receiveBatch(ctx context.Context, s *snapshot.Snapshot, batch []jsontext.Value) {
	if !wire.Batches(c.session.revision) {
		c.send(wire.AppendError(nil, nil, wire.NoBatches()))
		return
	}
	for i := range batch { // or a small message would keep the whole batch, and count for itself only
		batch[i] = batch[i].Clone()
	}
	var slots int32 // of the whole batch, until it is written
	jobs := readBatch(batch, func(_ jsontext.Value, request *requests.Request) job {
		response, run := c.accept(ctx, s, request)
		if response != nil {
			return func() requests.Response { return requests.Response{JSON: response} }
		}
		if run != nil {
			slots++
		}
		return run
	})
	c.work.Go(func() {
		responses, release := runBatch(jobs)
		c.hand(outgoing{responses, func() {
			release()
			c.slots.Add(-slots)
		}})
	})
}

// accept handles one message. The response to a request is either returned at once, or what run
// returns.
func (c *connection) accept(
	ctx context.Context, s *snapshot.Snapshot, request *requests.Request,
) (response []byte, run job) {
	request.Snapshot, request.Caller, request.Client, request.Revision = s, c.caller, c.client, c.session.revision
	if request.Message.IsRequest() {
		return c.acceptRequest(ctx, request)
	}
	c.session.receive(request)
	if request.Message.Method == wire.Initialized && c.session.revision != "" && !c.notified {
		c.notified = true
		c.notify()
	}
	return nil, nil
}

// notify tells a legacy client of changes for as long as it is connected.
func (c *connection) notify() {
	caller, sub := c.caller, c.t.publisher.Subscribe(c.caller.Principal)
	c.work.Go(func() {
		defer sub.Close()
		defer c.t.recovered(context.Background(), nil)
		changed := wire.AppendNotification(nil, wire.PromptsListChanged, nil)
		// Not in the context of the message that began it. The connection ends it by ending.
		c.t.follow(context.Background(), &caller, sub, func() { c.send(changed) },
			outlet{send: c.send, ending: c.ending})
	})
}

func (c *connection) acceptRequest(ctx context.Context, request *requests.Request) (response []byte, run job) {
	id := request.Message.ID
	switch {
	case !c.legacyOnly && request.ClaimsModern():
		if err := checkModern(request, nil); err != nil {
			c.t.requests.RecordRefused(ctx, request, nil)
			return wire.AppendError(nil, id, err), nil
		}
		return c.begin(ctx, request)
	case request.Message.Method == wire.Initialize:
		return c.acceptInitialize(ctx, request), nil
	// Before initialize, too: pings are the one thing that clients may send then (2025-11-25,
	// Lifecycle).
	case request.Message.Method == wire.Ping:
		c.t.requests.Record(ctx, request, nil)
		return wire.AppendResult(nil, id, jsontext.Value("{}")), nil
	case c.session.revision == "":
		problem := "Begin with initialize"
		if !c.legacyOnly {
			problem += ", or send _meta with " + wire.MetaProtocolVersion
		}
		c.t.requests.RecordRefused(ctx, request, nil)
		return wire.AppendError(nil, id, wire.NewError(wire.InvalidRequest, problem)), nil
	}
	c.session.connect(request)
	if request.Message.Method == wire.SetLogLevel { // requests that follow must find it done
		out := c.t.requests.Handle(ctx, request, nil)
		out.Release()
		return out.JSON, nil
	}
	return c.begin(ctx, request)
}

func (c *connection) acceptInitialize(ctx context.Context, request *requests.Request) []byte {
	result, refusal := initialize(c.t.requests, request)
	if refusal != nil {
		c.t.requests.RecordRefused(ctx, request, nil)
		return wire.AppendError(nil, request.Message.ID, refusal)
	}
	c.session.revision, c.session.capabilities = request.Revision, request.Capabilities
	c.session.software = request.Software
	c.t.requests.Record(ctx, request, nil)
	return wire.AppendResult(nil, request.Message.ID, result)
}

// begin registers a request, so that the client can cancel it, and returns the job that carries it
// out. The request takes one of the connection's slots, which is free again when the response is
// written. A large request also counts as held until its response is ready.
func (c *connection) begin(ctx context.Context, request *requests.Request) (response []byte, run job) {
	ctx = requests.ExtractTrace(ctx, request.Meta, nil)
	respond := c.respond
	if request.Modern() && request.Message.Method == wire.Listen {
		ctx = context.WithoutCancel(ctx) // the client may cancel it; the connection ends it in order
		respond = c.respondListen
	}
	if c.slots.Load() >= maxInFlight { // only this goroutine adds to it
		refusal := errInFlight()
		c.t.requests.Record(ctx, request, refusal)
		return wire.AppendError(nil, request.Message.ID, refusal), nil
	}
	// Never nil: there are fewer slots than maxSessionInFlight.
	ctx, begun := c.inFlight.begin(ctx, c.session.id, request.Message.ID)
	// Over one connection nothing but the id says which request a response is for.
	if begun.again {
		begun.end()
		c.t.requests.RecordRefused(ctx, request, nil)
		refusal := wire.NewError(wire.InvalidRequest, "The id is in use by another request")
		return wire.AppendError(nil, request.Message.ID, refusal), nil
	}
	var text edge.Hold // not only its params: all of it stays in memory, and may be blanks
	if request.Size >= edge.Least {
		var ok bool
		maxBuffered := request.Snapshot.Config.Gateway.MaxBuffered
		if text, ok = c.t.ledger.Acquire(maxBuffered, request.Key(), "", request.Size); !ok {
			begun.end()
			refusal := errInFlight()
			c.t.requests.Record(ctx, request, refusal)
			return wire.AppendError(nil, request.Message.ID, refusal), nil
		}
	}
	c.slots.Add(1)
	return nil, func() (response requests.Response) {
		defer begun.end()
		defer text.Release()
		defer c.t.recovered(ctx, func() {
			refusal := wire.NewError(wire.InternalError, "Internal error")
			// By the id of begun: a stream must not keep its request, and with it a snapshot.
			response = requests.Response{JSON: wire.AppendError(nil, jsontext.Value(begun.key.id), refusal)}
		})
		return respond(ctx, request)
	}
}

// respond returns the response to a request, without JSON for one that the client has cancelled.
func (c *connection) respond(ctx context.Context, request *requests.Request) requests.Response {
	var response requests.Response
	if request.Relay == nil {
		response = c.t.requests.Handle(ctx, request, nil)
	} else {
		response = c.t.handleRelaying(ctx, request, nil, outlet{send: c.send})
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), requests.ErrShuttingDown) {
		response.JSON = nil
	}
	return response
}

// respondListen serves one of possibly several subscriptions. It returns the response to a request
// that is refused, or the closing result, to be sent when the id is free again.
func (c *connection) respondListen(ctx context.Context, request *requests.Request) requests.Response {
	wanted, refusal := c.t.readListen(ctx, request)
	if refusal != nil {
		return requests.Response{JSON: wire.AppendError(nil, request.Message.ID, refusal)}
	}
	release, ok := c.t.countStream(&request.Caller, false)
	if !ok {
		return requests.Response{JSON: wire.AppendError(nil, request.Message.ID, requests.TooManyStreams())}
	}
	defer release()
	sub := c.t.publisher.Subscribe(request.Caller.Principal)
	defer sub.Close()
	l := &listener{caller: request.Caller, sub: sub, id: request.Message.ID, wanted: wanted}
	return requests.Response{JSON: c.t.listen(ctx, l, outlet{send: c.send, ending: c.ending})}
}
