//go:build store

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
func replica(t testing.TB, store config.Store) *cluster.Store {
	t.Helper()
	s := start(t, &config.Cluster{Store: store}, [32]byte{1}, discard)
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Here })
	return s
}

func start(t testing.TB, cfg *config.Cluster, key [32]byte, logger *slog.Logger) *cluster.Store {
	t.Helper()
	sealer, err := seal.New([][32]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	s, err := cluster.New(cfg, sealer, logger)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

func at(store *clustertest.Store) config.Store {
	return config.Store{Addresses: []string{strings.TrimPrefix(store.URL(), "redis://")}}
}

// take takes a request that must be counted, or must wait.
func take(t *testing.T, s *cluster.Store, who string, counted bool, limits ...*config.Limit) (release func(), wait time.Duration) {
	t.Helper()
	release, wait, err := s.Take(who, limits)
	for deadline := time.Now().Add(10 * time.Second); errors.Is(err, cluster.ErrAway) && time.Now().Before(deadline); { // on a busy machine
		release, wait, err = s.Take(who, limits)
	}
	if err != nil || (wait == 0) != counted {
		t.Errorf("%s: wait %v, %v, want counted: %t", who, wait, err, counted)
	}
	return release, wait
}

// takeOnce waits until a request of ann is counted by the store, which it is not while that seems to be away.
func takeOnce(t *testing.T, what string, s *cluster.Store, limit *config.Limit) (release func()) {
	t.Helper()
	upstreamtest.Eventually(t, what, func() bool {
		var wait time.Duration
		var err error
		release, wait, err = s.Take("ann", []*config.Limit{limit})
		return err == nil && wait == 0
	})
	return release
}

func TestTake_CountsOverAllReplicas(t *testing.T) {
	store := clustertest.Start(t)
	a, b := replica(t, at(store)), replica(t, at(store))
	slow := &config.Limit{Rate: 0.01, Burst: 3, Block: "gateway"}
	take(t, a, "ann", true, slow)
	take(t, b, "ann", true, slow)
	take(t, a, "ann", true, slow)
	for _, s := range []*cluster.Store{a, b} {
		if _, wait := take(t, s, "ann", false, slow); wait < 90*time.Second || wait > 100*time.Second {
			t.Errorf("wait %v, want about 100 s", wait)
		}
		take(t, s, "bob", true, slow) // each principal has its own
	}
	// Another block, or another value of the same one, is another limit.
	take(t, a, "ann", true, &config.Limit{Rate: 0.01, Burst: 3, Block: `team "eng"`})
	take(t, a, "ann", true, &config.Limit{Rate: 0.02, Burst: 3, Block: "gateway"})
	take(t, a, "ann", false, &config.Limit{Rate: 0.01, Burst: 3, Block: "gateway", Place: config.Place{Line: 7}})
}

func TestTake_BoundsConcurrencyOverAllReplicas(t *testing.T) {
	store := clustertest.Start(t)
	a, b := replica(t, at(store)), replica(t, at(store))
	two := &config.Limit{Concurrency: 2, Block: "gateway"}
	first, _ := take(t, a, "ann", true, two)
	second, _ := take(t, b, "ann", true, two)
	take(t, a, "ann", false, two)
	if _, wait := take(t, b, "ann", false, two); wait != time.Second {
		t.Errorf("wait %v, want 1 s", wait)
	}
	take(t, b, "bob", true, two)
	first()
	first = takeOnce(t, "a place is free", b, two)
	take(t, a, "ann", false, two)
	first()
	second()
	upstreamtest.Eventually(t, "nothing of ann is left", func() bool { return store.Command("DBSIZE") == ":2\r\n" }) // bob's, and the probe
}

func TestTake_CountsAgainstAllLimitsOrNone(t *testing.T) {
	s := replica(t, at(clustertest.Start(t)))
	slow, narrow := &config.Limit{Rate: 0.01, Burst: 2, Block: "a"}, &config.Limit{Concurrency: 1, Block: "b"}
	release, _ := take(t, s, "ann", true, narrow)
	for range 5 {
		take(t, s, "ann", false, slow, narrow)
	}
	release()
	release = takeOnce(t, "the place is free", s, narrow)
	take(t, s, "ann", true, slow)
	take(t, s, "ann", true, slow)
	release()
	take(t, s, "ann", false, slow)
	for range 3 {
		take(t, s, "ann", false, narrow, slow)
	}
	takeOnce(t, "the place was not taken", s, narrow)()
}

// The rate, in the middle of the range and at its ends, is that of the store's clock.
func TestTake_HoldsTheRate(t *testing.T) {
	store := clustertest.Start(t)
	replicas := []*cluster.Store{replica(t, at(store)), replica(t, at(store)), replica(t, at(store))}
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
				_, wait, err := s.Take("ann", []*config.Limit{limit})
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
	if _, wait := take(t, replicas[0], "ann", false, &config.Limit{Rate: 1e-6, Burst: 1}); wait < 277*time.Hour {
		t.Errorf("wait %v, want about 278 hours", wait)
	}
}

// A replica that dies gives its places back, and one that lives keeps them for as long as it needs them.
func TestLeases_EndWithTheirReplica(t *testing.T) {
	t.Parallel() // it waits for 15 seconds
	store := clustertest.Start(t)
	one := &config.Limit{Concurrency: 1, Block: "gateway"}
	sealer, err := seal.New([][32]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	dying, err := cluster.New(&config.Cluster{Store: at(store)}, sealer, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, die := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- dying.Run(ctx) }()
	upstreamtest.Eventually(t, "the store is here", func() bool { return dying.State().Here })
	take(t, dying, "ann", true, one)
	died := time.Now()
	die()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	living := replica(t, at(store))
	take(t, living, "bob", true, one)
	take(t, living, "ann", false, one)
	takeOnce(t, "the place of the dead replica is free", living, one)
	if took := time.Since(died); took > 16*time.Second {
		t.Errorf("the place was free after %v, want 15 s", took)
	}
	take(t, living, "bob", false, one)
}

// What was written by a clock that was ahead by minutes holds nobody up for minutes once the clock is set back, or a server with another one has
// taken the store's place.
func TestTake_OutlivesAClockThatWasAhead(t *testing.T) {
	t.Parallel() // it waits for 15 seconds
	const ahead = 5 * time.Minute
	store := clustertest.Start(t)
	s := replica(t, at(store))
	rated, narrow := &config.Limit{Rate: 0.1, Burst: 2, Block: "gateway"}, &config.Limit{Concurrency: 1, Block: "team"}
	take(t, s, "ann", true, rated)
	take(t, s, "ann", true, narrow) // it is never given back, and renewed from the fifth second on
	rate, places := keyOf(t, store, ":rate"), keyOf(t, store, ":places")
	late := strconv.FormatInt(time.Now().Add(ahead).UnixMicro(), 10)
	store.Command("SET", rate, late)
	store.Command("ZREMRANGEBYRANK", places, "0", "-1")
	store.Command("ZADD", places, late, "of-a-replica-that-died.1")
	for _, key := range []string{rate, places} {
		store.Command("PEXPIRE", key, strconv.FormatInt(ahead.Milliseconds(), 10))
	}
	if _, wait := take(t, s, "ann", false, rated); wait > 13*time.Second {
		t.Errorf("wait %v, want that of one request and of a debt at most", wait)
	}
	takeOnce(t, "the rate is that of before", s, rated)
	began := time.Now()
	upstreamtest.Eventually(t, "the place of a replica that died is free", func() bool {
		_, _, _ = s.Take("ann", []*config.Limit{narrow})
		return !strings.Contains(store.Command("ZRANGE", places, "0", "-1"), "of-a-replica-that-died")
	})
	t.Logf("the place was free after %v", time.Since(began))
}

// What ends while the store is away, or is taken by an operation that was given up, does not keep its place for the time of a lease.
func TestLeases_AreGivenBackLater(t *testing.T) {
	store := clustertest.Start(t)
	s, one := replica(t, at(store)), &config.Limit{Concurrency: 1, Block: "gateway"}
	want := func(who string) {
		t.Helper()
		began := time.Now()
		upstreamtest.Eventually(t, "the place is free", func() bool {
			release, wait, err := s.Take(who, []*config.Limit{one})
			if err == nil && wait == 0 {
				release()
				return true
			}
			return false
		})
		if took := time.Since(began); took > 4*time.Second { // renewInterval is later
			t.Errorf("the place of %s was free after %v, want at once", who, took)
		}
	}
	release, _ := take(t, s, "ann", true, one)
	store.Pause()
	if _, _, err := s.Take("bob", []*config.Limit{one}); !errors.Is(err, cluster.ErrAway) { // the store carries it out later
		t.Errorf("%v, want %v", err, cluster.ErrAway)
	}
	release()
	store.Resume()
	want("bob")
	want("ann")
}

func TestTake_ShowsTheStoreNothingInClear(t *testing.T) {
	store := clustertest.Start(t)
	s := replica(t, at(store))
	take(t, s, "user:ann@example.com", true, &config.Limit{Rate: 1, Burst: 1, Concurrency: 1, Block: `team "payments"`})
	all := store.Command("KEYS", "*")
	for _, word := range []string{"ann", "user", "example", "payments", "team"} {
		if strings.Contains(all, word) {
			t.Errorf("keys show %q:\n%s", word, all)
		}
	}
	if n := strings.Count(all, "promptweir:"); n != 3 {
		t.Errorf("%d keys, want 3:\n%s", n, all)
	}
	// Other cursor keys are another gateway.
	other := start(t, &config.Cluster{Store: at(store)}, [32]byte{2}, discard)
	upstreamtest.Eventually(t, "the store is here", func() bool { return other.State().Here })
	take(t, other, "user:ann@example.com", true, &config.Limit{Rate: 1, Burst: 1, Concurrency: 1, Block: `team "payments"`})
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
		upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Here })
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
				_, _, err := s.Take("ann", []*config.Limit{limit})
				if took := time.Since(began); !errors.Is(err, cluster.ErrAway) || took > time.Second {
					t.Errorf("%s: %v after %v, want %v within 50 ms", name, err, took, cluster.ErrAway)
				}
			})
		}
		wait.Wait()
		upstreamtest.Eventually(t, "the store is away", func() bool { return !s.State().Here })
		if state := s.State(); state.Err == nil {
			t.Errorf("%s: %+v, want an error", name, state)
		}
		began := time.Now()
		for range 1000 {
			if _, _, err := s.Take("ann", []*config.Limit{limit}); !errors.Is(err, cluster.ErrAway) {
				t.Errorf("%s: %v, want %v", name, err, cluster.ErrAway)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: 1000 requests waited for %v, want not at all", name, took)
		}
		outage.end()
		here()
		if got := log.take(); len(got) != 2 || !strings.HasPrefix(got[0], "store away") || !strings.HasPrefix(got[1], "store in use") {
			t.Errorf("%s: log %q, want away and in use", name, got)
		}
	}
}

