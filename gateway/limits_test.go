package gateway

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newLimits()
		if err != nil {
			t.Fatal(err)
		}
		slow := &config.Limit{Rate: 2, Burst: 3}
		narrow := &config.Limit{Concurrency: 1}
		begin := func(who, want string, blocks ...*config.Limit) func() {
			t.Helper()
			end, err := l.begin(&policy.Principal{Subject: who}, blocks...)
			got := "ok"
			if wireErr, ok := errors.AsType[*wire.Error](err); ok {
				got = string(wireErr.Data)
			}
			if got != want {
				t.Errorf("%s: %s, want %s", who, got, want)
			}
			return end
		}
		over := func(ms int) string { return fmt.Sprintf(`{"reason":"rate_limited","retryAfterMs":%d}`, ms) }
		for range 3 {
			begin("ann", "ok", nil, slow)()
		}
		begin("ann", over(500), nil, slow)
		begin("bob", "ok", slow)() // each has a limit of their own
		time.Sleep(500 * time.Millisecond)
		begin("ann", "ok", slow)()
		begin("ann", over(500), slow)

		end := begin("ann", "ok", narrow)
		begin("ann", over(1000), narrow)
		begin("bob", "ok", narrow)()
		end()
		begin("ann", "ok", narrow)()

		// A request that one limit refuses counts against none.
		time.Sleep(time.Minute)
		end = begin("ann", "ok", narrow)
		for range 10 {
			begin("ann", over(1000), slow, narrow)
		}
		end()
		for range 3 {
			begin("ann", "ok", slow, narrow)()
		}
		begin("ann", over(500), narrow, slow)
		begin("ann", "ok", narrow)()
	})
}

func TestALimitThatIsReadAgainGoesOn(t *testing.T) {
	l, err := newLimits()
	if err != nil {
		t.Fatal(err)
	}
	limit := func(block string, concurrency, line int) *config.Limit {
		return &config.Limit{Concurrency: concurrency, Block: block, Place: config.Place{File: "gateway.hcl", Line: line}}
	}
	begin := func(allowed bool, block *config.Limit) func() {
		t.Helper()
		end, err := l.begin(&policy.Principal{Subject: "user:ann"}, block)
		if (err == nil) != allowed {
			t.Errorf("%+v: %v, want allowed: %t", block, err, allowed)
		}
		return end
	}
	end := begin(true, limit("gateway", 1, 3))
	begin(false, limit("gateway", 1, 3))
	begin(false, limit("gateway", 1, 30))
	begin(true, limit(`team "eng"`, 1, 3))
	begin(true, limit("gateway", 2, 3))
	end()
	begin(true, limit("gateway", 1, 30))
}

func TestLimitsRememberABoundedNumber(t *testing.T) {
	l, err := newLimits()
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxBuckets + 100 {
		if _, err := l.begin(&policy.Principal{Subject: strconv.Itoa(i)}, &config.Limit{Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.buckets.Len(); n != maxBuckets {
		t.Errorf("%d buckets, want %d", n, maxBuckets)
	}
}
