//go:build store

package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// rest has a watch attend, as often as it is told to, until it need not for minutes.
func rest(t *testing.T, w *cluster.Watch) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		turn, err := w.Attend(t.Context(), false)
		if err == nil && turn.Next > time.Minute {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("turn %+v, %v, want one that need not be looked at for minutes", turn, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	select {
	case <-w.Woken(): // by what was before
	default:
	}
}

// calm waits until nothing wakes a watch any more that was woken with all others.
func calm(t *testing.T, w *cluster.Watch) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		select {
		case <-w.Woken():
		case <-time.After(6 * time.Second): // longer than that is spread over
			return
		}
	}
	t.Error("woken without end")
}

// wantWoken waits until a watch is woken.
func wantWoken(t *testing.T, w *cluster.Watch, within time.Duration, by string) {
	t.Helper()
	began := time.Now()
	select {
	case <-w.Woken():
		t.Logf("woken by %s after %v", by, time.Since(began))
	case <-time.After(within):
		t.Errorf("not woken by %s within %v", by, within)
	}
}

// A watch that follows attends every five minutes or so, and is woken by all that it has to know, also where no message arrives.
func TestLook_WakesWhoeverFollows(t *testing.T) {
	t.Parallel() // it waits
	store := clustertest.Start(t)
	store.Command("ACL", "SETUSER", "default", "-subscribe") // as if each message were lost
	one, two := watching(t, store, 1), watching(t, store, 1)
	holder, follower, third := join(t, one, "server"), join(t, two, "server"), join(t, two, "another server")
	ctx, die := context.WithCancel(context.Background())
	defer die()
	number := attend(t, holder, true).Number
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for ctx.Err() == nil {
			_, _ = holder.Attend(ctx, true) // again, if it fails
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
	hold(t, join(t, one, "another server"))
	calm(t, follower)
	rest(t, follower)
	rest(t, third)
	put(t, holder, number, true, "1")
	wantWoken(t, follower, 10*time.Second, "a list")
	wantList(t, follower, "1")
	rest(t, follower)
	die()
	<-renewed
	began := time.Now()
	wantWoken(t, follower, 20*time.Second, "the end of a lease that nobody renews")
	for {
		turn, err := follower.Attend(t.Context(), true)
		if err == nil && turn.Held {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("the lease is not taken")
		}
		time.Sleep(min(turn.Next, 100*time.Millisecond))
	}
	t.Logf("the lease was taken %v after it was renewed last", time.Since(began))
	select {
	case <-third.Woken():
		t.Error("woken by what happens to another server")
	default:
	}

	// What the store has forgotten wakes all.
	rest(t, third)
	store.Command("FLUSHALL")
	wantWoken(t, third, 20*time.Second, "a store that is empty")
	calm(t, third)
	rest(t, third)
	store.Kill()
	wantWoken(t, third, 20*time.Second, "a store that is away")
}

// However many leases a replica holds, all are in the index, so that the others need not attend.
func TestLook_HoldsManyLeases(t *testing.T) {
	t.Parallel() // it waits
	const n = 2500
	store := clustertest.Start(t)
	s := watching(t, store, 1)
	var all []*cluster.Watch
	for i := range n {
		all = append(all, s.Join([]byte{byte(i), byte(i >> 8)}))
	}
	t.Cleanup(func() {
		store.Kill() // rather than release each
		for _, w := range all {
			w.Leave()
		}
	})
	attend(t, all[0], true)
	var index string
	upstreamtest.Eventually(t, "there is an index", func() bool {
		for _, key := range keys(store) {
			if name, is := strings.CutSuffix(key, ":held"); is {
				index = name
			}
		}
		return index != ""
	})
	count := func(set string) string { return store.Command("ZCARD", index+":"+set) }
	upstreamtest.Eventually(t, "all leases are in the index", func() bool {
		for _, w := range all {
			attend(t, w, true)
		}
		return count("held") == ":2500\r\n"
	})
	upstreamtest.Eventually(t, "all leases that have ended are noted, and no longer there", func() bool {
		return count("held") == ":0\r\n" && count("changed") == ":2500\r\n"
	})
}
