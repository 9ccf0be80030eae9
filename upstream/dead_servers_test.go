package upstream_test

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

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
		const teams, perTeam = 10, 100
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
