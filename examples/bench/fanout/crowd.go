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
	// patience bounds how long a change may take to reach all clients. During silence, which follows, no more notifications may
	// arrive: the gateway holds back a repeated one for 500 ms.
	patience = 20 * time.Second
	silence  = 800 * time.Millisecond
)

// crowd is many clients, each listening on its own connection.
type crowd struct {
	listeners []*listener
	began     time.Time
	reading   sync.WaitGroup

	// awaited is how many notifications the current round still waits for; the last one signals all.
	awaited atomic.Int64
	all     chan struct{}
}

// listener is one client.
type listener struct {
	token string
	conn  *client.Conn
	// times counts notifications in the current round; last is when the latest came, since the crowd began.
	times atomic.Int64
	last  atomic.Int64
	// ended is set once the stream has ended.
	ended atomic.Bool
}

// newCrowd opens the streams of n clients, which have the two tokens in turn.
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

// open opens one client's stream and starts a goroutine that reads it.
func (c *crowd) open(ctx context.Context, l *listener, address, endpoint string, legacy bool) (err error) {
	if l.conn, err = client.Dial(ctx, address); err != nil {
		return err
	}
	// client.Conn ignores the context of a request.
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
		_ = client.Changes(stream, func() { c.notified(l) }) // round reports any end
		l.ended.Store(true)
	})
	return nil
}

func (c *crowd) notified(l *listener) {
	l.last.Store(int64(time.Since(c.began)))
	if l.times.Add(1) == 1 && c.awaited.Add(-1) == 0 {
		c.all <- struct{}{}
	}
}

// round makes one change and returns how long it took to reach each client that sees it. The error counts clients that were not
// notified exactly once, or were notified of a change that they do not see.
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
	case <-time.After(patience): // reported below
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select { // a repeated or needless notification arrives now
	case <-time.After(silence):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	missed, repeated, needless, ended := 0, 0, 0, 0
	for _, l := range c.listeners {
		times := l.times.Load()
		switch {
		case l.ended.Load():
			ended++
		case !sees(l) && times > 0:
			needless++
		case sees(l) && times == 0:
			missed++
		case times > 1:
			repeated++
		}
		if sees(l) && times > 0 {
			took = append(took, time.Duration(l.last.Load())-begun)
		}
	}
	if missed+repeated+needless+ended > 0 {
		return took, fmt.Errorf("%d of %d clients that see it were not notified within %s, %d more than once, %d that do not see it were, %d streams ended",
			missed, expected, patience, repeated, needless, ended)
	}
	return took, nil
}

// close closes all connections and waits until their readers have ended.
func (c *crowd) close() {
	for _, l := range c.listeners {
		if l != nil && l.conn != nil {
			_ = l.conn.Close() // which ends its reader
		}
	}
	c.reading.Wait()
}

// latencies are those of all changes of one kind, sorted.
type latencies struct{ all []time.Duration }

func (l *latencies) add(took []time.Duration) {
	l.all = append(l.all, took...)
	slices.Sort(l.all)
}

// quantile returns the latency that the share q of all does not exceed.
func (l *latencies) quantile(q float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	return l.all[min(int(q*float64(len(l.all))), len(l.all)-1)]
}
