package upstream_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

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
