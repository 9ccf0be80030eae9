//go:build store

package cluster_test

import (
	"errors"
	"slices"
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
func pause(t *testing.T, store *clustertest.Store, limit *config.Limit, replicas ...*cluster.Store) {
	t.Helper()
	store.Pause()
	for _, s := range replicas {
		if _, _, err := s.Take("eve", []*config.Limit{limit}); !errors.Is(err, cluster.ErrAway) { // the store carries it out later
			t.Errorf("%v, want %v", err, cluster.ErrAway)
		}
	}
}

// used waits until replicas use the store again.
func used(t *testing.T, replicas ...*cluster.Store) {
	t.Helper()
	for _, s := range replicas {
		upstreamtest.Eventually(t, "the store is used", func() bool {
			_, _, err := s.Take("bob", []*config.Limit{{Rate: 1e6, Burst: 1e6}})
			return err == nil
		})
	}
}

// once runs a few times what a busy machine may spoil: a debt that is not paid within a second is forgotten. It fails if it is so each time.
func once(t *testing.T, what string, holds func(who string) bool) {
	t.Helper()
	if !slices.ContainsFunc([]string{"ann", "bea", "cyd", "dot", "eli"}, holds) {
		t.Errorf("in none of five attempts: %s", what)
	}
}

func TestDebts_ArePaidOnceTheStoreAnswers(t *testing.T) {
	store := clustertest.Start(t)
	a, b := replica(t, at(store)), replica(t, at(store))
	slow := &config.Limit{Rate: 0.01, Burst: 3, Block: "gateway"}
	once(t, "what two replicas have counted alone is counted", func(who string) bool {
		pause(t, store, slow, a, b)
		a.CountedHere(who, []*config.Limit{slow})
		a.CountedHere(who, []*config.Limit{slow})
		b.CountedHere(who, []*config.Limit{slow, {Concurrency: 1}})
		store.Resume()
		used(t, a, b)
		_, wait, err := a.Take(who, []*config.Limit{slow})
		if wait > 100*time.Second {
			t.Errorf("wait %v, want 100 s at most", wait)
		}
		return err == nil && wait > 90*time.Second
	})
	take(t, b, "zoe", true, slow)
}

// What the store carries out late was counted by the replica, and is not counted twice.
func TestDebts_AreNotPaidTwice(t *testing.T) {
	store := clustertest.Start(t)
	s, slow := replica(t, at(store)), &config.Limit{Rate: 0.01, Burst: 2, Block: "gateway"}
	once(t, "one of two is left", func(who string) bool {
		store.Pause()
		if _, _, err := s.Take(who, []*config.Limit{slow}); !errors.Is(err, cluster.ErrAway) {
			t.Errorf("%v, want %v", err, cluster.ErrAway)
		}
		s.CountedHere(who, []*config.Limit{slow})
		store.Resume()
		used(t, s)
		_, first, err := s.Take(who, []*config.Limit{slow})
		_, second, errSecond := s.Take(who, []*config.Limit{slow})
		return errors.Join(err, errSecond) == nil && first == 0 && second > 0
	})
}

func TestDebts_HaveNobodyWaitWhoStayedWithinTheRate(t *testing.T) {
	store := clustertest.Start(t)
	a, b := replica(t, at(store)), replica(t, at(store))
	fast := []*config.Limit{{Rate: 20, Burst: 1, Block: "gateway"}}
	pause(t, store, fast[0], a, b)
	for range 5 {
		a.CountedHere("ann", fast)
		b.CountedHere("ann", fast)
		time.Sleep(200 * time.Millisecond) // twice as long as two requests take at this rate
	}
	store.Resume()
	used(t, a, b)
	take(t, a, "ann", true, fast...)
}

func TestDebts_AreForgottenBeyondSomeSeconds(t *testing.T) {
	store := clustertest.Start(t)
	s := replica(t, at(store))
	limit := []*config.Limit{{Rate: 10, Burst: 10, Block: "gateway"}}
	once(t, "what was counted alone is counted", func(who string) bool {
		pause(t, store, limit[0], s)
		for range 10_000 {
			s.CountedHere(who, limit)
		}
		store.Resume()
		used(t, s)
		_, wait, err := s.Take(who, limit)
		if wait > 3200*time.Millisecond {
			t.Errorf("wait %v, want 3 s and for one request at most", wait)
		}
		return err == nil && wait > time.Second
	})
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
	replicas := []*cluster.Store{replica(t, at(store)), replica(t, at(store)), replica(t, at(store))}
	for _, s := range replicas {
		local := rate.NewLimiter(rate.Limit(limit.Rate), limit.Burst)
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
	used(t, replicas...)
	_, ahead, _ := replicas[0].Take("ann", []*config.Limit{limit}) // nothing if it does not have to wait
	total, most := float64(counted.Load()+alone.Load()), 100*(took+ahead).Seconds()
	t.Logf("%.0f requests, %d of them counted by one replica alone, in %v, %v ahead: %.0f %%", total, alone.Load(), took, ahead, 100*total/most)
	if alone.Load() == 0 || total > 1.5*most { // what a busy machine does not pay in time is forgotten
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
	for range 2500 {
		all.Go(func() {
			if _, _, err := s.Take("ann", limits); !errors.Is(err, cluster.ErrAway) {
				t.Errorf("%v, want %v", err, cluster.ErrAway)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("all had an answer after %v, want 50 ms", took)
	}
}
