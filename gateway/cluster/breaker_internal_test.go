package cluster

import (
	"errors"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	now, errRefused := time.Unix(1e9, 0), errors.New("refused")
	var b breaker
	report := func(after time.Duration, err error, closed, away bool) {
		t.Helper()
		now = now.Add(after)
		if b.report(now, err); b.isClosed != closed || b.isAway(now, err) != away {
			t.Errorf("after %v: closed %t, away %t, want %t and %t", err, b.isClosed, b.isAway(now, err), closed, away)
		}
	}
	report(0, errRefused, false, true)
	report(time.Second, nil, true, false)
	report(10*time.Second, errLate, false, false)
	report(maxLate/2, errLate, false, false)
	report(minCoolDown, nil, true, false)
	report(time.Second, errLate, false, false)
	report(maxLate, errLate, false, true)
	report(minCoolDown, nil, false, false) // it cools down for longer, the second time
	report(minCoolDown, nil, true, false)
	report(0, errRefused, false, true)
	for range 10 {
		report(maxCoolDown, nil, true, false)
		report(0, errRefused, false, true)
	}
	report(maxCoolDown-1, nil, false, false)
	report(1, nil, true, false)
}
