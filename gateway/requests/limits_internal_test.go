package requests

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestLimits_CountPerPrincipalAndBlock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLimits(nil)
		slow := &config.Limit{Rate: 2, Burst: 3}
		narrow := &config.Limit{Concurrency: 1}
		acquire := func(who, want string, blocks ...*config.Limit) func() {
			t.Helper()
			c, err := l.acquire(&policy.Principal{Subject: who}, blocks...)
			got := "ok"
			if wireErr, ok := errors.AsType[*wire.Error](err); ok {
				got = string(wireErr.Data)
			}
			upstreamtest.Equal(t, want, got, "%s", who)
			return c.release
		}
		over := func(ms int) string { return fmt.Sprintf(`{"reason":"rate_limited","retryAfterMs":%d}`, ms) }
		for range 3 {
			acquire("ann", "ok", nil, slow)()
		}
		acquire("ann", over(500), nil, slow)
		acquire("bob", "ok", slow)() // each principal has its own limit
		time.Sleep(500 * time.Millisecond)
		acquire("ann", "ok", slow)()
		acquire("ann", over(500), slow)

		release := acquire("ann", "ok", narrow)
		acquire("ann", over(1000), narrow)
		acquire("bob", "ok", narrow)()
		release()
		acquire("ann", "ok", narrow)()

		// A request that one limit refuses does not count against the others.
		time.Sleep(time.Minute)
		release = acquire("ann", "ok", narrow)
		for range 10 {
			acquire("ann", over(1000), slow, narrow)
		}
		release()
		for range 3 {
			acquire("ann", "ok", slow, narrow)()
		}
		acquire("ann", over(500), narrow, slow)
		acquire("ann", "ok", narrow)()
	})
}

func TestLimits_RememberABoundedNumberOfPrincipals(t *testing.T) {
	l := newLimits(nil)
	for i := range maxBuckets + 100 {
		if _, err := l.acquire(&policy.Principal{Subject: strconv.Itoa(i)}, &config.Limit{Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
	}
	upstreamtest.Equal(t, maxBuckets, l.buckets.Len(), "buckets")
}
