package session

import (
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestReconnect_WaitsLongerAfterAnHour(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newReconnect()
		begun, attempts := time.Now(), 0
		for ; time.Since(begun) < longAbsence; attempts++ {
			wait := r.next(false)
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
			if last = r.next(false); last > longBackoff {
				t.Errorf("it waits for %s", last)
			}
		}
		if last < longBackoff/2 {
			t.Errorf("after %s it waits for %s", longAbsence, last)
		}
		if wait := r.next(true); wait > 2*firstBackoff {
			t.Errorf("after a steady session it waits for %s", wait)
		}
	})
}
