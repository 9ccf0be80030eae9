package upstream_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// failFirst makes a peer answer all but the first n gets.
func failFirst(p *upstreamtest.Peer, n int, failure func(http.ResponseWriter, *upstreamtest.Request)) {
	already := len(p.Seen(wire.PromptsGet))
	p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		if len(p.Seen(wire.PromptsGet))-already <= n {
			failure(w, r)
			return
		}
		r.Result(w, `{"messages":[]}`)
	})
}

func hang(_ http.ResponseWriter, r *upstreamtest.Request) { <-r.Context().Done() }

// since rounds off what a rate in calls per second cannot express exactly.
func since(begun time.Time) time.Duration { return time.Since(begun).Round(time.Millisecond) }

func TestRate_DelaysCalls(t *testing.T) {
	u := anywhere()
	u.Rate, u.Timeout, u.Breaker.Failures = 2, 2*time.Second, 1
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		for range 10 { // the gateway's own requests do not count
			p.Changed()
			time.Sleep(time.Second)
		}
		// Two at once, then one each half second for half of the timeout. The others are refused then.
		answered := map[time.Duration]int{}
		for _, o := range offer(t, c, "ann", 1e9, 10*time.Nanosecond) {
			after := o.took.Round(100 * time.Millisecond)
			if o.err == nil {
				answered[after]++
				continue
			}
			if unavailable(o.err) != upstream.Overloaded || after != time.Second {
				t.Errorf("refused after %s with %#v", o.took, o.err)
			}
		}
		want := map[time.Duration]int{0: 2, time.Second / 2: 1, time.Second: 1}
		if !maps.Equal(answered, want) {
			t.Errorf("gets were answered after %v, want %v", answered, want)
		}
	})
}

func TestRetry_RepeatsTheCall(t *testing.T) {
	u := anywhere()
	u.Attempts = 3
	u.Breaker = config.Breaker{Failures: 5, Cooldown: 3 * time.Second}
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		begun, asked := time.Now(), 0
		want := func(reason upstream.Reason, attempts int, least, most time.Duration) {
			t.Helper()
			_, err := get(t.Context(), c, "p")
			if took := time.Since(begun); unavailable(err) != reason || took < least || took > most {
				t.Errorf("get = %v after %s, want %q after %s to %s", err, took, reason, least, most)
			}
			if n := len(p.Seen(wire.PromptsGet)) - asked; n != attempts {
				t.Errorf("%d attempts, want %d", n, attempts)
			}
			begun, asked = time.Now(), len(p.Seen(wire.PromptsGet))
		}
		failFirst(p, 2, status(http.StatusBadGateway))
		want("", 3, 150*time.Millisecond, 300*time.Millisecond)
		failFirst(p, 1, hang)
		want("", 2, config.DefaultTimeout/2, config.DefaultTimeout/2+100*time.Millisecond)
		failFirst(p, 3, hang) // the last two of which have hardly any time
		want(upstream.Timeout, 3, config.DefaultTimeout, config.DefaultTimeout)
		failFirst(p, 0, nil)
		want("", 1, 0, 0)
		failFirst(p, 9, status(http.StatusBadGateway))
		want(upstream.Unreachable, 3, 150*time.Millisecond, 300*time.Millisecond)
		want(upstream.Unreachable, 2, 150*time.Millisecond, 300*time.Millisecond) // and the breaker opened
		want(upstream.BreakerOpen, 0, 0, 0)                                       // a pause does not help
	})
}

func TestRetry_NotAfterAnAnswer(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *upstreamtest.Request){
		"error":          refuses(`{"code":-32603,"message":"no"}`),
		"denied":         status(http.StatusForbidden),
		"too often":      status(http.StatusTooManyRequests),
		"half an answer": text(http.StatusOK, wire.ContentJSON, `{"jsonrpc":`),
		"progress": func(w http.ResponseWriter, _ *upstreamtest.Request) {
			upstreamtest.Event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
		},
		"progress, then silence": func(w http.ResponseWriter, r *upstreamtest.Request) {
			upstreamtest.Event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.Attempts = 5
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				p.Handle(wire.PromptsGet, answer)
				_, err := get(t.Context(), c, "p")
				if gets := len(p.Seen(wire.PromptsGet)); err == nil || gets != 1 {
					t.Errorf("get = %v after %d gets, want an error after 1", err, gets)
				}
				if u, ok := errors.AsType[*upstream.Unavailable](err); ok && u.Unanswered() {
					t.Errorf("%v says that another server may be asked", err)
				}
			})
		})
	}
}

// Of a response that breaks off in its head, bytes have arrived as well.
func TestRetry_NotAfterPartsOfAHead(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, _ *upstreamtest.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
	})
	u := upstreamtest.HTTP("up", upstreamtest.Serve(t, peer).URL)
	u.Attempts = 2
	c := start(t, u, upstream.Options{})
	upstreamtest.Eventually(t, "connected", func() bool { return c.State().Connected })
	_, err := get(t.Context(), c, "p")
	if gets := len(peer.Seen(wire.PromptsGet)); unavailable(err) != upstream.BadResponse || gets != 1 {
		t.Errorf("get = %v after %d gets, want %s after 1", err, gets, upstream.BadResponse)
	}
}

