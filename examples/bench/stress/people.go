package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// audience is clients of both eras that hold a stream. Each lists when it is told of a change, at the
// next endpoint. When its stream ends it goes on at the next one: a modern client lists then, and one of
// 2025-11-25 says which event it has seen last, and lists only if it is told.
type audience struct {
	client    rig.Client
	endpoints []string
	// read returns the mark of a list.
	read    func(names map[string]bool) (mark int, err error)
	began   time.Time
	cancel  context.CancelFunc
	pending sync.WaitGroup

	mu   sync.Mutex // guards what follows
	ops  history
	next int // endpoint
}

func (w *world) follow(ctx context.Context, n int, endpoints ...string) *audience {
	a := &audience{client: w.client, endpoints: endpoints, read: w.read, began: time.Now()}
	ctx, a.cancel = context.WithCancel(ctx)
	for id := range n {
		a.note(op{Client: id + 1, Name: "begin"}, a.began, nil)
		a.pending.Go(func() { a.run(ctx, id+1) })
	}
	return a
}

// stop ends all clients and returns what they did.
func (a *audience) stop() history {
	a.cancel()
	a.pending.Wait()
	return a.ops
}

// soFar returns what they have done until now.
func (a *audience) soFar() history {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clip(a.ops)
}

// note adds an operation that was begun at a time and has ended.
func (a *audience) note(o op, sent time.Time, err error) {
	if err != nil {
		o.Error = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o.Sent, o.Received = sent.Sub(a.began), time.Since(a.began)
	a.ops = append(a.ops, o)
}

// await waits until all clients have listed a mark.
func (a *audience) await(mark int, bound time.Duration) error {
	return rig.Eventually(bound, func() error {
		if stale := a.soFar().stale(mark, time.Since(a.began)); len(stale) > 0 {
			return fmt.Errorf("clients %v have not listed change %d", stale, mark)
		}
		return nil
	})
}

func (a *audience) run(ctx context.Context, id int) {
	c, last := a.client, ""
	c.Legacy = id%2 == 0
	for opened := false; ctx.Err() == nil; {
		sent, stream := time.Now(), op{Client: id, Name: "stream"}
		stream.At, c.Endpoint = a.turn()
		var err error
		if !opened {
			err = c.Initialize(ctx)
		}
		if opened = opened || err == nil; opened {
			err = a.stream(ctx, &c, stream, &last)
		}
		if ctx.Err() == nil {
			a.note(stream, sent, err)
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// turn returns the next endpoint, and its number.
func (a *audience) turn() (number int, endpoint string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	number = a.next % len(a.endpoints)
	a.next++
	return number + 1, a.endpoints[number]
}

// stream follows one stream, which goes on after an event if it is one of 2025-11-25. Last becomes the
// last event. A stream that ends in the way of its revision is no error.
func (a *audience) stream(ctx context.Context, c *rig.Client, o op, last *string) error {
	stream, err := c.Listen(ctx, *last)
	if err != nil {
		return err
	}
	defer stream.Close()
	if c.Legacy && *last == "" {
		a.list(ctx, o.Client)
	}
	for ctx.Err() == nil {
		m, err := stream.Next()
		if err != nil || m.Method == "" { // the latter is the closing result
			*last = stream.ID
			if c.Legacy && errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if m.Method == wire.PromptsListChanged {
			o.Name = "told"
			a.note(o, time.Now(), nil)
		}
		if m.Method == wire.PromptsListChanged || m.Method == wire.Acknowledged {
			a.list(ctx, o.Client)
		}
	}
	return nil
}

// list lists at one endpoint after another, until one answers.
func (a *audience) list(ctx context.Context, id int) {
	for ctx.Err() == nil {
		o, sent := op{Client: id, Name: "list"}, time.Now()
		c := a.client
		o.At, c.Endpoint = a.turn()
		names, err := c.Walk(ctx)
		if err == nil {
			o.Mark, err = a.read(names)
		}
		if ctx.Err() == nil {
			a.note(o, sent, err)
		}
		if err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// get begins gets of a prompt at a rate.
func get(ctx context.Context, c *rig.Client, prompt string, perSecond float64) *rig.Paced {
	return rig.Pace(ctx, perSecond, func(ctx context.Context) error { return c.Get(ctx, prompt) })
}

// walk begins lists at a rate, each of which must be whole.
func (w *world) walk(ctx context.Context, c *rig.Client, perSecond float64) *rig.Paced {
	return rig.Pace(ctx, perSecond, func(ctx context.Context) error {
		names, err := c.Walk(ctx)
		if err == nil {
			_, err = w.read(names)
		}
		return err
	})
}

// repeat does something again and again, with a pause each, until stop is called, which waits for the
// end.
func repeat(pause time.Duration, do func()) (stop func()) {
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			do()
			select {
			case <-stopping:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() { close(stopping); <-done }
}
