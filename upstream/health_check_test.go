package upstream_test

import (
	"fmt"
	"net/http"
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

// stoppable is a server that can be stopped as by SIGSTOP: its requests and streams neither go on
// nor break.
type stoppable struct{ isStopped atomic.Bool }

func (s *stoppable) stop() { s.isStopped.Store(true) }
func (s *stoppable) cont() { s.isStopped.Store(false) }

// wait returns once the server is not stopped, or the client has left.
func (s *stoppable) wait(_ http.ResponseWriter, r *upstreamtest.Request) bool {
	for s.isStopped.Load() && r.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return r.Context().Err() != nil
}

// withoutStream is a legacy peer that has no stream of changes, but declares that it reports them.
func withoutStream(t testing.TB) *upstreamtest.Peer {
	p := upstreamtest.NewPeer(t)
	p.Handle(http.MethodGet, nil)
	return p
}

// kind is a kind of server over HTTP.
type kind struct {
	peer      func(testing.TB) *upstreamtest.Peer
	transport config.Transport
}

var kinds = map[string]kind{ //nolint:gochecknoglobals // a constant table
	"legacy":         {upstreamtest.NewPeer, config.StreamableHTTP},
	"without stream": {withoutStream, config.StreamableHTTP},
	"modern":         {upstreamtest.NewModernPeer, config.StreamableHTTP},
	"HTTP+SSE":       {upstreamtest.NewPeer, config.SSE},
}

// withStoppable runs a connector to a stoppable server of each kind in a synctest bubble.
func withStoppable(t *testing.T, test func(*testing.T, *stoppable, *upstreamtest.Peer, *upstream.Connector)) {
	t.Helper()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p, u := kind.peer(t), anywhere()
				if kind.transport == config.SSE {
					u = anywhereSSE()
				}
				s := &stoppable{}
				p.Intercept(s.wait)
				c := start(t, u, upstream.Options{Transport: upstreamtest.Memory{Handler: handlerFor(u, p)}})
				synctest.Wait()
				test(t, s, p, c)
			})
		})
	}
}

// staysWell checks that a connector has no problem for a time, and keeps its one session.
func staysWell(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector, length time.Duration) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < length; time.Sleep(500 * time.Millisecond) {
		if problem := c.State().Problem; problem != nil {
			t.Fatalf("problem %+v", problem)
		}
	}
	wantSeen(t, p, wire.Initialize, 1)
}

// problemWithin waits until a connector has a problem, and returns how long that took.
func problemWithin(t *testing.T, c *upstream.Connector, bound time.Duration) {
	t.Helper()
	begun := time.Now()
	for c.State().Problem == nil {
		if time.Since(begun) > bound {
			t.Fatalf("no problem after %s", bound)
		}
		time.Sleep(10 * time.Millisecond)
	}
	upstreamtest.Equal(t, upstream.Timeout, c.State().Problem.Reason, "reason of the problem")
}

