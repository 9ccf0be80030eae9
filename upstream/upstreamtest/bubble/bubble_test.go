package bubble_test

import (
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// Without the one thread, the race detector of Go 1.26 crashes in nearly each run of this test.
func TestBubble_TimersThatFireTogetherDoNotCrashTheRaceDetector(t *testing.T) {
	for range 10 {
		bubble.Test(t, func(*testing.T) {
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() {
					for range 50 {
						timer := time.NewTimer(time.Millisecond)
						time.Sleep(time.Millisecond)
						<-timer.C
					}
				})
			}
			all.Wait()
		})
	}
}
