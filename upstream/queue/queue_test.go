package queue_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

type caller string

func (c caller) Key() string { return string(c) }

// acquire acquires a slot for a call, and fails the test without one.
func acquire(t *testing.T, q *queue.Queue, who caller) *queue.Slot {
	t.Helper()
	s := new(queue.Slot)
	if err := s.Acquire(t.Context(), q, who); err != nil {
		t.Errorf("%s: Acquire() = %v", who, err)
	}
	return s
}

func TestSlot_CallersTakeTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		first := acquire(t, q, "first")
		var (
			order   []caller // of one slot, so that it needs no lock
			waiting sync.WaitGroup
		)
		for _, who := range []caller{"ann", "ann", "ann", "bob", "cid", "bob"} {
			waiting.Go(func() {
				s := acquire(t, q, who)
				order = append(order, who)
				time.Sleep(time.Second)
				s.Release(queue.Answered)
			})
			synctest.Wait()
		}
		first.Release(queue.Answered)
		waiting.Wait()
		if want := []caller{"ann", "bob", "cid", "ann", "bob", "ann"}; !slices.Equal(order, want) {
			t.Errorf("the slot went to %s, want %s", order, want)
		}
	})
}

func TestSlot_ACallsWaitIsHalfOfTheTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, 10*time.Second, 0)
		ann, begun := acquire(t, q, "ann"), time.Now()
		err := new(queue.Slot).Acquire(t.Context(), q, caller("bob"))
		if waited := time.Since(begun); !errors.Is(err, queue.ErrConcurrency) || waited != 5*time.Second {
			t.Errorf("after %s: %v, want %v after 5s", waited, err, queue.ErrConcurrency)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := new(queue.Slot).Acquire(ctx, q, caller("bob")); err == nil {
			t.Error("a caller that has gone got a slot")
		}
		time.AfterFunc(5*time.Second-1, func() { ann.Release(queue.Answered) })
		acquire(t, q, "bob").Release(queue.Answered)
	})
}

// Of one caller's calls, the oldest has the least time left for its answer.
func TestSlot_NewestCallOfALineIsFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		first := acquire(t, q, "first")
		var (
			order   []int // of one slot, so that it needs no lock
			waiting sync.WaitGroup
		)
		for i := range 3 {
			waiting.Go(func() {
				s := acquire(t, q, "ann")
				order = append(order, i)
				s.Release(queue.Answered)
			})
			synctest.Wait()
		}
		first.Release(queue.Answered)
		waiting.Wait()
		if want := []int{2, 1, 0}; !slices.Equal(order, want) {
			t.Errorf("the slot went to %d, want %d", order, want)
		}
	})
}

func TestSlot_OthersHaveItWhileItIsLent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		ann := acquire(t, q, "ann")
		once, again := ann.Lend(), ann.Lend() // two questions at once
		bob := acquire(t, q, "bob")
		once()
		again() // goes on without a slot
		got := make(chan *queue.Slot)
		go func() { got <- acquire(t, q, "cid") }()
		synctest.Wait()
		select {
		case <-got:
			t.Error("a slot that bob has was given away")
		default:
		}
		ann.Release(queue.Answered)
		bob.Release(queue.Answered)
		cid := <-got
		idle := q.Close()
		select {
		case <-idle:
			t.Error("idle with a call in flight")
		default:
		}
		cid.Release(queue.Answered)
		<-idle
	})
}

func TestSlot_AFullQueueOfManyCallersRefusesTheNextOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		first := acquire(t, q, "first")
		var waiting sync.WaitGroup
		for i := range 1024 {
			waiting.Go(func() { acquire(t, q, caller(strconv.Itoa(i))).Release(queue.Unmeasured) })
		}
		synctest.Wait()
		// Nobody who waits has more calls than that one.
		if err := new(queue.Slot).Acquire(t.Context(), q, caller("late")); !errors.Is(err, queue.ErrConcurrency) {
			t.Errorf("refused with %v, want %v", err, queue.ErrConcurrency)
		}
		first.Release(queue.Answered)
		waiting.Wait()
	})
}

func TestQueue_CloseRefusesWhoWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		ann := acquire(t, q, "ann")
		ended := make(chan error)
		go func() {
			ended <- new(queue.Slot).Acquire(t.Context(), q, caller("bob"))
		}()
		synctest.Wait()
		idle := q.Close()
		if err := <-ended; !errors.Is(err, queue.ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		err := new(queue.Slot).Acquire(t.Context(), q, nil)
		if !errors.Is(err, queue.ErrClosed) {
			t.Errorf("who came later got %v", err)
		}
		ann.Release(queue.Answered)
		<-idle
	})
}

func TestQueue_RateDelaysAndRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(100, 10*time.Second, 2)
		begun := time.Now()
		for i := range 6 { // a burst of two, then one in half a second
			acquire(t, q, "ann").Release(queue.Answered)
			if i == 1 && time.Since(begun) > 0 {
				t.Error("the burst was delayed")
			}
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("six calls took %s, want 2s", took)
		}
		if q.AwaitRate(t.Context(), time.Millisecond) || !q.AwaitRate(t.Context(), time.Second) {
			t.Error("a retry has to wait for half a second, no more and no less")
		}
	})
}

func TestDeadline_StandsStillWhileAPersonIsAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var outer, d queue.Deadline
		outer.Start(t.Context(), time.Now(), 10*time.Second, nil)
		defer outer.Stop()
		d.Start(&outer, time.Now(), 5*time.Second, &outer)
		defer d.Stop()
		time.Sleep(time.Second)
		first, second := d.Pause(), d.Pause()
		time.Sleep(time.Hour)
		first()
		time.Sleep(time.Hour)
		second()
		if d.Left() != 4*time.Second || outer.Left() != 9*time.Second {
			t.Errorf("%s and %s are left, want 4s and 9s", d.Left(), outer.Left())
		}
		<-d.Done()
		if !errors.Is(d.Err(), context.DeadlineExceeded) || outer.Err() != nil || outer.Left() != 5*time.Second {
			t.Errorf("ended with %v, and the outer one with %v", d.Err(), outer.Err())
		}
		var over queue.Deadline // nothing has asked for its channel
		over.Start(t.Context(), time.Now(), time.Second, nil)
		defer over.Stop()
		time.Sleep(time.Second)
		resume := over.Pause()
		during := over.Err()
		resume()
		if after := over.Err(); !errors.Is(during, context.DeadlineExceeded) || !errors.Is(after, context.DeadlineExceeded) {
			t.Errorf("a pause has brought back a deadline that was over: %v, %v", during, after)
		}
		ctx, leave := context.WithCancelCause(t.Context())
		leave(errors.New("the client has gone"))
		var gone queue.Deadline
		gone.Start(ctx, time.Now(), time.Second, nil)
		defer gone.Stop()
		if err := gone.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("one whose parent was cancelled: %v", err)
		}
	})
}

// In real time: where the clock stands still, even a reservation for now can be given back.
func TestQueue_CallsThatAreNotSentTakeNothingOfTheRate(t *testing.T) {
	t.Parallel()
	const burst = 50
	q := queue.New(1, time.Minute, burst)
	first := acquire(t, q, "first")
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 2 * burst {
		if err := new(queue.Slot).Acquire(gone, q, caller("many")); err == nil {
			t.Fatal("a call got a slot that was taken")
		}
	}
	first.Release(queue.Unmeasured)
	for range burst - 1 {
		s := new(queue.Slot)
		if err := s.Acquire(gone, q, caller("first")); err != nil { // it would not wait
			t.Fatal(err)
		}
		s.Release(queue.Unmeasured)
	}
}
