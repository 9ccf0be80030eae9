package cluster_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

var discard = slog.New(slog.DiscardHandler) //nolint:gochecknoglobals // a constant

// replica returns a replica that uses a store, once that is here.
func replica(t testing.TB, store config.Store) *cluster.Replica {
	t.Helper()
	s := start(t, &config.Cluster{Store: store}, [32]byte{1}, discard)
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
	return s
}

func start(t testing.TB, cfg *config.Cluster, key [32]byte, logger *slog.Logger) *cluster.Replica {
	t.Helper()
	s := newReplica(t, cfg, key, logger)
	t.Cleanup(s.Start(t.Context()))
	return s
}

func newReplica(t testing.TB, cfg *config.Cluster, key [32]byte, logger *slog.Logger) *cluster.Replica {
	t.Helper()
	sealer, err := seal.New([][32]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	return cluster.New(&config.Config{Cluster: cfg}, sealer, logger)
}

func at(store *clustertest.Store) config.Store {
	return config.Store{Addresses: []string{strings.TrimPrefix(store.URL(), "redis://")}}
}

// take takes a request that must be counted, or must wait.
func take(t *testing.T, s *cluster.Replica, who string, counted bool, limits ...*config.Limit) (wait time.Duration) {
	t.Helper()
	wait, err := s.Limits.Acquire(who, limits)
	isLate := false // on a busy machine; the store may have counted all the same
	for deadline := time.Now().Add(10 * time.Second); errors.Is(err, cluster.ErrUnavailable) && time.Now().Before(deadline); isLate = true {
		wait, err = s.Limits.Acquire(who, limits)
	}
	if err != nil || (wait == 0) != counted && !isLate {
		t.Errorf("%s: wait %v, %v, want counted: %t", who, wait, err, counted)
	}
	return wait
}

func TestTake_CountsOverAllReplicas(t *testing.T) {
	store := clustertest.Start(t)
	a, b := replica(t, at(store)), replica(t, at(store))
	slow := &config.Limit{Rate: 0.01, Burst: 3, Block: "gateway"}
	take(t, a, "ann", true, slow)
	take(t, b, "ann", true, slow)
	take(t, a, "ann", true, slow)
	for _, s := range []*cluster.Replica{a, b} {
		if wait := take(t, s, "ann", false, slow); wait < 90*time.Second || wait > 100*time.Second {
			t.Errorf("wait %v, want about 100 s", wait)
		}
		take(t, s, "bob", true, slow) // each principal has its own
	}
	// Another block, or another value of the same one, is another limit.
	take(t, a, "ann", true, &config.Limit{Rate: 0.01, Burst: 3, Block: `team "eng"`})
	take(t, a, "ann", true, &config.Limit{Rate: 0.02, Burst: 3, Block: "gateway"})
	take(t, a, "ann", false, &config.Limit{Rate: 0.01, Burst: 3, Block: "gateway", Place: config.Place{Line: 7}})
}

func TestTake_HoldsTheRateAtTheEndsOfItsRange(t *testing.T) {
	s := replica(t, at(clustertest.Start(t)))
	for _, extreme := range []config.Limit{{Rate: 1e-6, Burst: 1<<31 - 1}, {Rate: 1e6, Burst: 1}, {Rate: 1e-6, Burst: 1}} {
		take(t, s, "ann", true, &extreme)
	}
	if wait := take(t, s, "ann", false, &config.Limit{Rate: 1e-6, Burst: 1}); wait < 277*time.Hour {
		t.Errorf("wait %v, want about 278 hours", wait)
	}
}

func TestTake_ShowsTheStoreNothingInClear(t *testing.T) {
	store := clustertest.Start(t)
	s := replica(t, at(store))
	take(t, s, "user:ann@example.com", true, &config.Limit{Rate: 1, Burst: 100, Concurrency: 1, Block: `team "payments"`})
	all := store.Command("KEYS", "*")
	for _, word := range []string{"ann", "user", "example", "payments", "team"} {
		if strings.Contains(all, word) {
			t.Errorf("keys show %q:\n%s", word, all)
		}
	}
	upstreamtest.Equal(t, 2, strings.Count(all, "promptweir:"), "keys in\n%s", all)
	// Other cursor keys are another gateway.
	other := start(t, &config.Cluster{Store: at(store)}, [32]byte{2}, discard)
	upstreamtest.Eventually(t, "the store is here", func() bool { return other.State().Connected })
	take(t, other, "user:ann@example.com", true, &config.Limit{Rate: 1, Burst: 100, Concurrency: 1, Block: `team "payments"`})
}

func TestStore_IsAwayAndComesBack(t *testing.T) {
	store := clustertest.Start(t)
	var log upstreamtest.Log
	s := start(t, &config.Cluster{Store: at(store)}, [32]byte{1}, slog.New(slog.NewTextHandler(&log, nil)))
	limit := &config.Limit{Rate: 1000, Burst: 1000, Block: "gateway"}
	here := func() {
		t.Helper()
		upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
		take(t, s, "ann", true, limit)
	}
	here()
	outages := 0
	for name, outage := range map[string]struct{ begin, end func() }{
		"killed": {store.Kill, store.Restart},
		"hung":   {store.Pause, store.Resume},
	} {
		outage.begin()
		// The first wait for 50 ms, all together; the others not at all.
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() {
				began := time.Now()
				_, err := s.Limits.Acquire("ann", []*config.Limit{limit})
				if took := time.Since(began); !errors.Is(err, cluster.ErrUnavailable) || took > time.Second {
					t.Errorf("%s: %v after %v, want %v within 50 ms", name, err, took, cluster.ErrUnavailable)
				}
			})
		}
		wait.Wait()
		upstreamtest.Eventually(t, "the store is away", func() bool { return !s.State().Connected })
		if state := s.State(); state.Err == nil {
			t.Errorf("%s: %+v, want an error", name, state)
		}
		began := time.Now()
		for range 1000 {
			if _, err := s.Limits.Acquire("ann", []*config.Limit{limit}); !errors.Is(err, cluster.ErrUnavailable) {
				t.Errorf("%s: %v, want %v", name, err, cluster.ErrUnavailable)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: 1000 requests waited for %v, want not at all", name, took)
		}
		outage.end()
		here()
		outages++
		if away, here := log.Count(`msg="store unavailable`), log.Count(`msg="store in use`); away != outages || here != outages+1 {
			t.Errorf("%s: logged %d times as away, %d times as in use:\n%s", name, away, here, log.String())
		}
	}
}

