package cluster_test

import (
	"context"
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
	s, err := cluster.New(&config.Config{Cluster: cfg}, sealer, logger)
	if err != nil {
		t.Fatal(err)
	}
	return s
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

// The rate, in the middle of the range and at its ends, is that of the store's clock.
func TestTake_HoldsTheRate(t *testing.T) {
	store := clustertest.Start(t)
	replicas := []*cluster.Replica{replica(t, at(store)), replica(t, at(store)), replica(t, at(store))}
	limit := &config.Limit{Rate: 200, Burst: 10, Block: "gateway"}
	const lasting = time.Second
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		// The limit has a request every 5 ms. Idle is the time without an answer beyond that: a busy machine asks for less. What is not
		// answered may have been counted.
		counted, unanswered int
		last, idle          time.Duration
	)
	began := time.Now()
	for _, s := range replicas {
		wait.Go(func() {
			for time.Since(began) < lasting {
				wait, err := s.Limits.Acquire("ann", []*config.Limit{limit})
				mu.Lock()
				switch now := time.Since(began); {
				case err != nil:
					unanswered++
				case wait == 0:
					counted++
					fallthrough
				default:
					idle += max(0, now-last-5*time.Millisecond)
					last = now
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	took := time.Since(began)
	most, least := 10+200*took.Seconds(), (10+200*(last-idle).Seconds())/2-float64(unanswered)
	if float64(counted) > most+2 || float64(counted) < least {
		t.Errorf("%d requests in %v, want %.0f to %.0f", counted, took, least, most)
	}
	for _, extreme := range []config.Limit{{Rate: 1e-6, Burst: 1<<31 - 1}, {Rate: 1e6, Burst: 1}, {Rate: 1e-6, Burst: 1}} {
		take(t, replicas[0], "ann", true, &extreme)
	}
	if wait := take(t, replicas[0], "ann", false, &config.Limit{Rate: 1e-6, Burst: 1}); wait < 277*time.Hour {
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
	if n := strings.Count(all, "promptweir:"); n != 2 {
		t.Errorf("%d keys, want 2:\n%s", n, all)
	}
	// Other cursor keys are another gateway.
	other := start(t, &config.Cluster{Store: at(store)}, [32]byte{2}, discard)
	upstreamtest.Eventually(t, "the store is here", func() bool { return other.State().Connected })
	take(t, other, "user:ann@example.com", true, &config.Limit{Rate: 1, Burst: 100, Concurrency: 1, Block: `team "payments"`})
}

// record is a handler that keeps messages.
type record struct {
	slog.Handler

	mu       sync.Mutex
	messages []string
}

func (r *record) Enabled(context.Context, slog.Level) bool { return true }

func (r *record) Handle(_ context.Context, one slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := one.Message
	one.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	r.messages = append(r.messages, text)
	return nil
}

func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.messages
	r.messages = nil
	return taken
}

func TestStore_IsAwayAndComesBack(t *testing.T) {
	store := clustertest.Start(t)
	log := &record{Handler: slog.DiscardHandler}
	s := start(t, &config.Cluster{Store: at(store)}, [32]byte{1}, slog.New(log))
	limit := &config.Limit{Rate: 1000, Burst: 1000, Block: "gateway"}
	here := func() {
		t.Helper()
		upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
		take(t, s, "ann", true, limit)
	}
	here()
	log.take()
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
		if got := log.take(); len(got) != 2 || !strings.HasPrefix(got[0], "store unavailable") || !strings.HasPrefix(got[1], "store in use") {
			t.Errorf("%s: log %q, want away and in use", name, got)
		}
	}
}

// An operation that has to make its connection first waits longer than it may for a store that hangs.
func TestStore_KeepsOneConnection(t *testing.T) {
	store := clustertest.StartServer(t)
	s := replica(t, at(store))
	for range 200 {
		take(t, s, "ann", true, &config.Limit{Rate: 1000, Burst: 1000, Block: "gateway"})
	}
	clients := store.Command("CLIENT", "LIST")
	if n := strings.Count(clients, "name=promptweir"); n != 1 {
		t.Errorf("%d connections, want 1:\n%s", n, clients)
	}
}

func TestStore_IsAwayUntilItIsThere(t *testing.T) {
	store := clustertest.StartServer(t, "--requirepass", "correct-password")
	log := &record{Handler: slog.DiscardHandler}
	wrong := at(store)
	wrong.Password = "wrong-password"
	s := start(t, &config.Cluster{Store: wrong}, [32]byte{1}, slog.New(log))
	upstreamtest.Eventually(t, "the store refuses", func() bool { return s.State().Err != nil })
	if _, err := s.Limits.Acquire("ann", []*config.Limit{{Rate: 1, Burst: 1}}); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("%v, want %v", err, cluster.ErrUnavailable)
	}
	if got := fmt.Sprint(log.take(), s.State().Err); !strings.Contains(got, "WRONGPASS") || strings.Contains(got, "wrong-password") {
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
			if _, err := s.Limits.Acquire("ann", limits); !errors.Is(err, cluster.ErrUnavailable) {
				t.Errorf("%v, want %v", err, cluster.ErrUnavailable)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 20*time.Second { // they would wait for ever, one after another
		t.Errorf("all had an answer after %v, want 50 ms on an idle machine", took)
	}
}

// What was written by a clock that was ahead by minutes holds nobody up for minutes.
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

// What a limit costs that is counted at a store on the same machine: the time of one request alone, and of many at once.
func BenchmarkAcquire(b *testing.B) {
	store := clustertest.Start(b)
	limits := []*config.Limit{{Rate: 1e9, Burst: 1e9, Block: "gateway"}}
	s := replica(b, at(store))
	take := func() {
		if wait, err := s.Limits.Acquire("ann", limits); wait > 0 || err != nil {
			b.Fatalf("%v, %v", wait, err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			take()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				take()
			}
		})
	})
}
