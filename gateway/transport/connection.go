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

// connection is a client over stdio or HTTP+SSE. The connection is its session: all messages in both
// directions use it. One goroutine of the transport calls [connection.receive] with the client's
// messages. Another goroutine writes the messages from out to the client until out is closed.
type connection struct {
	t *Transport

	// Only the goroutine that calls receive uses caller, the fields of session, and notified.
	caller  snapshot.Caller
	client  string // network address; empty over stdio
	session session
	// notified is true after notify was called for a legacy client.
	notified bool
	// legacyOnly is true for HTTP+SSE, which is not part of the modern era.
	legacyOnly bool

	// work counts the goroutines of requests and streams.
	work     sync.WaitGroup
	inFlight inFlight
	// slots counts the requests and streams whose response has not been written.
	slots   atomic.Int32
	replies replies
	// out passes messages to the goroutine that writes them.
	out chan outgoing
	// ending is closed to end the streams.
	ending chan struct{}
	// abandoned is closed if the client has stopped reading. Messages are then dropped.
	abandoned chan struct{}
}

// outgoing is a message for the client.
type outgoing struct {
	message []byte
	// written is called when the message has been written or dropped. It may be nil.
	written func()
}

// done calls written.
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

// reauthenticate returns the current snapshot. After a reload, it authenticates the client again.
// After an error, the connection must end. Only the goroutine of receive may call it.
func (c *connection) reauthenticate(ctx context.Context) (*snapshot.Snapshot, error) {
	s, _, err := c.t.publisher.Reauthenticate(ctx, &c.caller)
	return s, err
}

// finish ends the streams, waits for the requests in flight, and closes out. Call it after the last
// receive.
func (c *connection) finish() {
	close(c.ending)
	c.replies.close()
	c.work.Wait()
	close(c.out)
}

// send passes a message to the writing goroutine, and ignores nil. It blocks while the client is slow.
func (c *connection) send(message []byte) { c.hand(outgoing{message: message}) }

// hand is send for a message with a written function.
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

// run runs the job of a request and passes the response to the writing goroutine.
func (c *connection) run(j *job) {
	run := j.run
	j.run = nil // frees the request while run serves a stream
	c.hand(outgoing{run(&j.scope).JSON, j.scope.Close})
}

// receive handles a message or batch from the client with the current snapshot. It changes the
// session's state before it returns; requests run concurrently. If a reload has refused the client, it
// returns an error and the connection must end.
func (c *connection) receive(ctx context.Context, in incoming) error {
	s, err := c.reauthenticate(ctx)
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

// receiveBatch handles the messages of a batch and sends the responses as one batch.
func (c *connection) receiveBatch(ctx context.Context, s *snapshot.Snapshot, batch []jsontext.Value) {
	if !wire.Batches(c.session.revision) {
		c.send(wire.AppendError(nil, nil, wire.NoBatches()))
		return
	}
	for i := range batch { // Clone: each message would keep the text of the whole batch in memory
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

// accept handles one message. For a request, it returns the response or a job that returns the
// response. For any other message, both are nil.
func (c *connection) accept(ctx context.Context, s *snapshot.Snapshot, request *requests.Request) (response []byte, j *job) {
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

// notify begins to notify a legacy client of changes, until the connection ends.
func (c *connection) notify() {
	caller, sub := c.caller, c.t.publisher.Subscribe(c.caller.Principal)
	c.work.Go(func() {
		defer sub.Close()
		defer c.t.recovered(context.Background(), nil)
		changed := wire.AppendNotification(nil, wire.PromptsListChanged, nil)
		// Use a background context: the stream outlives the message that started it, and ends with
		// the connection.
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
	// Clients may send pings before initialize (2025-11-25, Lifecycle).
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
	if request.Message.Method == wire.SetLogLevel { // handle it now: it must apply to the next request
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

// begin registers a request, so that the client can cancel it, and returns its job. Until the response
// has been written, the request uses a slot of the connection and, if it is large, memory of the
// client's account.
func (c *connection) begin(ctx context.Context, request *requests.Request) (response []byte, j *job) {
	ctx = requests.ExtractTrace(ctx, request.Meta, nil)
	respond := c.respond
	// Only modern clients subscribe by a request. Legacy clients are notified after
	// notifications/initialized.
	if request.Modern() && request.Message.Method == wire.Listen {
		ctx = context.WithoutCancel(ctx) // a cancellation by the client or the end of the connection ends the stream
		respond = c.respondListen
	}
	if c.slots.Load() >= maxInFlight { // no race: only this goroutine increases slots
		refusal := errInFlight()
		c.t.requests.Record(ctx, request, refusal)
		return wire.AppendError(nil, request.Message.ID, refusal), nil
	}
	// begun is never nil, because there are fewer slots than maxSessionInFlight.
	ctx, begun := c.inFlight.begin(ctx, c.session.id, request.Message.ID)
	// Refuse a second request with the same id: the client could not tell their responses apart.
	if begun.isDuplicate {
		begun.Release()
		c.t.requests.RecordRefused(ctx, request, nil)
		refusal := wire.NewError(wire.InvalidRequest, "The id is in use by another request")
		return wire.AppendError(nil, request.Message.ID, refusal), nil
	}
	j = &job{run: func(scope *requests.Scope) (response requests.Response) {
		defer begun.Release() // before the response is written: the client may then use the id again
		defer c.t.recovered(ctx, func() {
			refusal := wire.NewError(wire.InternalError, "Internal error")
			// Use the id in begun: a reference to request would keep it in memory while a stream runs.
			response = requests.Response{JSON: wire.AppendError(nil, jsontext.Value(begun.key.id), refusal)}
		})
		return respond(ctx, request, scope)
	}}
	if request.Size >= edge.Least { // count the whole message: its params keep all of it in memory
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

// slot releases one of the connection's slots.
type slot atomic.Int32

func (s *slot) Release() { (*atomic.Int32)(s).Add(-1) }

// respond returns the response to a request. Its JSON is nil if the client has canceled the request.
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

// respondListen serves a subscription until it ends, and returns its closing result. If it refuses the
// request, it returns an error response.
func (c *connection) respondListen(ctx context.Context, request *requests.Request, _ *requests.Scope) requests.Response {
	listChanged, refusal := c.t.readListen(ctx, request)
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
	l := &listener{caller: request.Caller, sub: sub, id: request.Message.ID, listChanged: listChanged}
	return requests.Response{JSON: c.t.listen(ctx, l, outlet{send: c.send, ending: c.ending})}
}
