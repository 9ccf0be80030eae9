package upstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
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

// byHost connects to servers by host name.
type byHost map[string]http.Handler

func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	return upstreamtest.Memory{Handler: b[r.URL.Host]}.RoundTrip(r)
}

// withTwo runs a connector to two stoppable replicas in a synctest bubble. Their gets take a time
// each.
func withTwo(t *testing.T, takes [2]time.Duration, test func(*testing.T, *upstream.Connector, [2]*stoppable, [2]*upstreamtest.Peer)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		var (
			peers [2]*upstreamtest.Peer
			stops [2]*stoppable
		)
		for i := range peers {
			peers[i] = upstreamtest.NewPeer(t)
			peers[i].Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
				select {
				case <-time.After(takes[i]):
					r.Result(w, `{}`)
				case <-r.Context().Done():
				}
			})
			stops[i] = newStoppable(peers[i])
		}
		network := byHost{"a.example": stops[0], "b.example": stops[1]}
		c := start(t, upstreamtest.HTTP("two", "http://a.example/mcp", "http://b.example/mcp"), upstream.Options{Transport: network})
		synctest.Wait()
		test(t, c, stops, peers)
	})
}

// usual is what a call takes that is not delayed.
const usual = 10 * time.Millisecond

// wantFewDelayed checks that no call failed, and that at most one in twenty was delayed.
func wantFewDelayed(t *testing.T, outcomes []outcome) {
	t.Helper()
	delayed := 0
	for _, o := range outcomes {
		if o.err != nil {
			t.Fatalf("a call failed after %v: %v", o.took, o.err)
		}
		if o.took > 3*usual {
			delayed++
		}
	}
	t.Logf("%d of %d calls were delayed", delayed, len(outcomes))
	if delayed*20 > len(outcomes) {
		t.Errorf("%d of %d calls were delayed, want 5 %% at most", delayed, len(outcomes))
	}
}

func TestBalance_StoppedReplicaDelaysFewCalls(t *testing.T) {
	for perSecond, length := range map[int]time.Duration{10: 20 * time.Second, 100: 10 * time.Second, 300: 5 * time.Second} {
		t.Run(fmt.Sprint(perSecond, " calls a second"), func(t *testing.T) {
			withTwo(t, [2]time.Duration{usual, usual}, func(t *testing.T, c *upstream.Connector, stops [2]*stoppable, peers [2]*upstreamtest.Peer) {
				wantFewDelayed(t, offer(t, c, "ann", perSecond, length))
				half := len(peers[0].Seen(wire.PromptsGet))
				if all := half + len(peers[1].Seen(wire.PromptsGet)); half < all*2/5 || half > all*3/5 {
					t.Errorf("one of two equal replicas got %d of %d calls", half, all)
				}
				stops[0].stop()
				wantFewDelayed(t, offer(t, c, "ann", perSecond, 11*time.Second))
				wantFewDelayed(t, offer(t, c, "ann", perSecond, length))
				stops[0].cont()
				time.Sleep(10 * time.Second)
				before := len(peers[0].Seen(wire.PromptsGet))
				wantFewDelayed(t, offer(t, c, "ann", perSecond, length))
				offered := int(length.Seconds()) * perSecond
				if got := len(peers[0].Seen(wire.PromptsGet)) - before; got < offered*2/5 {
					t.Errorf("the one that was stopped got %d of %d calls when it was there again", got, offered)
				}
			})
		})
	}
}

func TestBalance_SlowerReplicaGetsFewerCalls(t *testing.T) {
	takes := [2]time.Duration{time.Second, 50 * time.Millisecond}
	withTwo(t, takes, func(t *testing.T, c *upstream.Connector, _ [2]*stoppable, peers [2]*upstreamtest.Peer) {
		offer(t, c, "ann", 100, 20*time.Second)
		slow, quick := len(peers[0].Seen(wire.PromptsGet)), len(peers[1].Seen(wire.PromptsGet))
		if slow*5 > quick || slow < 20 {
			t.Errorf("the slow one got %d calls, the quick one %d", slow, quick)
		}
	})
}

// A call that takes long says nothing about the others. So that both are needed, each always has
// calls in flight.
func TestBalance_LongCallDoesNotKeepOthersAway(t *testing.T) {
	const usual = 25 * time.Millisecond
	withTwo(t, [2]time.Duration{usual, usual}, func(t *testing.T, c *upstream.Connector, _ [2]*stoppable, peers [2]*upstreamtest.Peer) {
		offer(t, c, "ann", 100, 20*time.Second)
		var long atomic.Bool
		peers[0].Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			if long.CompareAndSwap(false, true) {
				time.Sleep(4 * time.Second)
			} else {
				time.Sleep(usual)
			}
			r.Result(w, `{}`)
		})
		before := len(peers[0].Seen(wire.PromptsGet))
		offer(t, c, "ann", 100, 4*time.Second)
		if got := len(peers[0].Seen(wire.PromptsGet)) - before; got < 80 {
			t.Errorf("the one with the long call got %d of 400 calls", got)
		}
	})
}
