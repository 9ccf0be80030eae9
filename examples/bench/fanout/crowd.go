package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/examples/bench/internal/client"
)

const (
	// openers is how many streams are opened at a time.
	openers = 64
	// patience bounds how long a change may take to reach everybody, and silence is how long after that nobody may hear
	// anything more.
	patience = 20 * time.Second
	silence  = 500 * time.Millisecond
)

// crowd is many clients, each listening on its own connection.
type crowd struct {
	listeners []*listener
	began     time.Time
	reading   sync.WaitGroup

	// awaited is how many more notifications the present round waits for; at the last one, all is marked.
	awaited atomic.Int64
	all     chan struct{}
}

// listener is one client.
type listener struct {
	token string
	conn  *client.Conn
	// times is how often it heard of a change in the present round, and last when, since the crowd began.
	times atomic.Int64
	last  atomic.Int64
	// ended is set when its stream has.
	ended atomic.Bool
}

// newCrowd opens the streams of n clients, every second one with each token.
func newCrowd(ctx context.Context, endpoint string, n int, legacy bool) (*crowd, error) {
	address, err := host(endpoint)
	if err != nil {
		return nil, err
	}
	c := &crowd{listeners: make([]*listener, n), began: time.Now(), all: make(chan struct{}, 1)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(openers)
	for i := range c.listeners {
		l := &listener{token: []string{everything, shared}[i%2]}
		c.listeners[i] = l
		group.Go(func() error { return c.open(ctx, l, address, endpoint, legacy) })
	}
	if err := group.Wait(); err != nil {
		c.close()
		return nil, fmt.Errorf("open the streams: %w", err)
	}
	return c, nil
}

// open opens one client's stream and leaves a goroutine reading it.
func (c *crowd) open(ctx context.Context, l *listener, address, endpoint string, legacy bool) (err error) {
	if l.conn, err = client.Dial(ctx, address); err != nil {
		return err
	}
	// What is read from a connection of its own knows no context.
	interrupt := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	defer interrupt()
	one := client.Client{Endpoint: endpoint, Token: l.token, Legacy: legacy, Transport: l.conn}
	if legacy {
		if err := one.Initialize(ctx); err != nil {
			return err
		}
	}
	stream, err := one.Listen(ctx)
	if err != nil {
		return err
	}
	c.reading.Go(func() {
		_ = client.Changes(stream, func() { c.heard(l) }) // whatever ends it, it is noticed that it has
		l.ended.Store(true)
	})
	return nil
}

func (c *crowd) heard(l *listener) {
	l.last.Store(int64(time.Since(c.began)))
	if l.times.Add(1) == 1 && c.awaited.Add(-1) == 0 {
		c.all <- struct{}{}
	}
}

// round makes one change and returns how long it took to reach each client that sees it. The error says who was not
// told exactly once, or was told without need.
func (c *crowd) round(ctx context.Context, change func(), sees func(*listener) bool) (took []time.Duration, err error) {
	expected := 0
	for _, l := range c.listeners {
		l.times.Store(0)
		if sees(l) {
			expected++
		}
	}
	c.awaited.Store(int64(expected))
	begun := time.Since(c.began)
	change()
	select {
	case <-c.all:
	case <-time.After(patience): // told below
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select { // more than one, or one for somebody who sees no change, would come now
	case <-time.After(silence):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	missed, again, unasked, ended := 0, 0, 0, 0
	for _, l := range c.listeners {
		times := l.times.Load()
		switch {
		case l.ended.Load():
			ended++
		case !sees(l) && times > 0:
			unasked++
		case sees(l) && times == 0:
			missed++
		case times > 1:
			again++
		}
		if sees(l) && times > 0 {
			took = append(took, time.Duration(l.last.Load())-begun)
		}
	}
	if missed+again+unasked+ended > 0 {
		return took, fmt.Errorf("%d of %d clients who see it were not told within %s, %d more than once, %d others without need, %d streams ended",
			missed, expected, patience, again, unasked, ended)
	}
	return took, nil
}

// close closes all connections and waits until nobody reads any more.
func (c *crowd) close() {
	for _, l := range c.listeners {
		if l != nil && l.conn != nil {
			_ = l.conn.Close() // its reader ends
		}
	}
	c.reading.Wait()
}

// latencies are what the changes of one kind took.
type latencies struct{ all []time.Duration }

func (l *latencies) add(took []time.Duration) {
	l.all = append(l.all, took...)
	slices.Sort(l.all)
}

// quantile returns the latency that a part of all does not exceed.
func (l *latencies) quantile(q float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	return l.all[min(int(q*float64(len(l.all))), len(l.all)-1)]
}
