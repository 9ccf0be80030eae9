package upstream_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// serial makes a peer work on one get at a time, each for a time, and on every get that it has
// received: it does not notice that a client has gone.
func serial(p *upstreamtest.Peer, each time.Duration) {
	working := make(chan struct{}, 1) // not a mutex, for which the clock of a bubble does not go on
	p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		working <- struct{}{}
		time.Sleep(each)
		<-working
		r.Result(w, `{}`)
	})
}

// caller is who asks.
type caller string

func (c caller) Key() string { return string(c) }

// outcome is how a call ended.
type outcome struct {
	begun time.Time
	took  time.Duration
	err   error
}

// offer makes calls at a steady rate for a time and returns their outcomes.
func offer(t *testing.T, c *upstream.Connector, who caller, perSecond int, length time.Duration) []outcome {
	t.Helper()
	var (
		mu       sync.Mutex
		outcomes []outcome
		calls    sync.WaitGroup
	)
	ticks := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticks.Stop()
	for range int(length.Seconds() * float64(perSecond)) {
		<-ticks.C
		calls.Go(func() {
			begun := time.Now()
			err := getAs(t, c, who)
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, outcome{begun, time.Since(begun), err})
		})
	}
	calls.Wait()
	return outcomes
}

// A server with a capacity of 10 gets a second goes on answering under ten times that, with the breaker and the health checks at
// work. It does not notice that callers have left.
func TestCall_OverloadedServerAnswersAtItsCapacity(t *testing.T) {
	for name, callers := range map[string]int{"one caller": 1, "ten callers": 10} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.Concurrency, u.Timeout = 256, 10*time.Second
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				serial(p, time.Second/10)
				const from, to = 30 * time.Second, 90 * time.Second
				began := time.Now()
				var (
					calls    sync.WaitGroup
					answered atomic.Int64
				)
				for i := range callers {
					calls.Go(func() {
						for _, o := range offer(t, c, caller(strconv.Itoa(i)), 100/callers, to) {
							if at := o.begun.Add(o.took).Sub(began); o.err == nil && from <= at && at < to {
								answered.Add(1)
							}
						}
					})
				}
				calls.Wait()
				if perSecond := float64(answered.Load()) / (to - from).Seconds(); perSecond < 8 {
					t.Errorf("%.1f gets a second are answered, want 8", perSecond)
				}
				time.Sleep(time.Minute) // until the server has worked off what is left
			})
		})
	}
}

func TestCall_SlowServerKeepsItsConcurrency(t *testing.T) {
	for name, quick := range map[string]int{"slow with all": 0, "slow with one in three": 2} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.Concurrency, u.Timeout = 256, 10*time.Second
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				var gets atomic.Int64
				p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
					if int(gets.Add(1))%(quick+1) == 0 {
						time.Sleep(6 * time.Second)
					}
					r.Result(w, `{}`)
				})
				began := time.Now()
				for _, o := range offer(t, c, "ann", 30*(quick+1), time.Minute) { // 180 calls are in flight
					if begun := o.begun.Sub(began); begun > 30*time.Second && (o.err != nil || o.took > 7*time.Second) {
						t.Fatalf("a call %v after the start took %v: %v", begun, o.took, o.err)
					}
				}
			})
		})
	}
}

func TestCall_FloodDelaysItsCallerOnly(t *testing.T) {
	u := anywhere()
	u.Concurrency, u.Timeout = 4, 10*time.Second
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		serial(p, time.Second/10)
		var flood sync.WaitGroup
		flood.Go(func() { offer(t, c, "ann", 100, 40*time.Second) })
		time.Sleep(5 * time.Second)
		outcomes := offer(t, c, "bob", 2, 30*time.Second)
		flood.Wait()
		for _, o := range outcomes {
			// Four of ann's calls may be at the server, and one of them goes first.
			if o.err != nil || o.took > time.Second {
				t.Errorf("a call of the other caller took %v: %v", o.took, o.err)
			}
		}
	})
}

func TestCall_FullQueueRefusesTheLongestLine(t *testing.T) {
	u := anywhere()
	u.Concurrency, u.Timeout = 1, time.Hour
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		release := make(chan struct{})
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			<-release
			r.Result(w, `{}`)
		})
		flood := make(chan []outcome)
		go func() { flood <- offer(t, c, "ann", 1000, 2*time.Second) }()
		time.Sleep(3 * time.Second)
		other := make(chan []outcome)
		go func() { other <- offer(t, c, "bob", 10, time.Second) }()
		time.Sleep(2 * time.Second)
		close(release)
		if refused := slices.IndexFunc(<-other, func(o outcome) bool { return o.err != nil }); refused >= 0 {
			t.Error("a caller with few calls was refused for another's flood")
		}
		answered := 0
		for _, o := range <-flood {
			if o.err == nil {
				answered++
			} else if _, ok := errors.AsType[*upstream.Unavailable](o.err); !ok {
				t.Error(o.err)
			}
		}
		if want := 1 + 1024 - 10; answered != want {
			t.Errorf("%d of the flood answered, want %d", answered, want)
		}
	})
}
