//go:build store

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/sharedwatch"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// watching returns a replica that shares watches, once the store is here.
func watching(t *testing.T, store *clustertest.Store, key byte) *cluster.Store {
	t.Helper()
	s := start(t, &config.Cluster{Store: at(store), SharedWatch: true}, [32]byte{key}, discard)
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Here })
	return s
}

func join(t *testing.T, s *cluster.Store, connection string) *cluster.Watch {
	t.Helper()
	w := s.Join([]byte(connection))
	t.Cleanup(w.Leave)
	return w
}

// attend attends a lease, which must be held, or not.
func attend(t *testing.T, w *cluster.Watch, held bool) sharedwatch.Turn {
	t.Helper()
	turn, err := w.Attend(t.Context(), true)
	for deadline := time.Now().Add(10 * time.Second); seemsAway(err) && time.Now().Before(deadline); { // on a busy machine
		turn, err = w.Attend(t.Context(), true)
	}
	if err != nil || turn.Held != held || turn.Number == 0 || turn.Left <= 0 || turn.Left > 6*time.Second {
		t.Errorf("turn %+v, %v, want held: %t", turn, err, held)
	}
	return turn
}

// seemsAway reports whether the store did not answer in time, as may be on a busy machine. What it did answer counts.
func seemsAway(err error) bool {
	return errors.Is(err, cluster.ErrAway) || errors.Is(err, context.DeadlineExceeded)
}

// hold takes a lease and renews it until the test ends, and returns its number.
func hold(t *testing.T, w *cluster.Watch) (number uint64) {
	t.Helper()
	number = attend(t, w, true).Number
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for ctx.Err() == nil {
			_, _ = w.Attend(ctx, true) // again, if it fails
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		renewing.Wait()
	})
	return number
}

// put puts a list, which must be accepted or refused.
func put(t *testing.T, w *cluster.Watch, number uint64, accepted bool, definitions ...string) {
	t.Helper()
	_, held, err := w.Put(t.Context(), number, values(definitions), false, 0, time.Minute)
	for deadline := time.Now().Add(10 * time.Second); seemsAway(err) && time.Now().Before(deadline); { // as for attend
		_, held, err = w.Put(t.Context(), number, values(definitions), false, 0, time.Minute)
	}
	if err != nil || held != accepted {
		t.Errorf("put under %d: %t, %v, want %t", number, held, err, accepted)
	}
}

func values(texts []string) (values []jsontext.Value) {
	for _, text := range texts {
		values = append(values, jsontext.Value(text))
	}
	return values
}

// wantList waits until a watch finds a list in the store.
func wantList(t *testing.T, w *cluster.Watch, want ...string) {
	t.Helper()
	turn := attend(t, w, false)
	got, err := w.Take(t.Context(), turn)
	if err != nil || !slices.EqualFunc(values(want), got, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) }) {
		t.Errorf("the list of %+v: %d definitions, %v, want %.200q", turn, len(got), err, want)
	}
}

func TestWatch_IsHeldByOneReplicaAtATime(t *testing.T) {
	store := clustertest.Start(t)
	a, b := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	first := attend(t, a, true)
	if second := attend(t, b, false); second.Number != first.Number || second.Lease != first.Lease || second.Version != 0 {
		t.Errorf("the other one's turn %+v, the holder's %+v", second, first)
	}
	if again := attend(t, a, true); again.Number != first.Number {
		t.Errorf("number %d after it was renewed, want %d", again.Number, first.Number)
	}
	a.Release()
	select {
	case <-b.Woken():
	case <-time.After(5 * time.Second):
		t.Error("nobody is woken by the end of a lease")
	}
	if next := attend(t, b, true); next.Number <= first.Number {
		t.Errorf("number %d after %d, want a greater one", next.Number, first.Number)
	}
	attend(t, a, false)
}

