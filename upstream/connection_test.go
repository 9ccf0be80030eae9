package upstream_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
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

// failing is a network that is down. It records the times of requests.
type failing struct{ at *[]time.Time }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) {
	*f.at = append(*f.at, time.Now())
	return nil, errors.New("no network")
}

func TestReconnect_BacksOffToTenSeconds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Time
		c := start(t, anywhere(), upstream.Options{Transport: failing{&at}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		_, err := get(t.Context(), c, "p")
		if u, ok := errors.AsType[*upstream.Unavailable](err); !ok || u.RetryAfter <= 0 || u.RetryAfter > 10*time.Second {
			t.Errorf("get = %#v", err)
		}
		gaps := map[time.Duration]bool{}
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
		if len(at) < 30 || len(gaps) < len(at)/2 {
			t.Errorf("%d attempts in five minutes, after %d different times", len(at), len(gaps))
		}
	})
}

// Somebody who has mended the server waits for nothing.
func TestReconnect_AtOnceWhereAnOperatorAsks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Time
		c := start(t, anywhere(), upstream.Options{Transport: failing{&at}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		before, now := len(at), time.Now()
		c.ConnectNow()
		synctest.Wait()
		if len(at) != before+1 || !at[before].Equal(now) {
			t.Errorf("%d attempts at once, want 1", len(at)-before)
		}
	})
}

// Each change is looked at by everybody who shows states.
func TestReconnect_AnOutageThatGoesOnIsNoChange(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Time
		changes := 0
		c := upstream.New(anywhere(), upstream.Options{Transport: failing{&at}}, func() { changes++ })
		run(t, c)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(at) < 30 || changes != 1 {
			t.Errorf("%d changes in %d attempts, want 1", changes, len(at))
		}
	})
}

// There may be ten thousand that wait for their next attempt. An attempt needs a stack of 16 KiB,
// which stays with its goroutine.
func TestReconnect_WaitsWithASmallStack(t *testing.T) {
	t.Parallel()
	var waiting, attempting atomic.Int32
	stack := make([]byte, 64<<10) // attempts come one after another
	opts := upstream.Options{DialGuard: func(string) error {
		attempting.Add(1)
		if strings.Contains(string(stack[:runtime.Stack(stack, false)]), "(*endpoint).run(") {
			waiting.Add(1)
		}
		return errors.New("not today")
	}}
	run(t, upstream.New(upstreamtest.HTTP("away", "http://127.0.0.1"), opts, func() {}))
	upstreamtest.Eventually(t, "several attempts", func() bool { return attempting.Load() > 3 })
	if n := waiting.Load(); n > 0 {
		t.Errorf("%d attempts are made by the goroutine that waits for the next one", n)
	}
}

func TestReconnect_ResetsBackoffAfterGoodSession(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		for i := range 8 {
			time.Sleep(time.Minute)
			p.Forget()
			p.Break()
			time.Sleep(2 * time.Second) // reopening the stream shows that the session is lost
			if n := len(p.Seen(wire.Initialize)); n != i+2 || !c.State().Connected {
				t.Fatalf("two seconds after the session was lost for time %d: %d sessions in all, state %+v", i+1, n, c.State())
			}
		}
	})
}

func TestBreaker_CountsOnlyServerFailures(t *testing.T) {
	u := anywhere()
	u.Breaker = config.Breaker{Failures: 3, Cooldown: 7 * time.Second}
	u.MaxMessage = 64 << 10
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		answers := func() {
			t.Helper()
			p.Result(wire.PromptsGet, `{}`)
			mustGet(t, c, "p")
		}
		for name, notCounted := range map[string]struct {
			answer func(http.ResponseWriter, *upstreamtest.Request)
			want   upstream.Reason // "" for an answer, or a caller that has left
		}{
			"refusal":          {refuses(`{"code":-32603,"message":"no"}`), ""},
			"no object":        {results(`"text"`), upstream.BadResponse},
			"no error":         {refuses(`{"message":"no"}`), upstream.BadResponse},
			"no JSON":          {text(http.StatusOK, "application/json", `{"jsonrpc":`), upstream.BadResponse},
			"duplicate member": {results(`{"a":1,"a":2}`), upstream.BadResponse},
			"401":              {status(401), upstream.Denied},
			"403":              {status(403), upstream.Denied},
			"429":              {status(429), upstream.RateLimited},
			"413":              {status(413), upstream.BadResponse},
			"hang":             {hang, ""},
		} {
			t.Log(name)
			p.Handle(wire.PromptsGet, notCounted.answer)
			for i := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if i%2 == 0 { // the caller gives up by itself, or by its own deadline
					time.AfterFunc(time.Second/2, cancel)
				}
				_, err := get(ctx, c, "p")
				wantUnavailable(t, err, notCounted.want)
				if left := ctx.Err(); left != nil && !errors.Is(err, left) {
					t.Errorf("get = %v, want %v", err, left)
				}
				cancel()
			}
			answers()
		}
		for name, counted := range map[string]struct {
			answer func(http.ResponseWriter, *upstreamtest.Request)
			want   upstream.Reason
		}{
			"timeout":          {hang, upstream.Timeout},
			"408":              {status(408), upstream.BadResponse},
			"500":              {status(500), upstream.BadResponse},
			"502":              {status(502), upstream.Unreachable},
			"over max_message": {results(`{"text":"` + strings.Repeat("x", u.MaxMessage) + `"}`), upstream.BadResponse},
			"cut":              {text(http.StatusOK, "text/event-stream", "data: {\"json"), upstream.BadResponse},
			"broken stream":    {text(http.StatusOK, "text/event-stream", ""), upstream.Unreachable},
			"a page":           {text(http.StatusOK, "text/html", "<html>"), upstream.BadResponse},
		} {
			t.Log(name)
			p.Handle(wire.PromptsGet, counted.answer)
			for range 3 {
				wantFailure(t, c, "p", counted.want)
			}
			before := len(p.Seen(wire.PromptsGet))
			_, err := get(t.Context(), c, "p")
			if u, ok := errors.AsType[*upstream.Unavailable](err); !ok || u.Reason != upstream.BreakerOpen || u.RetryAfter != 7*time.Second {
				t.Errorf("get = %#v", err)
			}
			time.Sleep(7*time.Second + 1)
			wantFailure(t, c, "p", counted.want) // half open: one call is let through
			wantFailure(t, c, "p", upstream.BreakerOpen)
			wantSeen(t, p, wire.PromptsGet, before+1)
			time.Sleep(7*time.Second + 1)
			answers()
			answers()
		}
	})
}

// getAs gets a prompt for a caller.
func getAs(t *testing.T, c *upstream.Connector, who caller) error {
	t.Helper()
	_, err := c.Call(context.WithoutCancel(t.Context()), &upstream.Request{
		Method: wire.PromptsGet, Name: "p", Params: wire.Object{}.With("name", wire.Quote("p")), Caller: who,
	}, nil)
	return err
}

func TestBreaker_OnePrincipalDoesNotOpenItAlone(t *testing.T) {
	u := anywhere()
	u.Breaker = config.Breaker{Failures: 3, Cooldown: time.Hour}
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, hang)
		for range 10 {
			wantUnavailable(t, getAs(t, c, "ann"), upstream.Timeout)
		}
		wantUnavailable(t, getAs(t, c, "bob"), upstream.Timeout)
		wantUnavailable(t, getAs(t, c, "bob"), upstream.BreakerOpen)
	})
}
