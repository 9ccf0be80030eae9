package upstream_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// failing is a network that is down. It records the times of requests.
type failing struct {
	mu  sync.Mutex // guards what follows
	err string
	at  []time.Time
}

func (f *failing) RoundTrip(*http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = append(f.at, time.Now())
	return nil, fmt.Errorf("%s at %d", f.err, time.Now().Unix()) // which is the same cause at any time
}

func (f *failing) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.at)
}

func (f *failing) failWith(err string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func TestReconnect_BacksOffToTenSeconds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network, changes := &failing{err: "no network"}, 0
		var log upstreamtest.Log
		c := upstream.New(anywhere(), upstream.Options{Transport: network, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func() { changes++ })
		run(t, c)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		_, err := get(t.Context(), c, "p")
		if u, ok := errors.AsType[*upstream.Unavailable](err); !ok || u.RetryAfter <= 0 || u.RetryAfter > 10*time.Second {
			t.Errorf("get = %#v", err)
		}
		gaps, at := map[time.Duration]bool{}, network.times()
		for i := 1; i < len(at); i++ {
			gap, least, most := at[i].Sub(at[i-1]), 3*time.Second, 10*time.Second
			if i <= 5 { // 0.2 s, and then twice as long each time
				middle := 200 * time.Millisecond << (i - 1)
				least, most = middle/2, middle*3/2
			}
			if gap < least || gap > most {
				t.Errorf("attempt %d came after %s, want %s to %s", i+1, gap, least, most)
			}
			gaps[gap] = true
		}
		// An outage that goes on is no change, which everybody who shows states looks at.
		if n := len(at); n < 30 || len(gaps) < n/2 || changes != 1 {
			t.Errorf("%d attempts in five minutes, after %d different times, and %d changes", n, len(gaps), changes)
		}
		// Somebody who has mended the server waits for nothing.
		before, now := len(network.times()), time.Now()
		c.ConnectNow()
		synctest.Wait()
		if at := network.times(); len(at) != before+1 || !at[before].Equal(now) {
			t.Errorf("%d attempts at once, want 1", len(at)-before)
		}
		// The log names the cause, and again when it is another one.
		network.failWith("another failure")
		time.Sleep(time.Minute)
		if log.Count(`msg="upstream down"`) != 2 || log.Count(`cause="server/discover: another failure`) != 1 {
			t.Errorf("each cause should be logged once:\n%s", &log)
		}
	})
}

// refusing is a network whose servers refuse connections, except for one that may have returned.
type refusing struct {
	attempts atomic.Int64
	returned atomic.Bool
	peer     http.Handler
}

func (n *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if n.returned.Load() && r.URL.Port() == "1" {
		return upstreamtest.Memory{Handler: n.peer}.RoundTrip(r)
	}
	n.attempts.Add(1)
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.Join(syscall.ECONNREFUSED)}
}

// BenchmarkConnect_Refused shows the cost of an attempt: this is how many there are.
func TestConnector_DeadServersAreTriedNowAndThen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const teams, perTeam = 10, 30
		network := &refusing{peer: upstreamtest.NewPeer(t)}
		var returning *upstream.Connector
		for team := range teams {
			opts := upstream.Options{Transport: network, Connects: rate.NewLimiter(100, 100)}
			for i := range perTeam {
				u := anywhere()
				u.URL = "http://127.0.0.1:" + strconv.Itoa(1+team*perTeam+i)
				c := upstream.New(u, opts, func() {})
				run(t, c)
				if returning == nil {
					returning = c
				}
			}
		}
		time.Sleep(time.Minute) // until their backoff has its bound
		before := network.attempts.Load()
		time.Sleep(30 * time.Second)
		if perSecond := (network.attempts.Load() - before) / 30; perSecond > teams*perTeam/6 {
			t.Errorf("%d attempts a second", perSecond)
		}
		network.returned.Store(true)
		healthyWithin(t, returning, 15*time.Second, "p")
	})
}

// A team's limit delays its own servers only.
func TestConnector_ATeamsDeadServersDelayOnlyItsOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := &refusing{peer: upstreamtest.NewPeer(t)}
		busy := upstream.Options{Transport: network, Connects: rate.NewLimiter(1, 1)}
		for range 100 {
			run(t, upstream.New(anywhere(), busy, func() {}))
		}
		time.Sleep(time.Minute)
		if n := network.attempts.Load(); n > 62 {
			t.Errorf("%d attempts in a minute, want one a second", n)
		}
		c := start(t, anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: network.peer}, Connects: rate.NewLimiter(1, 1)})
		healthyWithin(t, c, time.Second, "p")
	})
}

// The cost of an attempt to connect to a server that refuses connections, over the loopback interface.
func BenchmarkConnect_Refused(b *testing.B) {
	d := client.NewDialer(upstreamtest.HTTP("away", "http://"+upstreamtest.Address(b)), client.Options{})
	for b.Loop() {
		if _, err := d.Connect(b.Context(), client.SessionOptions{}); err == nil {
			b.Fatal("it is there")
		}
	}
}
