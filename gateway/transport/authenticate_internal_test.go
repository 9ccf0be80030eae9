package transport

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// A clock that is set, or a machine that sleeps, moves the time of day without the timers.
func TestExpiry_FollowsTheClock(t *testing.T) {
	for name, test := range map[string]struct {
		step, least, most time.Duration
	}{
		"as it runs":  {0, time.Hour, time.Hour},
		"set forward": {2 * time.Hour, time.Minute, time.Minute + clockCheck},
		"set back":    {-2 * time.Hour, 3 * time.Hour, 3 * time.Hour},
	} {
		bubble.Test(t, func(t *testing.T) {
			begun := time.Now()
			var step atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
			ctx, cancel := withExpiryBy(t.Context(), begun.Add(time.Hour), now)
			defer cancel()
			time.Sleep(time.Minute)
			step.Store(int64(test.step))
			<-ctx.Done()
			if after := time.Since(begun); after < test.least || after > test.most || !hasExpired(ctx) {
				t.Errorf("%s: it ended after %s because of %v, want %s to %s", name, after, context.Cause(ctx), test.least, test.most)
			}
		})
	}
}
