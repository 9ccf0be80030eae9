package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// stoppable is a server that can be stopped as by SIGSTOP: its requests and streams neither go on
// nor break.
type stoppable struct {
	handler http.Handler

	mu      sync.Mutex
	goes    *sync.Cond
	stopped bool
}

func newStoppable(handler http.Handler) *stoppable {
	s := &stoppable{handler: handler}
	s.goes = sync.NewCond(&s.mu)
	return s
}

func (s *stoppable) stop() { s.set(true) }
func (s *stoppable) cont() { s.set(false) }

func (s *stoppable) set(stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = stopped
	s.goes.Broadcast()
}

// wait returns once the server is not stopped, or the client has left.
func (s *stoppable) wait(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.goes.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.stopped && ctx.Err() == nil {
		s.goes.Wait()
	}
}

func (s *stoppable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.wait(r.Context())
	if r.Context().Err() == nil {
		s.handler.ServeHTTP(&stoppableWriter{w, s, r.Context()}, r)
	}
}

type stoppableWriter struct {
	http.ResponseWriter

	server *stoppable
	ctx    context.Context //nolint:containedctx // the request's
}

func (w *stoppableWriter) Write(p []byte) (int, error) {
	w.server.wait(w.ctx)
	return w.ResponseWriter.Write(p)
}

func (w *stoppableWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

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
func withStoppable(t *testing.T, change func(*config.Upstream), test func(*testing.T, *stoppable, *upstreamtest.Peer, *upstream.Connector)) {
	t.Helper()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p, u := kind.peer(t), anywhere()
				if kind.transport == config.SSE {
					u = anywhereSSE()
				}
				if change != nil {
					change(&u)
				}
				s := newStoppable(handlerFor(u, p))
				c := start(t, u, upstream.Options{Transport: upstreamtest.Memory{Handler: s}})
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
	if reason := c.State().Problem.Reason; reason != upstream.Timeout {
		t.Errorf("the problem is %s, want %s", reason, upstream.Timeout)
	}
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
	withStoppable(t, nil, func(t *testing.T, s *stoppable, p *upstreamtest.Peer, c *upstream.Connector) {
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
	withStoppable(t, nil, func(t *testing.T, s *stoppable, p *upstreamtest.Peer, c *upstream.Connector) {
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
	withStoppable(t, func(u *config.Upstream) { u.Timeout = 5 * time.Second }, func(t *testing.T, s *stoppable, p *upstreamtest.Peer, c *upstream.Connector) {
		if p.Streams() == 0 {
			return // it cannot say that the list has changed
		}
		time.Sleep(10 * time.Second)
		p.Prompts("changed")
		p.Handle(wire.PromptsList, func(_ http.ResponseWriter, r *upstreamtest.Request) {
			s.stop()
			<-r.Context().Done()
		})
		p.Changed()
		problemWithin(t, c, 11*time.Second) // the timeouts of the list and of the ping
		p.Prompts("changed")
		s.cont()
		healthyWithin(t, c, 10*time.Second, "changed")
	})
}

// A server that takes the dead stream for open refuses another one.
func TestWatch_NewSessionIfTheServerTakesTheStreamForOpen(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		taken := 0
		p.Handle(http.MethodGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			if taken++; taken <= 2 { // it only needs a moment
				http.Error(w, "Conflict", http.StatusConflict)
				return
			}
			p.Stream(w, r)
		})
		time.Sleep(time.Minute)
		p.Break()
		time.Sleep(3 * time.Second)
		if n := len(p.Seen(wire.Initialize)); n != 1 || p.Streams() != 1 {
			t.Errorf("%d sessions and %d streams, want 1 of each", n, p.Streams())
		}
		p.Handle(http.MethodGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			if r.Header.Get(wire.HeaderSessionID) == "s1" {
				http.Error(w, "Conflict", http.StatusConflict)
				return
			}
			p.Stream(w, r)
		})
		time.Sleep(time.Minute)
		p.Break()
		time.Sleep(10 * time.Second)
		p.Prompts("changed")
		p.Changed()
		healthyWithin(t, c, time.Second, "changed")
		if n := len(p.Seen(wire.Initialize)); n != 2 || p.Streams() != 1 {
			t.Errorf("%d sessions and %d streams, want 2 and 1", n, p.Streams())
		}
	})
}

func TestHealthCheck_SlowServerKeepsItsSession(t *testing.T) {
	for _, latency := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		t.Run(latency.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := upstreamtest.NewPeer(t)
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(latency):
						p.ServeHTTP(w, r)
					case <-r.Context().Done():
					}
				})
				c := start(t, anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: slow}})
				time.Sleep(5 * time.Minute) // enough to know that it is slow
				staysWell(t, p, c, 10*time.Minute)
			})
		})
	}
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

