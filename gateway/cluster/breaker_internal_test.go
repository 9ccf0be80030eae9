package cluster

import (
	"errors"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	now := time.Unix(1e9, 0)
	var b breaker
	errRefused := errors.New("refused")
	report := func(after time.Duration, err error, want position) {
		t.Helper()
		now = now.Add(after)
		if b.report(now, err); b.position != want {
			t.Errorf("position %d after %v, want %d", b.position, err, want)
		}
	}
	report(0, errRefused, open)
	report(time.Second, nil, closed)
	report(10*time.Second, errLate, halfOpen)
	report(maxLate/2, errLate, halfOpen)
	report(0, nil, closed) // it has cooled down
	report(time.Second, errLate, halfOpen)
	report(maxLate, errLate, open)
	report(0, nil, open) // for longer, the second time
	report(2*minCoolDown, nil, closed)
	report(0, errRefused, open)
	for range 10 {
		report(maxCoolDown, nil, closed)
		report(0, errRefused, open)
	}
	report(maxCoolDown-1, nil, open)
	report(1, nil, closed)
}