// The other replicas get nothing of a replica that has died, but have its lease within its time.
func TestWatch_IsTakenFromAHolderThatDied(t *testing.T) {
	t.Parallel() // it waits
	store := clustertest.Start(t)
	a, b := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	first := attend(t, a, true)
	put(t, a, first.Number, true, "1")
	began := time.Now()
	turn := attend(t, b, false)
	for deadline := began.Add(20 * time.Second); !turn.Held && time.Now().Before(deadline); {
		time.Sleep(turn.Next)
		var err error
		if turn, err = b.Attend(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); !turn.Held || took > 8*time.Second {
		t.Errorf("the lease is held: %t, after %v", turn.Held, took)
	}
	put(t, b, turn.Number, true, "2")
	put(t, a, first.Number, false, "1") // it had only been stopped
	put(t, a, turn.Number, false, "1")
	if _, held, err := a.Put(t.Context(), first.Number, values([]string{"1"}), true, 0, 0); held || err != nil {
		t.Errorf("an unchanged list of an earlier number: %t, %v", held, err)
	}
	if held, err := a.PutAlone(t.Context(), first.Number, 0); held || err != nil {
		t.Errorf("the end of sharing under an earlier number: %t, %v", held, err)
	}
	wantList(t, a, "2")
}

func TestWatch_SharesListsOfTheSameConnectionOnly(t *testing.T) {
	store := clustertest.Start(t)
	one, two, stranger := watching(t, store, 1), watching(t, store, 1), watching(t, store, 2)
	holder, same := join(t, one, "server"), join(t, two, "server")
	alongside := join(t, one, "server") // another name at the same replica
	put(t, holder, hold(t, holder), true, `{"name":"a"}`, `{"name":"b"}`, "", "no JSON")
	for _, w := range []*cluster.Watch{same, alongside} {
		select {
		case <-w.Woken():
		case <-time.After(5 * time.Second):
			t.Error("nobody is woken by a list")
		}
		wantList(t, w, `{"name":"a"}`, `{"name":"b"}`, "", "no JSON")
	}
	for _, w := range []*cluster.Watch{join(t, two, "server with another header"), join(t, stranger, "server")} {
		if turn := attend(t, w, true); turn.Version != 0 {
			t.Errorf("a list that is not its own: %+v", turn)
		}
	}
	// What is in the store shows nothing.
	for _, hidden := range []string{"server", "name"} {
		for _, key := range keys(store) {
			if strings.Contains(key, hidden) || strings.Contains(store.Command("DUMP", key), `"a"`) {
				t.Errorf("%s shows what it is about", key)
			}
		}
	}
}

func keys(store *clustertest.Store) (keys []string) {
	for word := range strings.FieldsSeq(store.Command("KEYS", "promptweir:*")) {
		if strings.HasPrefix(word, "promptweir:") {
			keys = append(keys, word)
		}
	}
	return keys
}

func TestWatch_TakesNoListThatSomebodyElsePutThere(t *testing.T) {
	store := clustertest.Start(t)
	a, b := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	number := hold(t, a)
	put(t, a, number, true, "old")
	list := keys(store)[slices.IndexFunc(keys(store), func(key string) bool { return strings.HasSuffix(key, ":list") })]
	if answer := store.Command("COPY", list, "kept"); answer != ":1\r\n" {
		t.Fatal(answer)
	}
	put(t, a, number, true, "new")
	wantList(t, b, "new")
	store.Command("COPY", "kept", list, "REPLACE")
	turn := attend(t, b, false)
	if got, err := b.Take(t.Context(), turn); err == nil {
		t.Errorf("an earlier list in the place of a later one is taken: %s", got)
	}
	store.Command("DEL", list)
	if got, err := b.Take(t.Context(), turn); err == nil {
		t.Errorf("a list that is gone is taken: %s", got)
	}
	// That it is unchanged does not keep the holder from putting it again.
	if _, held, err := a.Put(t.Context(), number, values([]string{"new"}), true, 0, 0); !held || err != nil {
		t.Errorf("put again: %t, %v", held, err)
	}
	wantList(t, b, "new")
}

func TestWatch_NumbersGrowThoughTheStoreIsEmptied(t *testing.T) {
	store := clustertest.Start(t)
	a, b := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	first := attend(t, a, true)
	put(t, a, first.Number, true, "1")
	store.Command("FLUSHALL")
	put(t, a, first.Number, false, "1")
	second := attend(t, b, true)
	put(t, a, first.Number, false, "1")
	put(t, b, second.Number, true, "2")
	wantList(t, a, "2")
	// A store that has taken the place of another may be behind it.
	for _, key := range keys(store) {
		if strings.HasSuffix(key, ":watch") {
			store.Command("HSET", key, "number", "7")
		}
	}
	third := attend(t, a, true)
	put(t, b, second.Number, false, "2")
	attend(t, b, false)
	// It may even have given another watch the same number.
	number := strconv.FormatUint(third.Number, 10)
	for _, key := range keys(store) {
		if strings.HasSuffix(key, ":watch") {
			store.Command("HSET", key, "number", number, "holder", "another", "by", "another", "until", "9000000000000000")
		}
	}
	fourth := attend(t, b, true) // it has seen the number
	put(t, a, third.Number, false, "1")
	if first.Number >= second.Number || second.Number >= third.Number || third.Number >= fourth.Number {
		t.Errorf("numbers %d, %d, %d, %d do not grow", first.Number, second.Number, third.Number, fourth.Number)
	}
}

func TestWatch_AnswersQuestions(t *testing.T) {
	store := clustertest.Start(t)
	a, b := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	number := hold(t, a)
	put(t, a, number, true, "1")
	asked, err := b.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Woken():
	case <-time.After(5 * time.Second):
		t.Error("the holder is not woken by a question")
	}
	turn := attend(t, a, true)
	if turn.Asked != asked || turn.Answers >= asked {
		t.Errorf("turn %+v, want the question %d without an answer", turn, asked)
	}
	if _, held, err := a.Put(t.Context(), number, values([]string{"1"}), true, turn.Asked, 0); err != nil || !held {
		t.Fatal(held, err)
	}
	if answered := attend(t, b, false); answered.Answers < asked || answered.Version != turn.Version || answered.TTL != 0 {
		t.Errorf("turn %+v, want the same list of version %d, which answers %d", answered, turn.Version, asked)
	}
	wantList(t, b, "1")
	if held, err := a.PutAlone(t.Context(), number, turn.Asked); err != nil || !held {
		t.Fatal(held, err)
	}
	if turn := attend(t, b, false); !turn.Alone {
		t.Errorf("turn %+v, want each replica to be alone", turn)
	}
	if _, held, err := a.Put(t.Context(), number, values([]string{"1"}), true, turn.Asked, 0); err != nil || !held {
		t.Fatal(held, err)
	}
	wantList(t, b, "1")
}

