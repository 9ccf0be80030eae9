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

// connection is a client with one connection for all messages in both directions, so that the
// connection is the session: a pair of pipes, or a stream of HTTP+SSE. Its owner passes the
// client's messages to [connection.receive] on one goroutine, and writes the messages from out to
// the client until out is closed.
type connection struct {
	t *Transport

	// The goroutine that calls receive owns caller, session's fields and notified.
	caller  snapshot.Caller
	client  string // network address; empty over stdio
	session session
	// notified is true once the client gets notifications of changes.
	notified bool
	// legacyOnly is true for HTTP+SSE, which the modern era does not have.
	legacyOnly bool

	// work counts the goroutines of requests and streams.
	work     sync.WaitGroup
	inFlight inFlight
	// slots counts the requests and streams without a written response.
	slots   atomic.Int32
	replies replies
	// out passes messages to the writing goroutine.
	out chan outgoing
	// ending is closed to end streams. abandoned is closed when the client has apparently stopped
	// reading.
	ending, abandoned chan struct{}
}

// outgoing is a message for the client.
type outgoing struct {
	message []byte
	// written is called when the message was written or is dropped. It may be nil.
	written func()
}

// done reports that the message was written or is dropped.
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

// retain returns the current snapshot. If its configuration is new, it authenticates the client
// again. The error is the reason to stop serving the client. Only receive's goroutine may call it.
func (c *connection) retain(ctx context.Context) (*snapshot.Snapshot, error) {
	s, _, err := c.t.publisher.Reauthenticate(ctx, &c.caller)
	return s, err
}

// finish ends the streams, waits for the requests in flight, and closes out. Call it after the last
// receive.
func (c *connection) finish() {
	// Streams are part of the work. They end when ending is closed.
	close(c.ending)
	c.replies.close()
	c.work.Wait()
	close(c.out)
}

// send passes a message to the writer, and ignores nil. It waits for a slow client.
func (c *connection) send(message []byte) { c.hand(outgoing{message: message}) }

// hand is send for a message that reports when it was written.
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

// run carries out the job of a request and passes its response to the writer.
func (c *connection) run(j *job) {
	run := j.run
	j.run = nil // otherwise a stream would keep its request
	c.hand(outgoing{run(&j.scope).JSON, j.scope.Close})
}

// receive handles a message or batch of the client with the current snapshot. Requests run
// concurrently. Changes of the session's state are made in order. The error is the reason to stop
// serving the client.
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
	response, j := c.accept(ctx, s, in.request)
	c.send(response)
	if j != nil {
		c.work.Go(func() { c.run(j) })
	}
	return nil
}

// receiveBatch handles the messages of a batch. The response is a batch as well.
func (c *connection) receiveBatch(ctx context.Context, s *snapshot.Snapshot, batch []jsontext.Value) {
	if !wire.Batches(c.session.revision) {
		c.send(wire.AppendError(nil, nil, wire.NoBatches()))
		return
	}
	for i := range batch { // cloned: a small message would keep the whole batch in memory
		batch[i] = batch[i].Clone()
	}
	jobs := readBatch(batch, func(_ jsontext.Value, request *requests.Request) *job {
		response, j := c.accept(ctx, s, request)
		if response != nil {
			return answered(response)
		}
		return j
	})
	c.work.Go(func() {
		responses, release := runBatch(jobs)
		c.hand(outgoing{responses, release})
	})
}