func TestRetry_NotAfterCallerGaveUp(t *testing.T) {
	u := anywhere()
	u.Attempts = 5
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, hang)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := get(ctx, c, "p")
		if gets := len(p.Seen(wire.PromptsGet)); !errors.Is(err, context.Canceled) || unavailable(err) != "" || gets != 1 {
			t.Errorf("get = %v after %d gets", err, gets)
		}
	})
}

func TestRetry_CountsInRate(t *testing.T) {
	u := anywhere()
	u.Attempts, u.Rate = 3, 0.25
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		failFirst(p, 9, status(http.StatusBadGateway))
		begun := time.Now()
		wantFailure(t, c, "p", upstream.Unreachable)
		if n := len(p.Seen(wire.PromptsGet)); n != 3 || since(begun) != 8*time.Second {
			t.Errorf("%d gets in %s, want 3 in 8s", n, since(begun))
		}
	})
}

// Of a call that times out, only attempts that had their share of the time count in the breaker.
func TestBreaker_IgnoresHurriedAttempts(t *testing.T) {
	u := anywhere()
	u.Attempts, u.Breaker = 5, config.Breaker{Failures: 3, Cooldown: time.Hour}
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, hang)
		wantFailure(t, c, "p", upstream.Timeout)
		if n := len(p.Seen(wire.PromptsGet)); n < 4 {
			t.Errorf("%d attempts, want at least 4", n)
		}
		p.Result(wire.PromptsGet, `{}`)
		mustGet(t, c, "p")
	})
}

// A server without notifications is polled by the TTL of its list, and one with a stream as a backstop.
func TestRefresh_PollsByTTL(t *testing.T) {
	silent := func(p *upstreamtest.Peer) *upstreamtest.Peer {
		p.Handle(wire.Listen, nil)
		p.Handle(http.MethodGet, nil)
		return p
	}
	for name, test := range map[string]struct {
		peer        *upstreamtest.Peer
		first, last string // members of the two pages
		every       time.Duration
	}{
		"given":                 {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":60000`, `"ttlMs":60000`, time.Minute},
		"the smallest of pages": {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":90000`, `"ttlMs":3e4`, 30 * time.Second},
		"on one page":           {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":120000`, `"x":1`, 2 * time.Minute},
		"too short":             {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":1`, `"ttlMs":1`, 10 * time.Second},
		"longer than refresh":   {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":900000`, `"ttlMs":900000`, 15 * time.Minute},
		"zero says nothing":     {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":0`, `"ttlMs":0`, config.DefaultRefresh},
		"no number":             {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":"9"`, `"ttlMs":null`, config.DefaultRefresh},
		"legacy knows of none":  {silent(upstreamtest.NewPeer(t)), `"ttlMs":1000`, `"ttlMs":1000`, config.DefaultRefresh},
		"beyond all":            {silent(upstreamtest.NewModernPeer(t)), `"ttlMs":1e300`, `"ttlMs":1e300`, 24 * time.Hour},
		"a stream needs none":   {upstreamtest.NewModernPeer(t), `"ttlMs":20000`, `"ttlMs":20000`, config.DefaultRefresh},
	} {
		t.Run(name, func(t *testing.T) {
			peer := func(testing.TB) *upstreamtest.Peer {
				test.peer.Handle(wire.PromptsList, func(w http.ResponseWriter, r *upstreamtest.Request) {
					if r.Params.Get("cursor") == nil {
						r.Result(w, `{"prompts":[{"name":"p"}],"nextCursor":"2",`+test.first+`}`)
						return
					}
					r.Result(w, `{"prompts":[{"name":"q"}],`+test.last+`}`)
				})
				return test.peer
			}
			bubble.Test(t, func(t *testing.T) {
				start(t, anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: peer(t)}})
				synctest.Wait()
				wantLists(t, test.peer, test.every-time.Second, 2, 2)
				wantLists(t, test.peer, test.every/5+2*time.Second, 4, 4)
				wantLists(t, test.peer, test.every*5/4, 6, 6)
			})
		})
	}
}

func TestRetire_WaitsForCallsAndRefusesNewOnes(t *testing.T) {
	u := anywhere()
	u.Concurrency = 1
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(time.Second)
			r.Result(w, `{"messages":[]}`)
		})
		inFlight := getting(t.Context(), c, "p")
		synctest.Wait()
		waiting := getting(t.Context(), c, "p")
		synctest.Wait()
		begun := time.Now()
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		c.Retire(impatient)
		if after := since(begun); after != time.Millisecond {
			t.Errorf("Retire waited for %s, longer than its context", after)
		}
		if _, err := get(t.Context(), c, "p"); !errors.Is(err, upstream.ErrRetired) || since(begun) != time.Millisecond {
			t.Errorf("get after %s: %v, want %v at once", since(begun), err, upstream.ErrRetired)
		}
		c.Retire(t.Context())
		if after := since(begun); after != time.Second {
			t.Errorf("Retire returned after %s, want the end of the call in flight", after)
		}
		if err := <-inFlight; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
		if err := <-waiting; !errors.Is(err, upstream.ErrRetired) {
			t.Errorf("the call that waited: %v, want %v", err, upstream.ErrRetired)
		}
		wantSeen(t, p, wire.PromptsGet, 1)
	})
}
