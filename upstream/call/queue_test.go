package call

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

type caller string

func (c caller) Key() string { return string(c) }

// acquire acquires a slot for a call, and fails the test without one.
func acquire(t *testing.T, q *queue, who caller) *slot {
	t.Helper()
	s := new(slot)
	if err := s.acquire(t.Context(), q, who); err != nil {
		t.Errorf("%s: Acquire() = %v", who, err)
	}
	return s
}

// Of one caller's calls, the oldest has the least time left for its answer: the newest goes first.
func TestSlot_CallersTakeTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := newQueue(1, time.Hour, 0)
		first := acquire(t, q, "first")
		var (
			order   []string // of one slot, so that it needs no lock
			waiting sync.WaitGroup
		)
		for _, call := range []string{"ann 1", "ann 2", "ann 3", "bob 1", "cid 1", "bob 2"} {
			waiting.Go(func() {
				who, _, _ := strings.Cut(call, " ")
				s := acquire(t, q, caller(who))
				order = append(order, call)
				time.Sleep(time.Second)
				s.release(outcomeOf(nil))
			})
			synctest.Wait()
		}
		first.release(outcomeOf(nil))
		waiting.Wait()
		if want := []string{"ann 3", "bob 2", "cid 1", "ann 2", "bob 1", "ann 1"}; !slices.Equal(order, want) {
			t.Errorf("the slot went to %s, want %s", order, want)
		}
	})
}

func TestSlot_ACallsWaitIsHalfOfTheTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := newQueue(1, 10*time.Second, 0)
		ann, begun := acquire(t, q, "ann"), time.Now()
		err := new(slot).acquire(t.Context(), q, caller("bob"))
		if waited := time.Since(begun); !errors.Is(err, errConcurrency) || waited != 5*time.Second {
			t.Errorf("after %s: %v, want %v after 5s", waited, err, errConcurrency)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := new(slot).acquire(ctx, q, caller("bob")); err == nil {
			t.Error("a caller that has gone got a slot")
		}
		time.AfterFunc(5*time.Second-1, func() { ann.release(outcomeOf(nil)) })
		acquire(t, q, "bob").release(outcomeOf(nil))
	})
}

func TestSlot_OthersHaveItWhileItIsLent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := newQueue(1, time.Hour, 0)
		ann := acquire(t, q, "ann")
		once, again := ann.lend(), ann.lend() // two questions at once
		bob := acquire(t, q, "bob")
		once()
		again() // goes on without a slot
		got := make(chan *slot)
		go func() { got <- acquire(t, q, "cid") }()
		synctest.Wait()
		select {
		case <-got:
			t.Error("a slot that bob has was given away")
		default:
		}
		ann.release(outcomeOf(nil))
		bob.release(outcomeOf(nil))
		cid := <-got
		idle := q.close()
		select {
		case <-idle:
			t.Error("idle with a call in flight")
		default:
		}
		cid.release(outcomeOf(nil))
		<-idle
	})
}

// The longest line loses its oldest call, so that a flood delays its own caller only.
func TestSlot_AFullQueueRefusesTheLongestLine(t *testing.T) {
	for _, flooding := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			q := newQueue(1, time.Hour, 0)
			first, refused := acquire(t, q, "first"), 0
			take := func(who caller) error {
				s := new(slot)
				err := s.acquire(t.Context(), q, who)
				if err == nil {
					s.release(outcomeOf(context.Canceled))
				}
				return err
			}
			var waiting sync.WaitGroup
			for i := range 1024 {
				who := caller(strconv.Itoa(i))
				if flooding {
					who = "ann"
				}
				waiting.Go(func() {
					if errors.Is(take(who), errQueueFull) {
						refused++
					}
				})
			}
			synctest.Wait()
			late := make(chan error)
			go func() { late <- take("late") }()
			synctest.Wait()
			first.release(outcomeOf(context.Canceled))
			// Without a flood nobody who waits has more calls than the next one.
			if err := <-late; (err == nil) != flooding {
				t.Errorf("flooding: %t: the next call: %v", flooding, err)
			}
			if waiting.Wait(); (refused == 1) != flooding {
				t.Errorf("flooding: %t: %d refused", flooding, refused)
			}
		})
	}
}

func TestQueue_CloseRefusesWhoWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := newQueue(1, time.Hour, 0)
		ann := acquire(t, q, "ann")
		ended := make(chan error)
		go func() {
			ended <- new(slot).acquire(t.Context(), q, caller("bob"))
		}()
		synctest.Wait()
		idle := q.close()
		if err := <-ended; !errors.Is(err, ErrRetired) {
			t.Errorf("who waited got %v", err)
		}
		err := new(slot).acquire(t.Context(), q, nil)
		if !errors.Is(err, ErrRetired) {
			t.Errorf("who came later got %v", err)
		}
		ann.release(outcomeOf(nil))
		<-idle
	})
}

func TestQueue_RateDelaysAndRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := newQueue(100, 10*time.Second, 2)
		begun := time.Now()
		for i := range 6 { // a burst of two, then one in half a second
			acquire(t, q, "ann").release(outcomeOf(nil))
			if i == 1 && time.Since(begun) > 0 {
				t.Error("the burst was delayed")
			}
		}
		upstreamtest.Equal(t, 2*time.Second, time.Since(begun), "duration of six calls")
		within := func(left time.Duration) bool {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			return q.awaitRate(ctx)
		}
		if within(time.Millisecond) || !within(time.Second) {
			t.Error("a retry has to wait for half a second, no more and no less")
		}
		slow := newQueue(100, time.Second, 1)
		acquire(t, slow, "ann")
		if err := new(slot).acquire(t.Context(), slow, caller("ann")); !errors.Is(err, errRate) {
			t.Errorf("a call that would wait for longer than half of its timeout: %v, want %v", err, errRate)
		}
	})
}

func TestDeadline_StandsStillWhileAPersonIsAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var outer, d deadline
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
		var over deadline // nothing has asked for its channel
		over.Start(t.Context(), time.Now(), time.Second, nil)
		defer over.Stop()
		time.Sleep(time.Second)
		resume := over.Pause()
		during := over.Err()
		resume()
		if after := over.Err(); !errors.Is(during, context.DeadlineExceeded) || !errors.Is(after, context.DeadlineExceeded) {
			t.Errorf("a pause has brought back a deadline that was over: %v, %v", during, after)
		}
	})
}
