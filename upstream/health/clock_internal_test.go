package health

import (
	"strings"
	"testing"
	"time"
)

// A clock that is set back must not make clients wait for as long: what is compared with the time
// has a monotonic reading.
func TestEndpoint_WaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	e := NewEndpoint(Settings{
		Failures: 1, Cooldown: time.Minute, Timeout: time.Second, OnReport: func(Report) {},
	})
	e.Up()
	a, err := e.Begin(nil)
	if err != nil {
		t.Fatal(err)
	}
	a.End(Outcome{Verdict: Unanswered})
	e.Pause(time.Minute, Failure{}, false)
	for what, at := range map[string]time.Time{
		"the breaker opened": e.breaker.since, "the pause ends": e.Paused().Until,
	} {
		if at.IsZero() || !strings.Contains(at.String(), " m=+") {
			t.Errorf("%s at %s, without a monotonic reading", what, at)
		}
	}
}
