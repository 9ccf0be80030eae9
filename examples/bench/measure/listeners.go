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
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// openers is how many streams are opened at a time.
	openers = 64
	// changeTimeout bounds how long a change may take to reach all clients. During silence, which follows,
	// no more notifications may arrive: the gateway holds back a repeated one for 500 ms.
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
	reading   sync.WaitGroup
}

// listener is one client.
type listener struct {
	token string
	conn  *rig.Conn
	// times counts notifications in the current round; last is when the latest came, in Unix time.
	times, last atomic.Int64
}

// newCrowd has n clients with tokens in turn listen.
func newCrowd(st *rig.Stage, p *rig.Process, n int, legacy bool, tokens ...string) *crowd {
	c := &crowd{listeners: make([]*listener, n)}
	var group errgroup.Group
	group.SetLimit(openers)
	for i := range c.listeners {
		l := &listener{token: tokens[i%len(tokens)]}
		c.listeners[i] = l
		group.Go(func() error { return c.open(st.Context(), l, p, legacy) })
	}
	st.Defer(func() {
		for _, l := range c.listeners {
			if l.conn != nil {
				_ = l.conn.Close() // which ends its reader
			}
		}
		c.reading.Wait()
	})
	rig.Check(group.Wait())
	return c
}

func (c *crowd) open(ctx context.Context, l *listener, p *rig.Process, legacy bool) (err error) {
	if l.conn, err = rig.Dial(ctx, p.Address(), 512); err != nil {
		return err
	}
	one := rig.Client{Endpoint: p.Endpoint, Token: l.token, Legacy: legacy, Transport: l.conn}
	if err := one.Initialize(ctx); err != nil {
		return err
	}
	stream, err := one.Listen(ctx, "")
	if err != nil {
		return err
	}
	c.reading.Go(func() {
		for m, err := stream.Next(); err == nil; m, err = stream.Next() { // round misses what comes later
			if m.Method == wire.PromptsListChanged {
				l.last.Store(time.Now().UnixNano())
				l.times.Add(1)
			}
		}
	})
	return nil
}

// round makes one change and returns how long it took to reach each client that sees it. An error means
// that one of them was not notified exactly once, or one of the others was notified.
func (c *crowd) round(st *rig.Stage, change func(), sees func(*listener) bool) (took []time.Duration, err error) {
	for _, l := range c.listeners {
		l.times.Store(0)
	}
	begun := time.Now()
	change()
	err = rig.Eventually(changeTimeout, func() error {
		missed := 0
		for _, l := range c.listeners {
			if sees(l) && l.times.Load() == 0 {
				missed++
			}
		}
		if missed > 0 {
			return fmt.Errorf("%d of %d clients were not notified", missed, len(c.listeners))
		}
		return nil
	})
	st.Pause(silence) // a repeated or needless notification arrives now
	needless := 0
	for _, l := range c.listeners {
		if times := l.times.Load(); sees(l) && times > 0 {
			took = append(took, time.Unix(0, l.last.Load()).Sub(begun))
			needless += int(times) - 1
		} else {
			needless += int(times)
		}
	}
	if needless > 0 {
		err = errors.Join(err, fmt.Errorf("%d notifications without a need", needless))
	}
	return took, err
}

// perListener is the resident memory that each of n open streams adds to a process, in KiB.
func perListener(st *rig.Stage, p *rig.Process, n int, legacy bool, tokens ...string) (float64, *crowd) {
	before := p.RSS()
	c := newCrowd(st, p, n, legacy, tokens...)
	return float64(p.RSS()-before) / float64(n) / (1 << 10), c
}

// fanoutRules are the configuration by which half of the clients see one of two prompts.
const fanoutRules = `
  expose "shared prompts" {
    prompts = ["up.shared"]
    to      = ["*"]
  }
`

// measureFanout changes prompts while very many clients listen. The server and the clients are in this
// process, and share its clock: a latency is the time from the server's notification to the client's read
// of list_changed. In between, the gateway lists the server. Latencies and memory are printed and not
// judged; an error means that a notification is missing, repeated, or was sent to a client that cannot
// see the change.
func measureFanout(ctx context.Context, s settings) (broken error) {
	fmt.Println("| revision | clients | KiB each | on a bare server | a change for all: p50 | p99 | last | " +
		"for half: p50 | p99 | last |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, legacy := range []bool{false, true} {
		broken = errors.Join(broken, rig.Run(ctx, func(st *rig.Stage) { rig.Check(s.fanout(st, legacy)) }))
	}
	return broken
}

func (s settings) fanout(st *rig.Stage, legacy bool) (broken error) {
	prompts := map[string]string{}
	server := rig.NewServer(false, 300)
	change := func(prompt string, version int) {
		prompts[prompt] = rig.Prompt(prompt, fmt.Sprint("version ", version))
		server.Offer(prompts["shared"], prompts["secret"])
	}
	prompts["shared"] = rig.Prompt("shared", "")
	change("secret", -1)
	gateway := s.gateway(st, spec{
		upstream: fmt.Sprintf("url = %q", st.Serve(server)), pageSize: 100, token: member,
		guests: []string{guest}, rules: fanoutRules,
	})
	each, c := perListener(st, gateway.Process, s.listeners, legacy, member, guest)
	var all, half []time.Duration
	for round := range s.rounds {
		took, err := c.round(st, func() { change("shared", round) }, func(*listener) bool { return true })
		all, broken = append(all, took...), errors.Join(broken, err)
		took, err = c.round(st, func() { change("secret", round) }, func(l *listener) bool { return l.token == member })
		half, broken = append(half, took...), errors.Join(broken, err)
	}
	args, revision := []string{}, wire.Rev20260728
	if legacy {
		args, revision = []string{"-legacy"}, wire.Rev20251125
	}
	bare, _ := upstream(st, args...)
	eachBare, _ := perListener(st, bare, s.listeners, legacy, "")
	fmt.Printf("| %s | %d | %.1f | %.1f | %s | %s |\n", revision, s.listeners, each, eachBare, latencies(all), latencies(half))
	return broken
}

func latencies(all []time.Duration) string {
	return fmt.Sprintf("%s | %s | %s", rig.Milliseconds(rig.Quantile(all, 50)), rig.Milliseconds(rig.Quantile(all, 99)), rig.Milliseconds(rig.Quantile(all, 100)))
}
