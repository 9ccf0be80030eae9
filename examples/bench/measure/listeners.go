package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// openers is how many streams are opened at a time.
	openers = 64
	// changeTimeout bounds how long a change may take to reach all clients. During silence, which follows, no more notifications may
	// arrive: the gateway holds back a repeated one for 500 ms.
	changeTimeout = 20 * time.Second
	silence       = 800 * time.Millisecond
)

// The tokens of the clients: one sees every prompt, the other those that are shared.
const (
	member = "sees-everything"
	guest  = "sees-shared-prompts"
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
	conn  *rig.Conn
	// times counts notifications in the current round; last is when the latest came, since the crowd began.
	times, last atomic.Int64
	// ended is set once the stream has ended.
	ended atomic.Bool
}

func newCrowd(ctx context.Context, p *rig.Process, n int, legacy bool, tokens ...string) (*crowd, error) {
	c := &crowd{listeners: make([]*listener, n), began: time.Now(), all: make(chan struct{}, 1)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(openers)
	for i := range c.listeners {
		l := &listener{token: tokens[i%len(tokens)]}
		c.listeners[i] = l
		group.Go(func() error { return c.open(ctx, l, p, legacy) })
	}
	if err := group.Wait(); err != nil {
		c.close()
		return nil, fmt.Errorf("open the streams: %w", err)
	}
	return c, nil
}

func (c *crowd) open(ctx context.Context, l *listener, p *rig.Process, legacy bool) (err error) {
	if l.conn, err = rig.Dial(ctx, p.Address()); err != nil {
		return err
	}
	// A rig.Conn ignores the context of a request.
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	defer stop()
	one := rig.Client{Endpoint: p.Endpoint, Token: l.token, Legacy: legacy, Transport: l.conn}
	if err := one.Initialize(ctx); err != nil {
		return err
	}
	stream, err := one.Listen(ctx, "")
	if err != nil {
		return err
	}
	c.reading.Go(func() {
		_ = rig.Events(stream.Body).Changes(func() { // round reports any end
			l.last.Store(int64(time.Since(c.began)))
			if l.times.Add(1) == 1 && c.awaited.Add(-1) == 0 {
				c.all <- struct{}{}
			}
		})
		l.ended.Store(true)
	})
	return nil
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
	case <-time.After(changeTimeout): // reported below
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := rig.Pause(ctx, silence); err != nil { // a repeated or needless notification arrives now
		return nil, err
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
			missed, expected, changeTimeout, repeated, needless, ended)
	}
	return took, nil
}

func (c *crowd) close() {
	for _, l := range c.listeners {
		if l != nil && l.conn != nil {
			_ = l.conn.Close() // which ends its reader
		}
	}
	c.reading.Wait()
}

// perListener is the resident memory that each of n open streams adds to a process, in KiB.
func perListener(ctx context.Context, p *rig.Process, n int, legacy bool, tokens ...string) (float64, *crowd, error) {
	before, err := p.RSS()
	if err != nil {
		return 0, nil, err
	}
	c, err := newCrowd(ctx, p, n, legacy, tokens...)
	if err != nil {
		return 0, nil, err
	}
	after, err := p.RSS()
	return float64(after-before) / float64(n) / (1 << 10), c, err
}

// fanoutRules are the configuration by which half of the clients see one of two prompts.
const fanoutRules = `
  expose "shared prompts" {
    prompts = ["up.shared"]
    to      = ["*"]
  }
`

// measureFanout changes prompts while very many clients listen. The server and the clients are in this process, and share its clock: a
// latency is the time from the server's notification to the client's read of list_changed. In between, the gateway lists the server.
// Latencies and memory are printed and not judged; an error means that a notification is missing, repeated, or was sent to a client that
// cannot see the change.
func measureFanout(ctx context.Context, s settings) error {
	fmt.Println("| revision | clients | KiB each | on a bare server | a change for all: p50 | p99 | last | for half: p50 | p99 | last |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	var broken error
	for _, legacy := range []bool{false, true} {
		broken = errors.Join(broken, s.fanout(ctx, legacy))
	}
	return broken
}

func (s settings) fanout(ctx context.Context, legacy bool) error {
	st := &stage{settings: s}
	defer st.close()
	prompts := map[string]string{}
	server := rig.NewServer(false, 300)
	change := func(prompt string, version int) {
		prompts[prompt] = rig.Prompt(prompt, fmt.Sprint("version ", version))
		server.Offer(prompts["shared"], prompts["secret"])
	}
	prompts["shared"] = rig.Prompt("shared", "")
	change("secret", -1)
	url, stop, err := rig.Serve(ctx, server)
	if err != nil {
		return err
	}
	st.stops = append(st.stops, stop)
	gateway, err := st.gateway(ctx, spec{upstream: fmt.Sprintf("url = %q", url), pageSize: 100, token: member, guests: []string{guest}, rules: fanoutRules})
	if err != nil {
		return err
	}
	each, c, err := perListener(ctx, gateway.Process, s.listeners, legacy, member, guest)
	if err != nil {
		return err
	}
	defer c.close()
	var broken error
	var all, half []time.Duration
	for round := range s.rounds {
		took, err := c.round(ctx, func() { change("shared", round) }, func(*listener) bool { return true })
		all, broken = append(all, took...), errors.Join(broken, err)
		took, err = c.round(ctx, func() { change("secret", round) }, func(l *listener) bool { return l.token == member })
		half, broken = append(half, took...), errors.Join(broken, err)
	}
	args, revision := []string{"upstream"}, "2026-07-28"
	if legacy {
		args, revision = append(args, "-legacy"), "2025-11-25"
	}
	bare, err := st.reference(ctx, args...)
	if err != nil {
		return err
	}
	eachBare, baseline, err := perListener(ctx, bare, s.listeners, legacy, "")
	if err != nil {
		return err
	}
	defer baseline.close()
	fmt.Printf("| %s | %d | %.1f | %.1f | %s | %s |\n", revision, s.listeners, each, eachBare, latencies(all), latencies(half))
	return broken
}

func latencies(all []time.Duration) string {
	return fmt.Sprintf("%s | %s | %s", rig.Milliseconds(rig.Quantile(all, 50)), rig.Milliseconds(rig.Quantile(all, 99)), rig.Milliseconds(rig.Quantile(all, 100)))
}