// healthyWithin waits until a connector has these prompts and no problem.
func healthyWithin(t *testing.T, c *upstream.Connector, bound time.Duration, want string) {
	t.Helper()
	begun := time.Now()
	for c.State().Problem != nil || names(c) != want {
		if time.Since(begun) > bound {
			t.Fatalf("after %s: problem %+v, names %s, want none and %s", bound, c.State().Problem, names(c), want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestHealthCheck_IdleServerThatHangsIsNoticed(t *testing.T) {
	withStoppable(t, func(t *testing.T, s *stoppable, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Hour)
		if state, sessions := c.State(), len(p.Seen(wire.Initialize)); state.Problem != nil || sessions > 1 {
			t.Fatalf("after an idle hour: %d sessions, problem %+v", sessions, state.Problem)
		}
		for round := range 20 { // at different times after the last health check
			time.Sleep(time.Duration(round) * 1700 * time.Millisecond)
			s.stop()
			name := fmt.Sprint("changed-", round)
			p.Prompts(name)
			// 30 seconds of silence and the timeout of the ping, and that of a list if one begins in between.
			problemWithin(t, c, 51*time.Second)
			time.Sleep(time.Duration(round) * time.Second)
			s.cont()
			healthyWithin(t, c, 10*time.Second, name)
		}
	})
}

func TestHealthCheck_HangIsNoticedWhenACallTimesOut(t *testing.T) {
	withStoppable(t, func(t *testing.T, s *stoppable, p *upstreamtest.Peer, c *upstream.Connector) {
		mustGet(t, c, "p")
		p.Prompts("changed")
		s.stop()
		wantFailure(t, c, "p", upstream.Timeout)
		problemWithin(t, c, 11*time.Second) // the timeout of the ping that follows at once
		time.Sleep(5 * time.Second)
		s.cont()
		healthyWithin(t, c, 10*time.Second, "changed")
	})
}

func TestHealthCheck_HangIsNoticedWhenAListTimesOut(t *testing.T) {
	u := anywhere()
	u.Timeout = 5 * time.Second
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsList, hang)
		p.Handle(wire.Ping, hang)
		p.Changed()
		problemWithin(t, c, 11*time.Second) // the timeouts of the list and of the ping
	})
}

// A server that takes the dead stream for open refuses another one.
func TestWatch_NewSessionIfTheServerTakesTheStreamForOpen(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(http.MethodGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			if r.Header.Get(wire.HeaderSessionID) == "s1" {
				http.Error(w, "Conflict", http.StatusConflict)
				return
			}
			p.Stream(w, r)
		})
		time.Sleep(time.Minute)
		p.Break()
		p.Prompts("changed")
		healthyWithin(t, c, 10*time.Second, "changed")
		wantSeen(t, p, wire.Initialize, 2)
	})
}

// Some servers do not know a ping, and say so in ways that others mean something else by.
func TestHealthCheck_ServerThatDoesNotKnowPingKeepsItsSession(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *upstreamtest.Request){
		"400":    func(w http.ResponseWriter, _ *upstreamtest.Request) { http.Error(w, "unknown", http.StatusBadRequest) },
		"-32601": nil,
		"502":    status(http.StatusBadGateway),
		"429":    status(http.StatusTooManyRequests),
	} {
		t.Run(name, func(t *testing.T) {
			peer := func(t testing.TB) *upstreamtest.Peer {
				p := upstreamtest.NewPeer(t)
				p.Handle(wire.Ping, answer)
				return p
			}
			inBubble(t, peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				staysWell(t, p, c, 10*time.Minute)
				if n := len(p.Seen(wire.Ping)); n < 18 || n > 24 { // lists end the silence, too
					t.Errorf("%d pings in ten minutes, want one in 27 to 30 seconds", n)
				}
			})
		})
	}
}

// A server that answers calls all the time, or has one in flight that takes long, need not be asked. One that is busy is not
// taken for one that hangs.
func TestHealthCheck_BusyServerIsNotAsked(t *testing.T) {
	u := anywhere()
	u.Timeout = 5 * time.Minute
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		for range 60 {
			time.Sleep(time.Second)
			mustGet(t, c, "p")
		}
		answerAfter := func(after time.Duration) func(http.ResponseWriter, *upstreamtest.Request) {
			return func(w http.ResponseWriter, r *upstreamtest.Request) {
				select {
				case <-time.After(after):
					r.Result(w, `{}`)
				case <-r.Context().Done():
				}
			}
		}
		p.Handle(wire.PromptsGet, answerAfter(2*time.Minute))
		mustGet(t, c, "p")
		wantSeen(t, p, wire.Ping, 0)
		p.Handle(wire.Ping, answerAfter(9*time.Second))
		staysWell(t, p, c, 5*time.Minute)
	})
}

// The stream may break without a word, or the server lose a notification.
func TestRefresh_ListsServersThatNotifyAsABackstop(t *testing.T) {
	inEachBubble(t, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Prompts("changed") // without a notification
		healthyWithin(t, c, 6*time.Minute+time.Second, "changed")
	})
}
