package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// add adds endpoints of a team that are down, and returns them.
func (r *Reconnects) add(team string, n int) []*Redial {
	endpoints := make([]*Redial, n)
	for i := range endpoints {
		endpoints[i] = newRedial(team)
		r.failed(endpoints[i])
	}
	return endpoints
}

// attempts returns how often in a second endpoints are tried on average, all of which failed again.
func (r *Reconnects) attempts(endpoints []*Redial) (perSecond float64) {
	const rounds = 20
	for _, e := range endpoints {
		var total time.Duration
		for range rounds {
			total += r.failed(e)
		}
		perSecond += rounds / total.Seconds()
	}
	return perSecond
}

func within(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %.4g, want %.4g to %.4g", what, got, least, most)
	}
}

func TestReconnects_ShareARate(t *testing.T) {
	t.Parallel()
	r := NewReconnects()
	var all []*Redial
	for team := range 2_000 {
		all = append(all, r.add(fmt.Sprint("team", team), 5)...)
	}
	within(t, "attempts per second", r.attempts(all), 0.9*reconnectRate, 1.1*reconnectRate)
}

func TestReconnects_ATeamWaitsBecauseOfItsOwn(t *testing.T) {
	t.Parallel()
	r := NewReconnects()
	many, one := r.add("many", 10_000), r.add("one", 1)
	within(t, "attempts per second for the team with many", r.attempts(many), 0.45*reconnectRate, 0.55*reconnectRate)
	if wait := r.failed(one[0]); wait > firstBackoff {
		t.Errorf("the other team's endpoint waits for %s", wait)
	}
	for _, e := range many {
		r.ended(e)
	}
	r.ended(one[0])
	if len(r.down) > 0 {
		t.Errorf("%d teams are still known", len(r.down))
	}
}

// Those that are due at nearly the same time are made one after another, and the process sleeps in
// between.
func TestReconnects_AreMadeInSteps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := NewReconnects()
		all := r.add("one", 5_000)
		moments := map[time.Duration]bool{}
		begun := time.Now()
		for _, e := range all {
			moments[time.Since(begun)+r.failed(e)] = true
			time.Sleep(time.Microsecond)
		}
		if most := int(10 * time.Second / reconnectTick); len(moments) > most {
			t.Errorf("5 000 attempts in ten seconds are made at %d moments, want %d at most", len(moments), most)
		}
	})
}

func TestReconnects_SpreadFirstAttempts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := NewReconnects()
		var last time.Duration
		for range firstBurst {
			last = max(last, r.first.Reserve().Delay())
		}
		if last > 0 {
			t.Errorf("one of the first %d waits for %s", firstBurst, last)
		}
		for range 2 * firstRate {
			last = max(last, r.first.Reserve().Delay())
		}
		within(t, "seconds until the last attempt begins", last.Seconds(), 1.9, 2.1)
	})
}

// A clock that is set back must not make clients wait for as long: what is compared with the time
// has a monotonic reading.
func TestServer_WaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	e := NewServer(Settings{
		Failures: 1, Cooldown: time.Minute, Timeout: time.Second, OnReport: func(Report) {},
	})
	e.Up()
	a, err := e.Begin(nil)
	if err != nil {
		t.Fatal(err)
	}
	a.End(Outcome{Verdict: Unanswered})
	e.Pause(time.Minute, Failure{})
	for what, at := range map[string]time.Time{
		"the breaker opened": e.breaker.since, "the pause ends": e.Paused().Until,
	} {
		if at.IsZero() || !strings.Contains(at.String(), " m=+") {
			t.Errorf("%s at %s, without a monotonic reading", what, at)
		}
	}
}
