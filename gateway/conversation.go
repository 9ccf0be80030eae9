package gateway

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// conversation is a client all of whose messages go over one connection, both ways, so that its session is the
// connection: a pair of pipes, or a stream of HTTP+SSE. What carries it hands in what the client says, by take from one
// goroutine, and brings to the client what comes out, until that is closed.
type conversation struct {
	gateway *Gateway
	// who is at the other end. Only take and remains touch it.
	who caller
	// legacy is set where the modern era does not exist: it has no HTTP+SSE.
	legacy bool
	// revision is what initialize settled on; empty before, and for a modern client. Only take touches it.
	revision string
	// declared is what the client of the legacy era declared at initialize, and level what it said by logging/setLevel.
	// Only take touches them.
	declared wire.Object
	level    string
	// listening is true once the stream of legacy notifications is open. Only take touches it.
	listening bool
	// work is all requests and streams; calls those that can be cancelled, by their raw ids.
	work  sync.WaitGroup
	calls calls
	// questions are those to the client.
	questions questions
	// out takes messages to the one goroutine that writes them.
	out chan []byte
	// ending is closed when streams are to end, deaf when there is no hope that the client still reads.
	ending, deaf chan struct{}
}

func (g *Gateway) converse(who caller) *conversation {
	return &conversation{
		gateway: g, who: who,
		out: make(chan []byte), ending: make(chan struct{}), deaf: make(chan struct{}),
	}
}

// remains finds out who the client is where a reload has come since it was last called; an error says why it is not to be
// served any more. To be called before each take: what came in after a reload may be there to be taken before its mark is.
func (c *conversation) remains(ctx context.Context) error {
	select {
	case <-c.who.by.replaced:
		_, err := c.gateway.readmit(ctx, &c.who)
		return err
	default:
		return nil
	}
}

// finish ends the streams, waits for the requests in flight, and says that nothing more comes out. To be called after
// the last take.
func (c *conversation) finish() {
	close(c.ending)
	c.questions.close()
	c.work.Wait()
	close(c.out)
}

// write hands a message on to be written; nil is none. It waits for a client that is slow to read.
func (c *conversation) write(message []byte) {
	if message == nil {
		return
	}
	select {
	case c.out <- message:
	case <-c.deaf:
	}
}

// take handles what came in at once. Requests run beside each other; what changes the client's own state does not.
func (c *conversation) take(ctx context.Context, in incoming) {
	ctx = extractTrace(ctx, nil, in.header)
	if in.batch != nil {
		c.takeBatch(ctx, in.batch)
		return
	}
	response, run := c.accept(ctx, in.call)
	c.write(response)
	if run != nil {
		c.work.Go(func() { c.write(run()) })
	}
}

// takeBatch handles the messages of a batch, and answers with a batch.
func (c *conversation) takeBatch(ctx context.Context, batch []jsontext.Value) {
	if !wire.Batches(c.revision) {
		c.write(wire.AppendError(nil, nil, wire.NoBatches()))
		return
	}
	answers := answerEach(batch, func(call *request) job {
		response, run := c.accept(ctx, call)
		if response != nil {
			return func() []byte { return response }
		}
		return run
	})
	c.work.Go(func() { c.write(together(answers)) })
}

// accept handles one message. A request is answered at once, by response, or by the job.
func (c *conversation) accept(ctx context.Context, call *request) (response []byte, run job) {
	call.principal, call.revision = c.who.Principal, c.revision
	switch {
	case call.message.IsNotification():
		c.notified(call)
	case call.message.IsRequest():
		return c.requested(ctx, call)
	default:
		c.questions.answered("", &call.message)
	}
	return nil, nil
}

func (c *conversation) notified(call *request) {
	switch call.message.Method {
	case wire.Cancelled:
		c.calls.cancel(string(call.params.Get("requestId")))
	case wire.Initialized:
		if c.revision != "" && !c.listening {
			c.listening = true
			c.notify()
		}
	}
}

// notify tells a legacy client of changes for as long as it is there.
func (c *conversation) notify() {
	who, sub := c.who, c.gateway.subscribe(c.who.Principal)
	c.work.Go(func() {
		defer c.gateway.leave(sub)
		c.stream(context.Background(), &who, sub, func() { c.write(wire.AppendNotification(nil, wire.PromptsListChanged, nil)) })
	})
}

