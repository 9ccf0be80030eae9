package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
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
			upstreamtest.Equal(t, attempts, len(p.Seen(wire.PromptsGet))-asked, "attempts")
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
		upstreamtest.Equal(t, time.Millisecond, since(begun), "how long Retire waited")
		if _, err := get(t.Context(), c, "p"); !errors.Is(err, upstream.ErrRetired) || since(begun) != time.Millisecond {
			t.Errorf("get after %s: %v, want %v at once", since(begun), err, upstream.ErrRetired)
		}
		c.Retire(t.Context())
		upstreamtest.Equal(t, time.Second, since(begun), "how long Retire waited for the call in flight")
		if err := <-inFlight; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
		if err := <-waiting; !errors.Is(err, upstream.ErrRetired) {
			t.Errorf("the call that waited: %v, want %v", err, upstream.ErrRetired)
		}
		wantSeen(t, p, wire.PromptsGet, 1)
	})
}

// text answers with a status and a body.
func text(status int, contentType, body string) func(http.ResponseWriter, *upstreamtest.Request) {
	return func(w http.ResponseWriter, _ *upstreamtest.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}
