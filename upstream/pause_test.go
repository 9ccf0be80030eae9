package upstream_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// asksForPause answers with a status and a Retry-After.
func asksForPause(status int, retryAfter string) func(http.ResponseWriter, *upstreamtest.Request) {
	return func(w http.ResponseWriter, _ *upstreamtest.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(status)
	}
}

// wantPause checks that a get is told to come back after a time.
func wantPause(t *testing.T, c *upstream.Connector, reason upstream.Reason, after time.Duration) {
	t.Helper()
	_, err := get(t.Context(), c, "p")
	u, ok := errors.AsType[*upstream.Unavailable](err)
	if !ok || u.Reason != reason || u.RetryAfter > after || u.RetryAfter < after-time.Second {
		t.Errorf("error %#v, want %s and %s", err, reason, after)
	}
}

func TestPause_CallsAreRefusedMeanwhile(t *testing.T) {
	inHalfAMinute := func() string { return time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		status int
		value  func() string
		reason upstream.Reason
		lasts  time.Duration
	}{
		"429, seconds":  {429, func() string { return "30" }, upstream.RateLimited, 30 * time.Second},
		"503, seconds":  {503, func() string { return "30" }, upstream.Unreachable, 30 * time.Second},
		"429, a date":   {429, inHalfAMinute, upstream.RateLimited, 30 * time.Second},
		"503, for ever": {503, func() string { return "99999999999999999999" }, upstream.Unreachable, client.MaxRetryAfter},
	} {
		t.Run(name, func(t *testing.T) {
			u := anywhere()
			u.Attempts = 3
			inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				p.Handle(wire.PromptsGet, asksForPause(test.status, test.value()))
				begun := time.Now()
				wantPause(t, c, test.reason, test.lasts)
				for range 4 {
					time.Sleep(test.lasts / 10)
					wantPause(t, c, test.reason, test.lasts-time.Since(begun))
				}
				if n, took := len(p.Seen(wire.PromptsGet)), time.Since(begun); n != 1 || took != test.lasts/10*4 {
					t.Errorf("%d gets within %s, want one, and refusals at once", n, took)
				}
				problem := c.State().Problem
				if problem == nil || problem.Reason != test.reason || !problem.Failing {
					t.Fatalf("after five gets: %+v", problem)
				}
				// Operators see until when the server wants no requests, and not that they should start it.
				until := begun.Add(test.lasts).UTC().Format(time.RFC3339)
				if cause := problem.Cause(); cause.Kind != client.PauseWanted || !strings.Contains(cause.Problem, until) || strings.Contains(cause.Remedy, "start") {
					t.Errorf("shown as %+v, want a pause until %s", cause, until)
				}
				p.Result(wire.PromptsGet, `{"messages":[]}`)
				time.Sleep(test.lasts * 7 / 10)
				mustGet(t, c, "p")
				wantWell(t, c, "after a get that succeeded")
			})
		})
	}
}

// It does not matter for what the server asked for it.
func TestPause_ListsAndConnectsWaitToo(t *testing.T) {
	t.Run("lists", func(t *testing.T) {
		inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
			time.Sleep(time.Second)
			p.Handle(wire.PromptsList, asksForPause(http.StatusTooManyRequests, "60"))
			p.Changed()
			wantLists(t, p, 0, 2, 2)
			p.Prompts("p", "q")
			p.Changed()
			wantLists(t, p, 59*time.Second, 2, 2)
			wantPause(t, c, upstream.RateLimited, time.Second)
			wantLists(t, p, 20*time.Second, 3, 4)
			if names(c) != "p q" || c.State().Problem != nil {
				t.Errorf("State() = %+v", c.State())
			}
		})
	})
	t.Run("connects", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			p := upstreamtest.NewModernPeer(t)
			p.Handle(wire.Discover, asksForPause(http.StatusServiceUnavailable, "60"))
			p.Handle(wire.Initialize, asksForPause(http.StatusServiceUnavailable, "60"))
			c := start(t, anywhere(), upstream.Options{Transport: upstreamtest.Memory{Handler: p}})
			time.Sleep(59 * time.Second)
			wantSeen(t, p, wire.Discover, 1)
			for range 10 {
				wantPause(t, c, upstream.Unreachable, time.Second)
			}
			p.Result(wire.Discover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"prompts":{}}}`)
			time.Sleep(10 * time.Second)
			wantWell(t, c, "once it is up") // what was not sent to a server that was down says nothing of it
			mustGet(t, c, "p")
		})
	})
}

// A JSON-RPC error of the server stays an answer, and the pause is kept all the same.
func TestPause_BesideAnAnswer(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			w.Header().Set("Retry-After", "60")
			r.Error(w, http.StatusServiceUnavailable, `{"code":-32000,"message":"busy"}`)
		})
		_, err := get(t.Context(), c, "p")
		if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Code != -32000 {
			t.Errorf("get = %v, want the server's answer", err)
		}
		wantPause(t, c, upstream.Unreachable, time.Minute)
	})
}

// A list that is denied is requested again as soon as the server answers anything, and not half a
// minute later.
func TestDenied_EndsWithTheFirstAnswerThatWorks(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Minute)
		p.Status(wire.PromptsList, http.StatusUnauthorized)
		p.Changed()
		time.Sleep(time.Second)
		if problem := c.State().Problem; problem == nil || problem.Reason != upstream.Denied {
			t.Fatalf("problem %+v, want denied", problem)
		}
		p.Prompts("p")
		mustGet(t, c, "p")
		time.Sleep(time.Second)
		wantWell(t, c, "a second after a get that was answered")
	})
}