// accept handles one message. It returns the response to a request, or the job that makes the
// response.
func (c *connection) accept(
	ctx context.Context, s *snapshot.Snapshot, request *requests.Request,
) (response []byte, j *job) {
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

// notify notifies a legacy client of changes for as long as it is connected.
func (c *connection) notify() {
	caller, sub := c.caller, c.t.publisher.Subscribe(c.caller.Principal)
	c.work.Go(func() {
		defer sub.Close()
		defer c.t.recovered(context.Background(), nil)
		changed := wire.AppendNotification(nil, wire.PromptsListChanged, nil)
		// Do not use the context of the client's notification: the stream ends with the connection.
		c.t.follow(context.Background(), &caller, sub, func() { c.send(changed) },
			outlet{send: c.send, ending: c.ending})
	})
}

func (c *connection) acceptRequest(ctx context.Context, request *requests.Request) (response []byte, j *job) {
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
	// Answer pings also before initialize: clients may send them then (2025-11-25, Lifecycle).
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
	if request.Message.Method == wire.SetLogLevel { // done before the following requests
		var scope requests.Scope
		defer scope.Close()
		return c.t.requests.Handle(ctx, request, &scope, nil).JSON, nil
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

// begin registers a request, so that the client can cancel it, and returns its job. The request
// uses one of the connection's slots until the response is written. A large message also counts in
// the client's memory until then.
func (c *connection) begin(ctx context.Context, request *requests.Request) (response []byte, j *job) {
	ctx = requests.ExtractTrace(ctx, request.Meta, nil)
	respond := c.respond
	// Legacy clients have no such request. They are notified once they have sent
	// notifications/initialized.
	if request.Modern() && request.Message.Method == wire.Listen {
		ctx = context.WithoutCancel(ctx) // the client may cancel it; otherwise the connection ends it
		respond = c.respondListen
	}
	if c.slots.Load() >= maxInFlight { // only this goroutine increases it
		refusal := errInFlight()
		c.t.requests.Record(ctx, request, refusal)
		return wire.AppendError(nil, request.Message.ID, refusal), nil
	}
	// begun is never nil, because there are fewer slots than maxSessionInFlight.
	ctx, begun := c.inFlight.begin(ctx, c.session.id, request.Message.ID)
	// On one connection, only the id tells which request a response is for.
	if begun.again {
		begun.Release()
		c.t.requests.RecordRefused(ctx, request, nil)
		refusal := wire.NewError(wire.InvalidRequest, "The id is in use by another request")
		return wire.AppendError(nil, request.Message.ID, refusal), nil
	}
	j = newJob(func(scope *requests.Scope) (response requests.Response) {
		defer begun.Release() // before the response is written, since the client may then reuse the id
		defer c.t.recovered(ctx, func() {
			refusal := wire.NewError(wire.InternalError, "Internal error")
			// Use the id of begun: a stream must not keep its request and snapshot in memory.
			response = requests.Response{JSON: wire.AppendError(nil, jsontext.Value(begun.key.id), refusal)}
		})
		return respond(ctx, request, scope)
	})
	if request.Size >= edge.Least { // the whole message stays in memory, not only its params
		var ok bool
		maxBuffered := request.Snapshot.Config.Gateway.MaxBuffered
		if j.scope.Message, ok = c.t.ledger.Acquire(maxBuffered, request.Key(), "", request.Size); !ok {
			begun.Release()
			refusal := errInFlight()
			c.t.requests.Record(ctx, request, refusal)
			return wire.AppendError(nil, request.Message.ID, refusal), nil
		}
	}
	c.slots.Add(1)
	j.scope.InFlight = (*slot)(&c.slots)
	return nil, j
}

// slot is one of the connection's slots.
type slot atomic.Int32

func (s *slot) Release() { (*atomic.Int32)(s).Add(-1) }

// respond returns the response to a request. It has no JSON if the client has cancelled the
// request.
func (c *connection) respond(ctx context.Context, request *requests.Request, scope *requests.Scope) requests.Response {
	var response requests.Response
	if request.Relay == nil {
		response = c.t.requests.Handle(ctx, request, scope, nil)
	} else {
		response = c.t.handleRelaying(ctx, request, scope, nil, outlet{send: c.send})
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), requests.ErrShuttingDown) {
		response.JSON = nil
	}
	return response
}

// respondListen serves one of the client's subscriptions. It returns the error of a refused
// request, or the closing result, which is sent after the id is free again.
func (c *connection) respondListen(ctx context.Context, request *requests.Request, _ *requests.Scope) requests.Response {
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
