//go:build store

package cluster_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// pause has a store hang until each of the replicas knows.
func pause(t *testing.T, store *clustertest.Store, replicas ...*cluster.Store) {
	t.Helper()
	store.Pause()
	for _, s := range replicas {
		// The store carries it out later.
		if _, _, err := s.Take("ann", []*config.Limit{{Rate: 0.01, Burst: 3, Block: "gateway"}}); !errors.Is(err, cluster.ErrAway) {
			t.Errorf("%v, want %v", err, cluster.ErrAway)
		}
	}
}

func TestDebts_ArePaidOnceTheStoreAnswers(t *testing.T) {
	store := clustertest.Start(t)
	a, b := replica(t, at(store)), replica(t, at(store))
	slow := &config.Limit{Rate: 0.01, Burst: 3, Block: "gateway"}
	pause(t, store, a, b)
	a.CountedHere("ann", []*config.Limit{slow})
	a.CountedHere("ann", []*config.Limit{slow})
	b.CountedHere("ann", []*config.Limit{slow, {Concurrency: 1}})
	store.Resume()
	var wait time.Duration
	upstreamtest.Eventually(t, "what both have counted alone is counted", func() bool {
		var err error
		_, wait, err = a.Take("ann", []*config.Limit{slow})
		return err == nil && wait > 0
	})
	if wait > 100*time.Second {
		t.Errorf("wait %v, want 100 s at most: what the store has carried out later is not counted twice", wait)
	}
	take(t, b, "bob", true, slow)
}

func TestDebts_HaveNobodyWaitWhoStayedWithinTheRate(t *testing.T) {
	store := clustertest.Start(t)
	a, b := replica(t, at(store)), replica(t, at(store))
	fast := []*config.Limit{{Rate: 20, Burst: 1, Block: "gateway"}}
	pause(t, store, a, b)
	for range 5 {
		a.CountedHere("ann", fast)
		b.CountedHere("ann", fast)
		time.Sleep(200 * time.Millisecond) // twice as long as two requests take at this rate
	}
	store.Resume()
	for _, s := range []*cluster.Store{a, b} {
		upstreamtest.Eventually(t, "the store is used again", func() bool {
			_, _, err := s.Take("bob", fast)
			return err == nil
		})
	}
	take(t, a, "ann", true, fast...)
}

func TestDebts_AreForgottenBeyondSomeSeconds(t *testing.T) {
	store := clustertest.Start(t)
	s := replica(t, at(store))
	limit := []*config.Limit{{Rate: 10, Burst: 10, Block: "gateway"}}
	pause(t, store, s)
	for range 10_000 {
		s.CountedHere("ann", limit)
	}
	store.Resume()
	var wait time.Duration
	upstreamtest.Eventually(t, "it is counted", func() bool {
		var err error
		_, wait, err = s.Take("ann", limit)
		return err == nil && wait > 0
	})
	if wait > 3200*time.Millisecond {
		t.Errorf("wait %v, want 3 s and for one request at most", wait)
	}
}

// A store that answers late again and again has replicas count alone again and again. The rate holds on the whole.
func TestDebts_HoldTheRateWhereTheStoreIsLate(t *testing.T) {
	store := clustertest.Start(t)
	limit := &config.Limit{Rate: 100, Burst: 10, Block: "gateway"}
	var (
		counted, alone atomic.Int64
		asking         sync.WaitGroup
	)
	began := time.Now()
	const lasting = 5 * time.Second
	for range 3 {
		s, local := replica(t, at(store)), rate.NewLimiter(rate.Limit(limit.Rate), limit.Burst)
		asking.Go(func() {
			for time.Since(began) < lasting {
				_, wait, err := s.Take("ann", []*config.Limit{limit})
				switch {
				case err == nil && wait == 0:
					counted.Add(1)
				case err != nil && local.Allow():
					s.CountedHere("ann", []*config.Limit{limit})
					alone.Add(1)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	for time.Since(began) < lasting {
		store.Pause()
		time.Sleep(100 * time.Millisecond)
		store.Resume()
		time.Sleep(200 * time.Millisecond)
	}
	asking.Wait()
	took := time.Since(began)
	total, most := float64(counted.Load()+alone.Load()), 100*took.Seconds()
	t.Logf("%.0f requests, %d of them counted by one replica alone, in %v: %.0f %%", total, alone.Load(), took, 100*total/most)
	if alone.Load() == 0 || total > 1.25*most { // each replica has a burst, and may have counted for a moment that is not paid yet
		t.Errorf("%.0f requests in %v, %d of them counted by one replica alone; want some, and %.0f", total, took, alone.Load(), most)
	}
}

// However many requests there are at a time, none waits longer for a store that hangs.
func TestTake_WaitsForAMomentWhereTheQueueIsFull(t *testing.T) {
	store := clustertest.Start(t)
	s := replica(t, at(store))
	limits := []*config.Limit{{Rate: 1e6, Burst: 1e6, Block: "gateway"}}
	store.Pause()
	defer store.Resume()
	var all sync.WaitGroup
	began := time.Now()
	for range 4000 {
		all.Go(func() {
			if _, _, err := s.Take("ann", limits); !errors.Is(err, cluster.ErrAway) {
				t.Errorf("%v, want %v", err, cluster.ErrAway)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("all had an answer after %v, want 50 ms", took)
	}
}