func (c *conversation) requested(ctx context.Context, call *request) (response []byte, run job) {
	id := call.message.ID
	switch {
	case !c.legacy && call.claimsModern():
		if err := checkModern(call, nil); err != nil {
			return wire.AppendError(nil, id, err), nil
		}
	case call.message.Method == wire.Initialize:
		response := c.initialize(call)
		c.gateway.metrics.measure(ctx, call, nil)
		return response, nil
	case call.message.Method == wire.Ping:
		c.gateway.metrics.measure(ctx, call, nil)
		return wire.AppendResult(nil, id, jsontext.Value("{}")), nil
	case call.message.Method == wire.SetLogLevel && c.revision != "": // what follows must find it done
		call.setLevel = func(level string) { c.level = level }
		response, _ := c.gateway.respond(ctx, nil, call)
		return response, nil
	case c.revision == "":
		problem := "Begin with initialize"
		if !c.legacy {
			problem += ", or send _meta with " + wire.MetaProtocolVersion
		}
		return wire.AppendError(nil, id, wire.NewError(wire.InvalidRequest, problem)), nil
	}
	c.connect(call)
	return c.begin(ctx, call)
}

// connect gives a request the ways to its client.
func (c *conversation) connect(call *request) {
	if call.modern() { // it has them from what it says of itself
		return
	}
	call.declared, call.level = c.declared, c.level
	if !call.mayHear() {
		return
	}
	call.talk = newTalk()
	call.ask = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		return c.questions.ask(ctx, "", call.talk.say, method, params)
	}
}

func (c *conversation) initialize(call *request) []byte {
	requested, ok := call.params.Text("protocolVersion")
	if !ok {
		return wire.AppendError(nil, call.message.ID,
			wire.NewError(wire.InvalidParams, "Invalid params: protocolVersion must be a string"))
	}
	c.revision = negotiate(requested)
	c.declared = askable(call.params.Object("capabilities"))
	return wire.AppendResult(nil, call.message.ID, c.gateway.initialization(c.revision))
}

// begin makes a request one that can be cancelled, and returns the job that carries it out.
func (c *conversation) begin(ctx context.Context, call *request) (response []byte, run job) {
	ctx = extractTrace(ctx, call.meta, nil)
	answer := c.answer
	if call.modern() && call.message.Method == wire.Listen {
		ctx = context.WithoutCancel(ctx) // its client may end it, ctx only in an orderly way
		who := c.who
		answer = func(ctx context.Context, call *request) []byte { return c.listen(ctx, &who, call) }
	}
	ctx, end, ok := c.calls.begin(ctx, string(call.message.ID))
	if !ok {
		return wire.AppendError(nil, call.message.ID, wire.NewError(wire.InvalidRequest, "The id is in use")), nil
	}
	return nil, func() []byte {
		defer end()
		return answer(ctx, call)
	}
}

// answer returns the response to a request, or nil: who cancels wants none.
func (c *conversation) answer(ctx context.Context, call *request) []byte {
	var response []byte
	if call.talk == nil {
		response, _ = c.gateway.respond(ctx, nil, call)
	} else {
		response, _ = c.gateway.respondTalking(ctx, nil, call, speaker{say: c.write, quiet: func() {}})
	}
	if ctx.Err() != nil {
		return nil
	}
	return response
}

// listen serves one subscriptions/listen request, until its response is due; several may be open at once.
func (c *conversation) listen(ctx context.Context, who *caller, call *request) []byte {
	id := call.message.ID
	wanted, err := c.gateway.listens(ctx, call)
	if err != nil {
		return wire.AppendError(nil, id, err)
	}
	sub := c.gateway.subscribe(who.Principal)
	defer c.gateway.leave(sub)
	c.write(acknowledgment(id, wanted))
	ended := c.stream(ctx, who, sub, func() {
		if wanted {
			c.write(subscribed(wire.PromptsListChanged, id, nil))
		}
	})
	if !ended {
		return nil
	}
	return c.gateway.closure(id)
}

// stream calls changed whenever the client's view has become another, until ctx ends or the gateway wants to. It
// reports whether it was the gateway.
func (c *conversation) stream(ctx context.Context, who *caller, sub *subscriber, changed func()) (ended bool) {
	for {
		select {
		case <-sub.wake:
			changed()
		case <-who.by.replaced:
			if !c.gateway.remain(ctx, sub, who) {
				return true
			}
		case <-c.gateway.closing:
			return true
		case <-c.ending:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