// A server that answers calls all the time need not be asked, and one that is busy is not taken for
// one that hangs.
func TestHealthCheck_BusyServerIsNotAsked(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		for range 600 {
			time.Sleep(time.Second)
			mustGet(t, c, "p")
		}
		wantSeen(t, p, wire.Ping, 0)
		p.Handle(wire.Ping, func(w http.ResponseWriter, r *upstreamtest.Request) {
			select {
			case <-time.After(9 * time.Second):
				r.Result(w, `{}`)
			case <-r.Context().Done():
			}
		})
		p.Handle(wire.PromptsGet, hang)
		wantFailure(t, c, "p", upstream.Timeout)
		p.Result(wire.PromptsGet, `{}`)
		for range 8 {
			staysWell(t, p, c, time.Second)
			mustGet(t, c, "p")
		}
	})
}

// Many servers that fall silent at the same moment are asked one after the other.
func TestHealthCheck_ManyServersShareAPace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const servers, perSecond = 200, 10
		var (
			mu sync.Mutex
			at []time.Time
		)
		p := upstreamtest.NewPeer(t)
		p.Handle(wire.Ping, func(w http.ResponseWriter, r *upstreamtest.Request) {
			mu.Lock()
			at = append(at, time.Now())
			mu.Unlock()
			r.Result(w, `{}`)
		})
		opts := upstream.Options{Transport: upstreamtest.Memory{Handler: p}, Pace: rate.NewLimiter(perSecond, 1)}
		for range servers {
			run(t, upstream.New(anywhere(), opts, func() {}))
		}
		time.Sleep(40 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(at) < 10*perSecond {
			t.Fatalf("%d health checks", len(at))
		}
		for i := perSecond; i+perSecond < len(at); i++ {
			if gap := at[i+perSecond].Sub(at[i]); gap < time.Second-time.Millisecond {
				t.Fatalf("%d health checks within %v", perSecond+1, gap)
			}
		}
	})
}

// A child process is stopped by SIGSTOP, and goes on, or is replaced.
func TestHealthCheck_StoppedChildIsNoticedAndReplaced(t *testing.T) {
	t.Parallel()
	u := upstreamtest.Child(t, "stopped", "script")
	u.Timeout = 2 * time.Second
	c, log := startLogged(t, u)
	waitForNames(t, c, "scripted")
	pid := number(t, log, `"pid`)
	if err := stopProcess(pid); err != nil {
		t.Fatal(err)
	}
	upstreamtest.Eventually(t, "it is stopped", func() bool {
		_, err := get(t.Context(), c, "scripted")
		return unavailable(err) == upstream.Timeout
	})
	upstreamtest.Eventually(t, "a problem", func() bool { return c.State().Problem != nil })
	if problem := c.State().Problem; problem.Reason != upstream.Timeout {
		t.Errorf("problem = %+v", problem)
	}
	upstreamtest.Eventually(t, "another process", func() bool { return number(t, log, `"pid`) != pid })
	waitForNames(t, c, "scripted")
	if exists(pid) {
		t.Errorf("process %d is still there", pid)
	}
	if _, err := get(t.Context(), c, "scripted"); errors.Is(err, context.Canceled) || unavailable(err) != "" {
		t.Errorf("get = %v", err)
	}
}

// A call that takes long shows that the server is at work.
func TestHealthCheck_NoPingWhileACallIsInFlight(t *testing.T) {
	u := anywhere()
	u.Timeout = 5 * time.Minute
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(2 * time.Minute)
			r.Result(w, `{}`)
		})
		mustGet(t, c, "p")
		wantSeen(t, p, wire.Ping, 0)
	})
}

// A server that ignores pings is no different from one that is gone.
func TestHealthCheck_SessionOfAServerThatIgnoresPingsIsOpenedAgain(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.Ping, hang)
		time.Sleep(time.Minute)
		if n := len(p.Seen(wire.Initialize)); n != 2 {
			t.Errorf("%d sessions after a minute, want 2", n)
		}
		healthyWithin(t, c, 10*time.Second, "p")
	})
}

// The stream may break without a word, or the server lose a notification.
func TestRefresh_ListsServersThatNotifyAsABackstop(t *testing.T) {
	inEachBubble(t, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Prompts("changed") // without a notification
		healthyWithin(t, c, 6*time.Minute+time.Second, "changed")
	})
}
