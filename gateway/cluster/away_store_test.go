//go:build store

package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// live returns a live replica that serves a list.
func live(t *testing.T, store *clustertest.Store, list string) *Peers {
	t.Helper()
	sealer, err := seal.New([][32]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Cluster{Store: config.Store{Addresses: []string{store.URL()[len("redis://"):]}}}
	r, err := New(cfg, sealer, slog.New(slog.DiscardHandler), Options{
		Tell: func(Verdict) {}, Drain: func(map[string]Drain) {}, IsReady: func() bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Peers.Changed(1, lists{"up": list}, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx) // it returns none
	}()
	t.Cleanup(func() { cancel(); <-ended })
	upstreamtest.Eventually(t, "the replica is alive", r.Peers.joined.Load)
	return r.Peers
}

func (p *Peers) isBehind() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settlement.behind["up"] != ""
}

// The store has taken a heartbeat, and its answer was lost, so that the next one does not find a replica that was away.
func TestPeers_SayWhereTheyWereBehindAfterALostAnswer(t *testing.T) {
	store := clustertest.Start(t)
	a := live(t, store, "1")
	b := live(t, store, "1")
	if b.isBehind() {
		t.Fatal("a replica that joins with the same list is behind")
	}
	a.Changed(2, lists{"up": "2"}, true)
	upstreamtest.Eventually(t, "the replica is behind", func() bool {
		b.comparedAt.Store(time.Now().Add(-2 * freshFor).UnixNano()) // in one of the next heartbeats
		b.beatSoon()
		return b.isBehind()
	})
}
