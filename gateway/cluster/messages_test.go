//go:build store

package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// server is a replica that serves "echo", counts what it is told under "count", and does "long" until nobody needs it.
type server struct {
	*cluster.Replica

	stop             func()
	counted, stopped atomic.Int32
}

func serve(t *testing.T, store config.Store) *server {
	t.Helper()
	sealer, err := seal.New([][32]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{}
	if s.Replica, err = cluster.New(&config.Cluster{Store: store}, sealer, discard, cluster.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Messages.Handle("echo", func(_ context.Context, read cluster.Read) any {
		var message string
		if err := read(&message); err != nil {
			return nil
		}
		return "echo " + message
	})
	s.Messages.Handle("count", func(context.Context, cluster.Read) any { s.counted.Add(1); return nil })
	s.Messages.Handle("long", func(ctx context.Context, _ cluster.Read) any {
		select {
		case <-ctx.Done():
			s.stopped.Add(1)
		case <-time.After(7 * time.Second):
		}
		return "done"
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var stopped atomic.Bool
	s.stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(s.stop)
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
	return s
}

// ask asks, and again if the store seems to be away, as it may on a busy machine. It returns how often it did.
func ask(t *testing.T, from, to *server, topic, message string) (answer string, times int, err error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		times++
		err = from.Messages.Call(t.Context(), to.Messages.Name(), topic, "", message, &answer)
		if !errors.Is(err, cluster.ErrUnavailable) {
			break
		}
	}
	return answer, times, err
}

// wantGone asks a replica that does not answer, until that is known within a time: on a busy machine it may take longer now and then, or the
// store seem to be away.
func wantGone(t *testing.T, from *server, to, topic, message string, within time.Duration) {
	t.Helper()
	var err error
	var took time.Duration
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		began := time.Now()
		err = from.Messages.Call(t.Context(), to, topic, "", message, new(string))
		if took = time.Since(began); !errors.Is(err, cluster.ErrUnavailable) && took < within {
			break
		}
	}
	if !errors.Is(err, cluster.ErrGone) || took >= within {
		t.Errorf("to %q: %v after %v, want %v within %v", to, err, took, cluster.ErrGone, within)
	}
}

// awaitHearing waits until one replica hears another.
func awaitHearing(t *testing.T, from, to *server) {
	t.Helper()
	upstreamtest.Eventually(t, "the replica hears", func() bool {
		err := from.Messages.Call(t.Context(), to.Messages.Name(), "echo", "", "", new(string))
		return err == nil
	})
}

func TestCall_IsAnsweredByTheReplica(t *testing.T) {
	t.Parallel()
	store := clustertest.Start(t)
	a, b := serve(t, at(store)), serve(t, at(store))
	awaitHearing(t, a, b)
	awaitHearing(t, b, a)
	a.Messages.SetMax(20 << 20)
	b.Messages.SetMax(20 << 20)
	given := 0 // up
	for _, message := range []string{"", "one", strings.Repeat("large", 1<<15), strings.Repeat("large", 4<<20)} {
		answer, times, err := ask(t, a, b, "echo", message)
		if err != nil || answer != "echo "+message {
			t.Errorf("answer of %d bytes, %v, want the message of %d", len(answer), err, len(message))
		}
		given += times - 1
	}
	if left := store.Command("KEYS", "promptweir:piece:*"); !strings.HasPrefix(left, "*0") && given == 0 {
		t.Errorf("the store still has %s, want what is read to be gone", left)
	}
	if err := a.Messages.Call(t.Context(), b.Messages.Name(), "echo", "", strings.Repeat("x", 21<<20), new(string)); err == nil {
		t.Error("a message of 21 MiB is sent, want an error")
	}
	// What b may not send as an answer, it says at once that it does not. One that is busy would have two seconds.
	const atOnce = time.Second
	b.Messages.SetMax(1 << 20)
	wantGone(t, a, b.Messages.Name(), "echo", strings.Repeat("x", 2<<20), atOnce)
	for _, to := range []string{"nobody", "", a.Messages.Name()} {
		wantGone(t, a, to, "echo", "", atOnce)
	}
	// What takes long is waited for as long as the replica says that it is at work, or until nobody needs it.
	if answer, _, err := ask(t, a, b, "long", ""); err != nil || answer != "done" {
		t.Errorf("%s, %v, want done", answer, err)
	}
	upstreamtest.Eventually(t, "the replica has stopped", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := a.Messages.Call(ctx, b.Messages.Name(), "long", "", "", new(string)); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, cluster.ErrUnavailable) {
			t.Errorf("%v, want the context's error", err)
		}
		return b.stopped.Load() > 0
	})
	// A replica that ends meanwhile is gone.
	time.AfterFunc(100*time.Millisecond, b.stop)
	wantGone(t, a, b.Messages.Name(), "long", "", 30*time.Second)
}

