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

// acquire acquires a slot for a call that has a time, and fails the test without one.
func acquire(t *testing.T, q *queue.Queue, who caller, left time.Duration) *queue.Slot {
	t.Helper()
	s := new(queue.Slot)
	if err := s.Acquire(t.Context(), q, who, func() time.Duration { return left }); err != nil {
		t.Errorf("%s: Acquire() = %v", who, err)
	}
	return s
}

// refused tries to acquire a slot, and returns the refusal.
func refused(t *testing.T, q *queue.Queue, who caller, left time.Duration) *queue.Refusal {
	t.Helper()
	err := new(queue.Slot).Acquire(t.Context(), q, who, func() time.Duration { return left })
	refusal, ok := errors.AsType[*queue.Refusal](err)
	if !ok {
		t.Fatalf("%s: Acquire() = %v, want a refusal", who, err)
	}
	return refusal
}

// know makes a queue know that a call takes a time.
func know(t *testing.T, q *queue.Queue, took time.Duration) {
	t.Helper()
	for range 10 {
		s := acquire(t, q, "first", time.Hour)
		time.Sleep(took)
		s.Release(queue.Answered)
	}
}

func TestSlot_CallersTakeTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		first := acquire(t, q, "first", time.Hour)
		var (
			order   []caller // of one slot, so that it needs no lock
			waiting sync.WaitGroup
		)
		for _, who := range []caller{"ann", "ann", "ann", "bob", "cid", "bob"} {
			waiting.Go(func() {
				s := acquire(t, q, who, time.Hour)
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

func TestSlot_ACallWaitsWhereItCanStillBeAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, 10*time.Second, 0)
		know(t, q, time.Second)
		s := acquire(t, q, "ann", 10*time.Second)
		refusal := refused(t, q, "bob", 2*time.Second)
		if refusal.RetryAfter != time.Second || !errors.Is(refusal, queue.ErrConcurrency) {
			t.Errorf("refused with %v, come back after %s", refusal, refusal.RetryAfter)
		}
		begun := time.Now()
		time.AfterFunc(time.Second, func() { s.Release(queue.Answered) })
		acquire(t, q, "bob", 8*time.Second).Release(queue.Answered)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("bob waited for %s, want 1s", took)
		}
	})
}

func TestSlot_GivesUpWhereNoTimeIsLeftForAnAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, 10*time.Second, 0)
		know(t, q, time.Second)
		acquire(t, q, "ann", 10*time.Second) // and takes longer than any before
		begun := time.Now()
		_ = refused(t, q, "bob", 6*time.Second)
		if waited := time.Since(begun); waited < 4*time.Second || waited > 5*time.Second {
			t.Errorf("bob waited for %s of 6s, and the server takes one", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := new(queue.Slot).Acquire(ctx, q, caller("bob"), func() time.Duration { return time.Hour }); err == nil {
			t.Error("a caller that has gone got a slot")
		}
	})
}

func TestSlot_OthersHaveItWhileItIsLent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		ann := acquire(t, q, "ann", time.Hour)
		once, again := ann.Lend(), ann.Lend() // two questions at once
		bob := acquire(t, q, "bob", time.Hour)
		once()
		again() // goes on without a slot
		got := make(chan *queue.Slot)
		go func() { got <- acquire(t, q, "cid", time.Hour) }()
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
		first := acquire(t, q, "first", time.Hour)
		var waiting sync.WaitGroup
		for i := range 1024 {
			waiting.Go(func() { acquire(t, q, caller(strconv.Itoa(i)), time.Hour).Release(queue.Unmeasured) })
		}
		synctest.Wait()
		// Nobody who waits has more calls than that one.
		if refusal := refused(t, q, "late", time.Hour); !errors.Is(refusal, queue.ErrConcurrency) {
			t.Errorf("refused with %v, want %v", refusal, queue.ErrConcurrency)
		}
		first.Release(queue.Answered)
		waiting.Wait()
	})
}

func TestQueue_CloseRefusesWhoWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Hour, 0)
		ann := acquire(t, q, "ann", time.Hour)
		ended := make(chan error)
		go func() {
			ended <- new(queue.Slot).Acquire(t.Context(), q, caller("bob"), func() time.Duration { return time.Hour })
		}()
		synctest.Wait()
		idle := q.Close()
		if err := <-ended; !errors.Is(err, queue.ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		err := new(queue.Slot).Acquire(t.Context(), q, nil, nil)
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
			acquire(t, q, "ann", 10*time.Second).Release(queue.Answered)
			if i == 1 && time.Since(begun) > 0 {
				t.Error("the burst was delayed")
			}
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("six calls took %s, want 2s", took)
		}
		if refusal := refused(t, q, "ann", time.Millisecond); refusal.RetryAfter != 500*time.Millisecond {
			t.Errorf("come back after %s, want 500ms", refusal.RetryAfter)
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
	first := acquire(t, q, "first", time.Minute)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 2 * burst {
		left := func() time.Duration { return time.Minute }
		if err := new(queue.Slot).Acquire(gone, q, caller("many"), left); err == nil {
			t.Fatal("a call got a slot that was taken")
		}
	}
	first.Release(queue.Unmeasured)
	for range burst - 1 {
		acquire(t, q, "first", 0).Release(queue.Unmeasured) // none of them has time to wait
	}
}
