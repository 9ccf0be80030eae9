package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
)

// However much a replica is asked for under a topic, others are served.
func TestServe_HasSlotsForEachTopic(t *testing.T) {
	sealer, err := seal.New([][32]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(&config.Cluster{Store: config.Store{Addresses: []string{"127.0.0.1:0"}}}, sealer, slog.New(slog.DiscardHandler)) // not run
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer s.messages.work.Wait()
	defer end()
	served := make(chan string, maxServed)
	s.Serve("long", func(ctx context.Context, _ []byte) []byte {
		<-ctx.Done()
		return nil
	})
	s.Serve("short", func(_ context.Context, message []byte) []byte {
		served <- string(message)
		return nil
	})
	for range 2 * maxServed {
		s.serve(ctx, s.keys.Load(), envelope{kind: kindTell, id: newMessageID(), topic: "long"})
	}
	if n := len(s.messages.served["long"].slots); n != maxServed {
		t.Errorf("%d are served at once, want %d", n, maxServed)
	}
	s.serve(ctx, s.keys.Load(), envelope{kind: kindTell, id: newMessageID(), topic: "short", payload: []byte("one")})
	s.serve(ctx, s.keys.Load(), envelope{kind: kindTell, id: newMessageID(), topic: "of a later version"})
	select {
	case message := <-served:
		if message != "one" {
			t.Errorf("served %q, want one", message)
		}
	case <-time.After(time.Minute):
		t.Error("what comes under another topic is not served")
	}
}