// Whatever servers list, a quarter of the store's memory is left for all else, and what was listed goes with whoever needs it.
func TestWatch_LeavesTheStoreMemory(t *testing.T) {
	store := clustertest.Start(t, "--maxmemory", "16mb")
	s := watching(t, store, 1)
	noise := make([]byte, 6<<20)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(noise) // never fails
	a, b := join(t, s, "one server"), join(t, s, "another server")
	first, second := attend(t, a, true).Number, attend(t, b, true).Number
	put(t, a, first, true, string(noise))
	if _, _, err := b.Put(t.Context(), second, values([]string{string(noise)}), false, 0, 0); err == nil || errors.Is(err, sharedwatch.ErrNotShareable) {
		t.Errorf("a list that would fill the store: %v", err)
	}
	put(t, b, second, true, "small")
	for _, key := range keys(store) {
		life, err := strconv.Atoi(strings.Trim(store.Command("PTTL", key), ":\r\n"))
		if most := 60_000; strings.Contains(key, ":watch:") && (err != nil || life <= 0 || life > most) {
			t.Errorf("%s stays for %d ms, %v", key, life, err)
		}
	}
	if held, err := a.PutAlone(t.Context(), first, 0); err != nil || !held {
		t.Fatal(held, err)
	}
	put(t, b, second, true, string(noise))
	store.Command("ACL", "SETUSER", "default", "-info")
	put(t, a, first, true, "from a store that does not tell its memory")
}

// A server that says the same again and again, and has the holder list for it, costs the store and the other replicas nothing.
func TestWatch_TellsNobodyOfAnUnchangedList(t *testing.T) {
	store := clustertest.Start(t)
	a, b := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	number := attend(t, a, true).Number
	put(t, a, number, true, "1")
	select {
	case <-b.Woken():
	case <-time.After(5 * time.Second):
		t.Error("the other one is not woken by a list")
	}
	version := attend(t, b, false).Version
	for range 100 {
		if got, held, err := a.Put(t.Context(), number, values([]string{"1"}), true, 0, time.Minute); got != version || !held || err != nil {
			t.Fatalf("version %d, %t, %v, want %d", got, held, err, version)
		}
	}
	select {
	case <-b.Woken():
		t.Error("the other one is woken by an unchanged list")
	case <-time.After(100 * time.Millisecond): // more than a message takes, which is lost on nobody else
	}
	for _, ttl := range []time.Duration{time.Hour, time.Minute} {
		if _, _, err := a.Put(t.Context(), number, values([]string{"1"}), true, 0, ttl); err != nil {
			t.Fatal(err)
		}
		if turn := attend(t, b, false); turn.TTL != ttl || turn.Version != version {
			t.Errorf("turn %+v, want version %d for %s", turn, version, ttl)
		}
	}
}

