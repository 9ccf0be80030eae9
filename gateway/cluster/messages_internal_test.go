//go:build store

package cluster

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// One that has the processor late is not gone: what it was asked for, such as a post to its stream, would be lost.
func TestAsk_WaitsForAReplicaThatIsBusy(t *testing.T) {
	store := clustertest.Start(t)
	sealer, err := seal.New([][32]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(store.Port))}
	s, err := New(&config.Cluster{Store: config.Store{Addresses: addresses}}, sealer, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Here })

	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: addresses, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const busy = "busy" // the name of a replica
	listening := make(chan struct{})
	go func() {
		keys, first := s.keys.Load(), true
		subscribe := client.B().Subscribe().Channel(keys.channels(busy)[0]).Build()
		listen := valkey.WithOnSubscriptionHook(ctx, func(valkey.PubSubSubscription) {
			if first {
				first = false
				close(listening)
			}
		})
		_ = client.Receive(listen, subscribe, func(m valkey.PubSubMessage) { // until ctx ends
			plain, err := keys.messages.Open(m.Message)
			if err != nil {
				t.Error(err)
				return
			}
			question, _ := decode(plain)
			time.AfterFunc(10*patience, func() {
				answer := envelope{kind: kindAnswer, id: question.id, from: busy, to: s.replica, payload: []byte("late")}
				channel, message := keys.sealed(s.replica, &answer)
				_ = client.Do(ctx, client.B().Publish().Channel(channel).Message(message).Build()).Error() // else there is no answer
			})
		})
	}()
	<-listening
	upstreamtest.Eventually(t, "this replica listens", func() bool {
		answer, err := s.Ask(t.Context(), busy, "any", []byte("?"))
		if err != nil && err != ErrAway { //nolint:errorlint // as it is returned
			t.Fatalf("%v, want the answer of a replica that is busy", err)
		}
		return string(answer) == "late"
	})
}
