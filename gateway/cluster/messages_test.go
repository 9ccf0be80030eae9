package cluster_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// server is a replica that serves "echo", and counts what it is told under "count".
type server struct {
	*cluster.Replica

	counted atomic.Int32
}

func serve(t *testing.T, store config.Store) *server {
	t.Helper()
	s := &server{Replica: newReplica(t, &config.Cluster{Store: store}, [32]byte{1}, discard)}
	s.Messages.Handle("echo", func(_ context.Context, read cluster.Read) any {
		var message string
		if err := read(&message); err != nil {
			return nil
		}
		return "echo " + message
	})
	s.Messages.Handle("count", func(context.Context, cluster.Read) any { s.counted.Add(1); return nil })
	run(t, s.Replica)
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
	return s
}

// awaitHearing waits until one replica hears another.
func awaitHearing(t *testing.T, from, to *server) {
	t.Helper()
	upstreamtest.Eventually(t, "the replica hears", func() bool {
		err := from.Messages.Call(t.Context(), to.Messages.Name(), "echo", "", "", new(string))
		return err == nil
	})
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