func TestWatch_SendsLargeListsInPieces(t *testing.T) {
	store := clustertest.Start(t)
	a, b := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	number := hold(t, a)
	random := func(size int) string {
		noise := make([]byte, size)
		source := rand.NewChaCha8([32]byte{})
		_, _ = source.Read(noise) // never fails
		return string(noise)
	}
	put(t, a, number, true, random(3<<20), random(2<<20), strings.Repeat("x", 32<<20))
	wantList(t, b, random(3<<20), random(2<<20), strings.Repeat("x", 32<<20))
	_, _, err := a.Put(t.Context(), number, values([]string{random(9 << 20)}), false, 0, 0)
	if !errors.Is(err, sharedwatch.ErrNotShareable) {
		t.Errorf("a list that is too large: %v", err)
	}
	wantList(t, b, random(3<<20), random(2<<20), strings.Repeat("x", 32<<20))
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf(`{"name":"prompt_%d"}`, i))
	}
	put(t, a, number, true, many...)
	wantList(t, b, many...)
	if left := slices.DeleteFunc(keys(store), func(key string) bool { return !strings.Contains(key, "staged") }); len(left) > 0 {
		t.Errorf("%s is left", left)
	}
}

// Nothing waits for long, and nothing is said to be held, while the store hangs. A request does not wait for a watch at all.
func TestWatch_WaitsForNoStoreThatHangs(t *testing.T) {
	t.Parallel() // it waits
	store := clustertest.Start(t)
	s := watching(t, store, 1)
	w := join(t, s, "server")
	number := attend(t, w, true).Number
	store.Pause()
	began := time.Now()
	if turn, err := w.Attend(context.Background(), true); err == nil {
		t.Errorf("the lease is renewed by a store that hangs: %+v", turn)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	began = time.Now()
	if _, held, err := w.Put(context.Background(), number, values([]string{"1"}), false, 0, 0); err == nil && held {
		t.Error("a list is put into a store that hangs")
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	store.Resume()
	upstreamtest.Eventually(t, "the store is here again", func() bool { return s.State().Here })
	put(t, w, attend(t, w, true).Number, true, "1")
}

func TestWatch_FollowsTheCursorKeys(t *testing.T) {
	store := clustertest.Start(t)
	s := watching(t, store, 1)
	w := join(t, s, "server")
	before := attend(t, w, true)
	sealer, err := seal.New([][32]byte{{2}})
	if err != nil {
		t.Fatal(err)
	}
	s.SetKeys(sealer)
	put(t, w, before.Number, false, "1")
	after := attend(t, w, true)
	if after.Lease == before.Lease || after.Number <= before.Number {
		t.Errorf("turn %+v after %+v, want another lease", after, before)
	}
	put(t, w, after.Number, true, "1")
	wantList(t, join(t, watching(t, store, 2), "server"), "1")
}

// Whoever can write to the store can hold lists back, and do no more than that: what no replica has written is as good as no list.
func TestAttend_TakesWhatNoReplicaHasWrittenForNoList(t *testing.T) {
	store := clustertest.Start(t)
	first, second := join(t, watching(t, store, 1), "server"), join(t, watching(t, store, 1), "server")
	number := hold(t, first)
	put(t, first, number, true, "1")
	lease := strings.TrimSuffix(keyOf(t, store, ":list"), ":list")
	for _, description := range []string{
		"%d 1 0 0 -5 0", "%d 1 0 -5 5 0", "%d 1 0 0 99999999999 0", "%d 1 0 99999999999999999 5 0", "-%d 1 0 0 5 0", "%d 1 0 0 5", "nonsense",
	} {
		description = strings.Replace(description, "%d", strconv.FormatUint(number, 10), 1)
		store.Command("HSET", lease, "list", "'"+description+"'")
		if turn := attend(t, second, false); turn.ListNumber != 0 || turn.Size != 0 || turn.TTL != 0 {
			t.Errorf("%q: turn %+v, want one without a list", description, turn)
		}
	}
	put(t, first, number, true, "2")
	wantList(t, second, "2")
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