func TestStore_IsAwayUntilItIsThere(t *testing.T) {
	store := clustertest.StartServer(t, "--requirepass", "correct-password")
	var log upstreamtest.Log
	wrong := at(store)
	wrong.Password = "wrong-password"
	s := start(t, &config.Cluster{Store: wrong}, [32]byte{1}, slog.New(slog.NewTextHandler(&log, nil)))
	upstreamtest.Eventually(t, "the store refuses", func() bool { return s.State().Err != nil })
	if _, err := s.Limits.Acquire("ann", []*config.Limit{{Rate: 1, Burst: 1}}); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("%v, want %v", err, cluster.ErrUnavailable)
	}
	if got := fmt.Sprint(log.String(), s.State().Err); !strings.Contains(got, "WRONGPASS") || strings.Contains(got, "wrong-password") {
		t.Errorf("log %s, want WRONGPASS without the password", got)
	}
	right := at(store)
	right.Password = "correct-password"
	take(t, replica(t, right), "ann", true, &config.Limit{Rate: 1, Burst: 1})
}

func keys(store *clustertest.Store) (keys []string) {
	for line := range strings.SplitSeq(store.Command("KEYS", "*"), "\r\n") {
		if strings.HasPrefix(line, "promptweir:") {
			keys = append(keys, line)
		}
	}
	return keys
}

func TestTake_CountsAgainstAllLimitsOrNone(t *testing.T) {
	s := replica(t, at(clustertest.Start(t)))
	wide, narrow := &config.Limit{Rate: 0.01, Burst: 3, Block: "a"}, &config.Limit{Rate: 0.01, Burst: 1, Block: "b"}
	take(t, s, "ann", true, wide, narrow)
	for range 5 {
		take(t, s, "ann", false, wide, narrow)
		take(t, s, "ann", false, narrow, wide)
	}
	take(t, s, "ann", true, wide)
	take(t, s, "ann", true, wide)
	take(t, s, "ann", false, wide)
}

// A time written by a clock that was minutes ahead does not block requests for minutes.
func TestTake_OutlivesAClockThatWasAhead(t *testing.T) {
	const ahead = 5 * time.Minute
	store := clustertest.Start(t)
	s, rated := replica(t, at(store)), &config.Limit{Rate: 2, Burst: 2, Block: "gateway"}
	take(t, s, "ann", true, rated)
	for _, key := range keys(store) {
		if !strings.Contains(key, "probe") {
			store.Command("SET", key, strconv.FormatInt(time.Now().Add(ahead).UnixMicro(), 10))
		}
	}
	wait := take(t, s, "ann", false, rated)
	if wait > 500*time.Millisecond {
		t.Fatalf("wait %v, want that of one request at most", wait)
	}
	time.Sleep(wait)
	take(t, s, "ann", true, rated)
}
