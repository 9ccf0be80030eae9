package call

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// server answers a call when it returns. None notices that a client has gone.
type server func()

// workers is a server of several workers that answer calls in order of arrival, each after a time.
func workers(n int, each time.Duration) server {
	working := make(chan struct{}, n)
	return func() {
		working <- struct{}{}
		time.Sleep(each)
		<-working
	}
}

// distant is a server that takes a time for each call, however many there are.
func distant(each time.Duration) server { return func() { time.Sleep(each) } }

// offer makes calls at a steady rate and returns, for each second, how many of those that began in
// it were answered.
func offer(t *testing.T, q *queue, timeout time.Duration, s server, perSecond, seconds int) []int {
	t.Helper()
	var (
		mu    sync.Mutex
		calls sync.WaitGroup
	)
	answered := make([]int, seconds)
	for i := range perSecond * seconds {
		calls.Go(func() {
			until := time.Now().Add(timeout)
			slot := new(slot)
			if slot.acquire(t.Context(), q, nil) != nil {
				return
			}
			done := make(chan struct{})
			calls.Go(func() { s(); close(done) })
			late := time.NewTimer(time.Until(until))
			defer late.Stop()
			select {
			case <-done:
				slot.release(outcomeOf(nil))
				mu.Lock()
				answered[i/perSecond]++
				mu.Unlock()
			case <-late.C:
				slot.release(outcomeOf(context.DeadlineExceeded))
			}
		})
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	calls.Wait()
	return answered
}

// A server that is asked for more than it can do answers at nearly its capacity, once the first half minute is over.
func TestQueue_GoodputHoldsUnderOverload(t *testing.T) {
	const seconds, warmUp = 90, 30
	one := func() server { return workers(1, time.Second/10) }
	for name, row := range map[string]struct {
		server                     func() server
		timeout, offered, capacity int // in seconds, and per second
	}{
		"a tenth too much":          {one, 3, 11, 10},
		"twice":                     {one, 3, 20, 10},
		"ten times":                 {one, 3, 100, 10},
		"ten times, longer timeout": {one, 10, 100, 10},
		"ten at a time":             {func() server { return workers(10, time.Second/5) }, 10, 100, 50},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				timeout, good := time.Duration(row.timeout)*time.Second, 0
				answered := offer(t, newQueue(256, timeout, 0), timeout, row.server(), row.offered, seconds)
				for _, n := range answered[warmUp:] {
					good += n
				}
				if least := (seconds - warmUp) * row.capacity * 8 / 10; good < least {
					t.Errorf("%d answered, want %d: in each second %d", good, least, answered)
				}
			})
		})
	}
}

// away is a server that stands still for 15 seconds after a time. It answers the calls of that time afterwards, or never.
func away(s server, after time.Duration, answers bool) server {
	begun := time.Now()
	const length = 15 * time.Second
	return func() {
		left := after + length - time.Since(begun)
		switch isAway := 0 < left && left <= length; {
		case isAway && answers:
			time.Sleep(left)
		case isAway:
			time.Sleep(time.Hour)
		}
		s()
	}
}

// During an outage calls time out, too, and fewer calls do not help. Half a minute after it, at the latest, half of the
// concurrency may be in flight again, and all calls are answered.
func TestQueue_LimitIsBackAfterAnOutage(t *testing.T) {
	const timeout, before, after, concurrency = 10 * time.Second, 60, 15 + 30, 256
	for _, row := range []struct {
		takes   time.Duration
		offered int
	}{{50 * time.Millisecond, 100}, {time.Second, 200}, {6 * time.Second, 30}} {
		for _, answers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d calls of %s, answered afterwards: %t", row.offered, row.takes, answers), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					q := newQueue(concurrency, timeout, 0)
					s := away(distant(row.takes), before*time.Second, answers)
					limit := 0
					time.AfterFunc((before+after)*time.Second, func() {
						q.mu.Lock()
						defer q.mu.Unlock()
						limit = int(q.limit.slots)
					})
					answered := offer(t, q, timeout, s, row.offered, before+after+15)
					if limit < concurrency/2 {
						t.Errorf("the limit is %d, want %d", limit, concurrency/2)
					}
					for i := before + after; i < len(answered); i++ {
						if answered[i] < row.offered {
							t.Fatalf("%d of %d calls answered in second %d: %d", answered[i], row.offered, i, answered)
						}
					}
				})
			})
		}
	}
}

// One prompt whose gets hang keeps no others from their server.
func TestQueue_ACallThatHangsIsNotOverload(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const offered, seconds = 100, 60
		var calls atomic.Int64
		s := func() {
			if calls.Add(1)%10 == 0 {
				time.Sleep(time.Hour)
			}
			time.Sleep(time.Second / 20)
		}
		answered := offer(t, newQueue(256, 10*time.Second, 0), 10*time.Second, s, offered, seconds)
		for i, n := range answered {
			upstreamtest.Equal(t, offered*9/10, n, "answered in second %d", i)
		}
	})
}