func TestPublish_ReachesOneOrAllOnce(t *testing.T) {
	store := clustertest.Start(t)
	a, b, c := serve(t, at(store)), serve(t, at(store)), serve(t, at(store))
	for _, from := range []*server{a, b} {
		for _, to := range []*server{a, b, c} {
			if from != to {
				awaitHearing(t, from, to)
			}
		}
	}
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: at(store).Addresses, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	recorded := make(chan valkey.PubSubMessage, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = client.Receive(ctx, client.B().Psubscribe().Pattern("promptweir:{replicas}:0:*").Build(), func(m valkey.PubSubMessage) {
			if m.Message != "" { // else it is a probe
				select {
				case recorded <- m:
				default:
				}
			}
		}) // until the test ends
	}()
	upstreamtest.Eventually(t, "the store is watched", func() bool { return strings.Contains(store.Command("PUBSUB", "NUMPAT"), ":1") })

	a.Messages.Publish(b.Messages.Name(), "count", "hushhush")
	upstreamtest.Eventually(t, "b has heard", func() bool { return b.counted.Load() == 1 })
	a.Messages.Publish("", "count", "hushhush")
	upstreamtest.Eventually(t, "b and c have heard", func() bool { return b.counted.Load() == 2 && c.counted.Load() == 1 })
	for range 2 { // what somebody sends again counts for nothing
		m := <-recorded
		if strings.Contains(m.Message+m.Channel, "hushhush") || strings.Contains(m.Message+m.Channel, b.Messages.Name()) {
			t.Errorf("the store sees %s on %s", m.Message, m.Channel)
		}
		store.Command("PUBLISH", m.Channel, m.Message)
	}
	store.Command("PUBLISH", "promptweir:{replicas}:0:x", "nonsense")
	awaitHearing(t, a, b) // after what was sent again
	awaitHearing(t, a, c)
	if a.counted.Load() != 0 || b.counted.Load() != 2 || c.counted.Load() != 1 {
		t.Errorf("heard %d, %d and %d times, want 0, 2 and 1", a.counted.Load(), b.counted.Load(), c.counted.Load())
	}
	// What is large reaches all as well. For a replica that is not there, whose name a client has made up, the store keeps nothing.
	a.Messages.Publish("", "count", strings.Repeat("hushhush", 40_000))
	upstreamtest.Eventually(t, "b and c have heard", func() bool { return b.counted.Load() == 3 && c.counted.Load() == 2 })
	// What is larger would cut them off, or hold up what their requests wait for, and is not sent.
	for range 16 {
		a.Messages.Publish("", "count", strings.Repeat("x", 2<<20))
	}
	awaitHearing(t, a, b)
	awaitHearing(t, a, c)
	if b.counted.Load() != 3 || c.counted.Load() != 2 {
		t.Errorf("heard %d and %d times, want 3 and 2 still", b.counted.Load(), c.counted.Load())
	}
	a.Messages.Publish("nobody", "count", strings.Repeat("hushhush", 40_000))
	if err := a.Messages.Call(t.Context(), "nobody", "echo", "", strings.Repeat("hushhush", 40_000), new(string)); err == nil {
		t.Error("a replica that is not there has answered")
	}
	if kept := store.Command("KEYS", "promptweir:piece:*"); !strings.HasPrefix(kept, "*0") {
		t.Errorf("the store keeps %s for nobody", kept)
	}
	store.Kill()
	a.Messages.Publish(b.Messages.Name(), "count", "")
	if err := a.Messages.Call(t.Context(), b.Messages.Name(), "echo", "", "", new(string)); err == nil {
		t.Error("asked without a store")
	}
	store.Restart()
	awaitHearing(t, a, b)
}
