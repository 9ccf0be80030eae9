package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// lastWords is how long a client may take to read what is left for it once ctx has ended.
const lastWords = 2 * time.Second

// ServeStdio serves one client over a pair of pipes, one message on each line, both eras. The principal is who the
// client is for the whole time. It returns when the input has ended and the requests in flight are answered, when
// nobody reads the output, or when ctx ends; subscriptions are closed in an orderly way. Nothing else may write to
// out. A goroutine may stay in a read of in or a write to out that nothing can interrupt.
func (g *Gateway) ServeStdio(ctx context.Context, who policy.Principal, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := &stdioClient{
		gateway: g, principal: who, audience: g.policy.Audience(who),
		out: make(chan []byte), ending: make(chan struct{}), deaf: make(chan struct{}),
	}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, func() { close(c.deaf) }) })()
	lines, written, failed := make(chan []byte), make(chan struct{}), make(chan error, 2)
	go func() { failed <- readLines(ctx, in, lines) }()
	go func() {
		defer close(written)
		if err := c.writeLines(out); err != nil {
			failed <- err
		}
	}()
	err := c.serve(ctx, lines, failed)
	if err != nil {
		stop()
	}
	close(c.ending)
	c.work.Wait()
	close(c.out)
	select {
	case <-written:
	case <-c.deaf:
	}
	return err
}

// readLines sends each line on, until the input or ctx ends. A line that is too long is sent on as nothing.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := wire.ReadLine(reader, maxRequest)
		if err != nil && !errors.Is(err, wire.ErrLineTooLong) {
			return fmt.Errorf("read standard input: %w", err)
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return io.EOF // nobody takes lines any more
		}
	}
}

// stdioClient is the client at the other end of the pipes.
type stdioClient struct {
	gateway   *Gateway
	principal policy.Principal
	audience  *policy.Audience
	// revision is what initialize settled on; empty before, and for a modern client. Only take touches it.
	revision string
	// listening is true once the stream of legacy notifications is open. Only take touches it.
	listening bool
	// work is all requests and streams; calls those that can be cancelled, by their raw ids.
	work  sync.WaitGroup
	calls calls
	// out takes messages to the one goroutine that writes them.
	out chan []byte
	// ending is closed when streams are to end, deaf when there is no hope that the client still reads.
	ending, deaf chan struct{}
}

// serve takes lines until there are no more.
func (c *stdioClient) serve(ctx context.Context, lines <-chan []byte, failed <-chan error) error {
	for {
		select {
		case line := <-lines:
			c.take(ctx, line)
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// write hands a message on to be written as one line. It waits for a client that is slow to read.
func (c *stdioClient) write(message []byte) {
	select {
	case c.out <- message:
	case <-c.deaf:
	}
}

// writeLines writes messages until there are no more. After an error it goes on taking them, so that nobody waits.
func (c *stdioClient) writeLines(out io.Writer) error {
	for message := range c.out {
		if _, err := out.Write(append(wire.SingleLine(message), '\n')); err != nil {
			go func() {
				for range c.out {
					continue
				}
			}()
			return fmt.Errorf("write standard output: %w", err)
		}
	}
	return nil
}

// take handles one line. Requests run beside each other; what changes the client's own state does not.
func (c *stdioClient) take(ctx context.Context, line []byte) {
	if line == nil {
		c.write(wire.AppendError(nil, nil, wire.NewError(wire.InvalidRequest, "The message is too large")))
		return
	}
	message, err := wire.Parse(line)
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		c.write(wire.AppendError(nil, message.ID, wireErr))
		return
	}
	call, err := newRequest(message)
	if err != nil {
		c.write(wire.AppendError(nil, message.ID, wire.NewError(wire.ParseError, "Parse error: "+err.Error())))
		return
	}
	call.principal, call.audience, call.revision = c.principal, c.audience, c.revision
	switch {
	case message.IsNotification():
		c.notified(call)
	case message.IsRequest():
		c.requested(ctx, call)
	}
}

func (c *stdioClient) notified(call *request) {
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
func (c *stdioClient) notify() {
	sub := c.gateway.subscribe(c.audience)
	c.work.Go(func() {
		defer c.gateway.leave(sub)
		c.stream(context.Background(), sub, func() { c.write(wire.AppendNotification(nil, wire.PromptsListChanged, nil)) })
	})
}

func (c *stdioClient) requested(ctx context.Context, call *request) {
	id := call.message.ID
	switch {
	case call.meta.Get(wire.MetaProtocolVersion) != nil:
		if err := checkModern(call, nil); err != nil {
			c.write(wire.AppendError(nil, id, err))
			return
		}
	case call.message.Method == wire.Initialize:
		c.initialize(call)
		return
	case call.message.Method == wire.Ping:
		c.write(wire.AppendResult(nil, id, jsontext.Value("{}")))
		return
	case c.revision == "":
		c.write(wire.AppendError(nil, id, wire.NewError(wire.InvalidRequest,
			"Begin with initialize, or send _meta with "+wire.MetaProtocolVersion)))
		return
	}
	c.start(ctx, call)
}

func (c *stdioClient) initialize(call *request) {
	requested, ok := call.params.Text("protocolVersion")
	if !ok {
		c.write(wire.AppendError(nil, call.message.ID,
			wire.NewError(wire.InvalidParams, "Invalid params: protocolVersion must be a string")))
		return
	}
	c.revision = negotiate(requested)
	c.write(wire.AppendResult(nil, call.message.ID, c.gateway.initialization(c.revision)))
}

// start runs a request in the background, so that others need not wait for it and it can be cancelled.
func (c *stdioClient) start(ctx context.Context, call *request) {
	ctx = extractTrace(ctx, call.meta, nil)
	run := c.answer
	if call.modern() && call.message.Method == wire.Listen {
		ctx, run = context.WithoutCancel(ctx), c.listen // its client may end it, ctx only in an orderly way
	}
	ctx, end, ok := c.calls.begin(ctx, string(call.message.ID))
	if !ok {
		c.write(wire.AppendError(nil, call.message.ID, wire.NewError(wire.InvalidRequest, "The id is in use")))
		return
	}
	c.work.Go(func() {
		defer end()
		run(ctx, call)
	})
}

func (c *stdioClient) answer(ctx context.Context, call *request) {
	response, _ := c.gateway.respond(ctx, nil, call)
	if ctx.Err() == nil { // who cancels wants no response
		c.write(response)
	}
}

// listen serves one subscriptions/listen request; several may be open at once.
func (c *stdioClient) listen(ctx context.Context, call *request) {
	id := call.message.ID
	wanted, err := c.gateway.listens(ctx, call)
	if err != nil {
		c.write(wire.AppendError(nil, id, err))
		return
	}
	sub := c.gateway.subscribe(c.audience)
	defer c.gateway.leave(sub)
	c.write(acknowledgment(id, wanted))
	ended := c.stream(ctx, sub, func() {
		if wanted {
			c.write(subscribed(wire.PromptsListChanged, id, nil))
		}
	})
	if ended {
		c.write(c.gateway.closure(id))
	}
}

// stream calls changed whenever the client's view has become another, until ctx ends or the gateway wants to. It
// reports whether it was the gateway.
func (c *stdioClient) stream(ctx context.Context, sub *subscriber, changed func()) (ended bool) {
	for {
		select {
		case <-sub.wake:
			changed()
		case <-c.gateway.closing:
			return true
		case <-c.ending:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
