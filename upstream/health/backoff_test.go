package health

import (
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestReconnect_WaitsLongerAfterAnHour(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := NewReconnect()
		begun, attempts := time.Now(), 0
		for ; time.Since(begun) < longAbsence; attempts++ {
			wait := r.Next(false)
			if wait > lastBackoff {
				t.Fatalf("attempt %d waits for %s", attempts, wait)
			}
			time.Sleep(wait)
		}
		if attempts < 360 || attempts > 620 {
			t.Errorf("%d attempts in the first hour", attempts)
		}
		var last time.Duration
		for range 20 {
			if last = r.Next(false); last > longBackoff {
				t.Errorf("it waits for %s", last)
			}
		}
		if last < longBackoff/2 {
			t.Errorf("after %s it waits for %s", longAbsence, last)
		}
		if wait := r.Next(true); wait > 2*firstBackoff {
			t.Errorf("after a steady session it waits for %s", wait)
		}
	})
}

// A clock that is set back must not make clients wait for as long: what is compared with the time
// has a monotonic reading.
func TestServer_WaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	e := NewServer(Settings{
		Failures: 1, Cooldown: time.Minute, OnReport: func(Report) {},
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
