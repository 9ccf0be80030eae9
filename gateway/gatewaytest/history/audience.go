package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// restInterval is how long a client rests after an operation that failed.
const restInterval = 10 * time.Millisecond

// Audience is clients of both eras and of all transports that hold a stream, and record what they
// do. Each lists when it is told of a change, at the next endpoint. When its stream ends it goes on
// at the next one: a modern client lists then, and one of 2025-11-25 says which event it has seen
// last, and lists only if it is told. One over HTTP+SSE or stdio lists where its stream is, and
// begins anew. The fields must not change once it is in use.
type Audience struct {
	Client    upstreamtest.Client
	Endpoints []string
	// SSE has a third of the clients use HTTP+SSE.
	SSE bool
	// Pipes are those of clients over stdio.
	Pipes []Pipe
	// Principals are those of the clients, and their tokens.
	Principals []string
	// Read returns what is in a list, and the names in it that rules show to some only. An error
	// means that the list is not whole.
	Read func(names map[string]bool) (seen map[string]string, shown []string, err error)
	*Recorder

	cancel  context.CancelFunc
	pending sync.WaitGroup
	next    atomic.Int64 // endpoint
}

// Pipe is how a client over stdio reaches its replica, which has a number.
type Pipe struct {
	At   int
	Open func(ctx context.Context) (io.ReadWriteCloser, error)
}

// Start has a number of clients begin, and others that have no stream, until [Audience.Stop].
func (a *Audience) Start(ctx context.Context, n int, others ...func(context.Context)) {
	a.Recorder = NewRecorder()
	ctx, a.cancel = context.WithCancel(ctx)
	for _, other := range others {
		a.pending.Go(func() { other(ctx) })
	}
	for id := range n + len(a.Pipes) {
		p := &person{audience: a, id: id + 1, client: a.Client, who: a.Principals[id/3%len(a.Principals)]}
		if id < n {
			p.client.SSE = a.SSE && id%3 == 2
		} else {
			p.at, p.client.Pipe, p.who = a.Pipes[id-n].At, a.Pipes[id-n].Open, a.Principals[0]
		}
		p.client.Token, p.client.Legacy = p.who, p.client.SSE || id%2 == 1
		p.note(Op{Name: Begin}, time.Now(), nil)
		a.pending.Go(func() { p.run(ctx) })
	}
}

// Stop ends all clients and returns what they did.
func (a *Audience) Stop() History {
	a.cancel()
	a.pending.Wait()
	return a.SoFar()
}

// do gets a prompt, completes an argument of it or reads a file of a skill or a link, and records
// that: of a get, with who answered, which the text's first word says. It returns the link that a
// get had.
func (a *Audience) do(ctx context.Context, o Op) (link string) {
	c, sent := a.Client, time.Now()
	c.Token, c.Endpoint = o.Who, a.Endpoints[o.At-1]
	var text string
	var err error
	switch o.Name {
	case Get:
		text, link, err = c.Text(ctx, o.Of)
		o.Owner, _, _ = strings.Cut(text, " ")
	case Complete:
		_, err = c.Call(ctx, wire.Complete, fmt.Sprintf(`"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"code","value":""}`, o.Of))
	case Read:
		_, err = c.Call(ctx, wire.ResourcesRead, fmt.Sprintf(`"uri":%q`, o.Of))
	}
	if ctx.Err() != nil {
		return ""
	}
	if refused, ok := errors.AsType[*upstreamtest.Error](err); ok && refused.Data.Reason == RateLimited {
		err = errors.New(RateLimited)
	}
	a.Note(o, sent, err)
	return link
}

// turn returns the next endpoint, and its number.
func (a *Audience) turn() (number int, endpoint string) {
	number = int(a.next.Add(1)-1) % len(a.Endpoints)
	return number + 1, a.Endpoints[number]
}

// person is one client of an audience.
type person struct {
	audience *Audience
	id       int
	who      string
	client   upstreamtest.Client
	at       int // where it is over stdio
	opened   bool
	last     string // event
}

func (p *person) note(o Op, sent time.Time, err error) {
	o.Client, o.Who = p.id, p.who
	p.audience.Note(o, sent, err)
}

func (p *person) run(ctx context.Context) {
	for ctx.Err() == nil {
		sent, o := time.Now(), Op{Name: Ended}
		if o.At = p.at; o.At == 0 {
			o.At, p.client.Endpoint = p.audience.turn()
		}
		var err error
		if !p.opened || p.client.Tied() {
			err = p.client.Initialize(ctx)
			p.opened = err == nil
		}
		if p.opened {
			err = p.follow(ctx, o.At)
		}
		if ctx.Err() == nil {
			p.note(o, sent, err)
			rest(ctx)
		}
	}
}

// rest waits for a moment, or until ctx ends.
func rest(ctx context.Context) {
	select {
	case <-time.After(restInterval):
	case <-ctx.Done():
	}
}

// follow follows one stream. One that ends in the way of its revision is no error.
func (p *person) follow(ctx context.Context, at int) error {
	sent := time.Now()
	stream, err := p.client.Listen(ctx, p.last)
	if err != nil {
		return err
	}
	defer stream.Close()
	if p.client.Legacy && (p.client.Tied() || p.last == "") {
		p.note(Op{Name: Opened, At: at}, sent, nil)
		if err := p.list(ctx, at); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		m, err := stream.Next()
		if err != nil || m.Method == "" { // the latter is the closing result
			p.last = stream.ID
			if p.client.Legacy && errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		switch m.Method {
		case wire.PromptsListChanged:
			p.note(Op{Name: Told, At: at}, time.Now(), nil)
		case wire.Acknowledged:
			p.note(Op{Name: Opened, At: at}, sent, nil)
		default:
			continue
		}
		if err := p.list(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// list lists at one endpoint after another, until one answers. One that is tied lists where its
// stream is, which begins anew after an error.
func (p *person) list(ctx context.Context, at int) error {
	for ctx.Err() == nil {
		o, sent := Op{Name: List, At: at}, time.Now()
		c := &p.client
		if !c.Tied() {
			elsewhere := p.client
			c = &elsewhere
			o.At, c.Endpoint = p.audience.turn()
		}
		names, err := c.Walk(ctx)
		if err == nil {
			o.Seen, o.Names, err = p.audience.Read(names)
		}
		if ctx.Err() == nil {
			p.note(o, sent, err)
		}
		if err == nil || c.Tied() {
			return err
		}
		rest(ctx)
	}
	return nil
}

// Prober returns a function that lists at one replica, again and again: it shows what that has.
func (a *Audience) Prober(id int, who string, at int, pause time.Duration) func(context.Context) {
	return func(ctx context.Context) {
		c := a.Client
		c.Token, c.Endpoint = who, a.Endpoints[at-1]
		for ctx.Err() == nil {
			o, sent := Op{Client: id, Who: who, Name: List, At: at}, time.Now()
			names, err := c.Walk(ctx)
			if err == nil {
				o.Seen, o.Names, err = a.Read(names)
			}
			if ctx.Err() == nil {
				a.Note(o, sent, err)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}