// An operation that has to make its connection first waits longer than it may for a store that hangs.
func TestStore_KeepsOneConnection(t *testing.T) {
	store := clustertest.Start(t)
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
	store := clustertest.Start(t, "--requirepass", "correct-password")
	log := &record{Handler: slog.DiscardHandler}
	wrong := at(store)
	wrong.Password = "wrong-password"
	s := start(t, &config.Cluster{Store: wrong}, [32]byte{1}, slog.New(log))
	upstreamtest.Eventually(t, "the store refuses", func() bool { return s.State().Err != nil })
	if _, _, err := s.Take("ann", []*config.Limit{{Rate: 1, Burst: 1}}); !errors.Is(err, cluster.ErrAway) {
		t.Errorf("%v, want %v", err, cluster.ErrAway)
	}
	if got := fmt.Sprint(log.take(), s.State().Err); !strings.Contains(got, "WRONGPASS") || strings.Contains(got, "wrong-password") {
		t.Errorf("log %s, want WRONGPASS without the password", got)
	}
	right := at(store)
	right.Password = "correct-password"
	take(t, replica(t, right), "ann", true, &config.Limit{Rate: 1, Burst: 1})
}

// keyOf returns the only key of the store that ends in a suffix.
func keyOf(t *testing.T, store *clustertest.Store, suffix string) string {
	t.Helper()
	var found []string
	for _, key := range keys(store) {
		if strings.HasSuffix(key, suffix) {
			found = append(found, key)
		}
	}
	if len(found) != 1 {
		t.Fatalf("keys that end in %s: %q, want one", suffix, found)
	}
	return found[0]
}

func keys(store *clustertest.Store) (keys []string) {
	for line := range strings.SplitSeq(store.Command("KEYS", "*"), "\r\n") {
		if strings.HasPrefix(line, "promptweir:") {
			keys = append(keys, line)
		}
	}
	return keys
}
