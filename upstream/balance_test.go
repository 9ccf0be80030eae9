package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
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

// withTwo runs a connector to two stoppable replicas in a synctest bubble. Their gets take a time each.
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
		c := upstream.New(upstreamtest.HTTP("two", "http://a.example/mcp", "http://b.example/mcp"), upstream.Options{Transport: network}, func() {})
		run(t, c)
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
	for _, perSecond := range []int{10, 100, 300} {
		t.Run(fmt.Sprint(perSecond, " calls a second"), func(t *testing.T) {
			withTwo(t, [2]time.Duration{usual, usual}, func(t *testing.T, c *upstream.Connector, stops [2]*stoppable, peers [2]*upstreamtest.Peer) {
				wantFewDelayed(t, offer(t, c, "ann", perSecond, 20*time.Second))
				half := len(peers[0].Seen(wire.PromptsGet))
				if all := half + len(peers[1].Seen(wire.PromptsGet)); half < all*2/5 || half > all*3/5 {
					t.Errorf("one of two equal replicas got %d of %d calls", half, all)
				}
				stops[0].stop()
				wantFewDelayed(t, offer(t, c, "ann", perSecond, 11*time.Second))
				wantFewDelayed(t, offer(t, c, "ann", perSecond, 20*time.Second))
				stops[0].cont()
				time.Sleep(10 * time.Second)
				before := len(peers[0].Seen(wire.PromptsGet))
				wantFewDelayed(t, offer(t, c, "ann", perSecond, 20*time.Second))
				if got := len(peers[0].Seen(wire.PromptsGet)) - before; got < 20*perSecond*2/5 {
					t.Errorf("the one that was stopped got %d of %d calls when it was there again", got, 20*perSecond)
				}
			})
		})
	}
}

func TestBalance_SlowerReplicaGetsFewerCalls(t *testing.T) {
	takes := [2]time.Duration{time.Second, 50 * time.Millisecond}
	withTwo(t, takes, func(t *testing.T, c *upstream.Connector, _ [2]*stoppable, peers [2]*upstreamtest.Peer) {
		offer(t, c, "ann", 100, time.Minute)
		slow, quick := len(peers[0].Seen(wire.PromptsGet)), len(peers[1].Seen(wire.PromptsGet))
		if slow*5 > quick || slow < 60 {
			t.Errorf("the slow one got %d calls, the quick one %d", slow, quick)
		}
	})
}

// A call that takes long says nothing about the others. So that both are needed, each always has calls in flight.
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

// startServer starts a process that serves over HTTP, and returns its URL and process ID.
func startServer(t *testing.T) (url string, pid int) {
	t.Helper()
	u := upstreamtest.Child(t, "server", "http")
	command := exec.CommandContext(t.Context(), u.Command[0], u.Command[1:]...)
	for name, value := range u.Env {
		command.Env = append(command.Env, name+"="+value.Reveal())
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), command.Process.Pid
}

// countedGets is a network that counts the gets sent to each host.
type countedGets struct {
	network http.RoundTripper

	mu   sync.Mutex
	gets map[string]int
}

func (n *countedGets) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		if message, err := wire.Parse(body); err == nil && message.Method == wire.PromptsGet {
			n.mu.Lock()
			n.gets[r.URL.Host]++
			n.mu.Unlock()
		}
	}
	return n.network.RoundTrip(r)
}

// sent returns how many gets were sent to a server.
func (n *countedGets) sent(server string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gets[strings.TrimPrefix(server, "http://")]
}

// One of two processes is stopped under load, as a machine that swaps or a container that is frozen is. How long calls take depends on
// the machine. How many get stuck does not: no more of those in flight than are in flight at the other one.
func TestBalance_StoppedProcessGetsFewCalls(t *testing.T) {
	t.Parallel()
	const (
		callers = 20
		each    = 20 // calls, one after another
	)
	first, pid := startServer(t)
	second, _ := startServer(t)
	u := upstreamtest.HTTP("processes", first, second)
	u.Timeout = 10 * time.Second                                      // calls that are stuck take half of it, before they are made at the other one
	u.Breaker = config.Breaker{Failures: 1000, Cooldown: time.Second} // it is not the breaker that is tested
	network := &countedGets{network: http.DefaultTransport, gets: map[string]int{}}
	c := start(t, u, upstream.Options{Transport: network})
	upstreamtest.Eventually(t, "both", func() bool {
		state := c.State()
		return state.Endpoints[0].Listed && state.Endpoints[1].Listed
	})
	get := func() {
		_, err := c.Call(context.WithoutCancel(t.Context()), &upstream.Request{
			Method: wire.PromptsGet, Name: "p", Params: wire.Object{}.With("name", wire.Quote("p")), Caller: caller("ann"),
		}, nil)
		if err != nil {
			t.Errorf("a call failed: %v", err)
		}
	}
	getAll := func() {
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range each {
					get()
				}
			})
		}
		all.Wait()
	}
	getAll()
	if sent, all := network.sent(first), network.sent(first)+network.sent(second); sent < all/4 || sent > all*3/4 {
		t.Errorf("one of two processes got %d of %d calls", sent, all)
	}
	if err := stopProcess(pid); err != nil {
		t.Fatal(err)
	}
	before := network.sent(first)
	getAll()
	stuck := network.sent(first) - before
	t.Logf("%d of %d calls were sent to the process that is stopped", stuck, callers*each)
	if stuck > callers {
		t.Errorf("%d calls were sent to it, want %d at most", stuck, callers)
	}
	upstreamtest.Eventually(t, "it is found to be stopped", func() bool { return c.State().Endpoints[0].Problem != nil })
	if err := continueProcess(pid); err != nil {
		t.Fatal(err)
	}
	upstreamtest.Eventually(t, "both again", func() bool {
		get() // gets that have failed are a problem until one succeeds
		state := c.State()
		return state.Endpoints[0].Problem == nil && state.Endpoints[1].Problem == nil
	})
	before = network.sent(first)
	getAll()
	if sent := network.sent(first) - before; sent < callers*each/4 {
		t.Errorf("the one that was stopped got %d of %d calls when it was there again", sent, callers*each)
	}
}
