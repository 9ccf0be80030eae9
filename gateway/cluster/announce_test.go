//go:build store

package cluster_test

import (
	"context"
	"fmt"
	"slices"
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

// listener is a replica that hears a topic.
type listener struct {
	*cluster.Store

	mu    sync.Mutex
	heard []string
}

func listen(t *testing.T, store config.Store, keys ...[32]byte) *listener {
	t.Helper()
	return listenWith(t, &config.Cluster{Store: store}, keys...)
}

// listenWith returns one that answers questions, too.
func listenWith(t *testing.T, cfg *config.Cluster, keys ...[32]byte) *listener {
	t.Helper()
	sealer, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{}
	if l.Store, err = cluster.New(cfg, sealer, discard); err != nil {
		t.Fatal(err)
	}
	l.Hear("topic", func(message []byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.heard = append(l.heard, string(message))
	})
	l.Serve("question", func(_ context.Context, question []byte) []byte { return question })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	upstreamtest.Eventually(t, "the store is here", func() bool { return l.State().Here })
	return l
}

// want waits until each message was heard, in whatever order and how often.
func (l *listener) want(t *testing.T, messages ...string) {
	t.Helper()
	upstreamtest.Eventually(t, fmt.Sprint(messages, " are heard"), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !slices.ContainsFunc(messages, func(m string) bool { return !slices.Contains(l.heard, m) })
	})
}

func TestAnnounce_IsHeardByAll(t *testing.T) {
	store := clustertest.Start(t)
	older, newer := [32]byte{1}, [32]byte{2}
	a, b := listen(t, at(store), older), listen(t, at(store), older)
	stranger := listen(t, at(store), [32]byte{3})
	a.Announce("topic", []byte("secret one"))
	for _, l := range []*listener{a, b, listen(t, at(store), older)} {
		l.want(t, "secret one")
	}
	if all := store.Command("DUMP", strings.Fields(store.Command("KEYS", "*announced*"))[2]); strings.Contains(all, "secret") {
		t.Errorf("the store has %q in clear", all)
	}
	// While keys are being replaced, replicas with both hear all.
	both, rotated := listen(t, at(store), older, newer), listen(t, at(store), newer, older)
	rotated.Announce("topic", []byte("two"))
	both.Announce("topic", []byte("three"))
	for _, l := range []*listener{both, rotated} {
		l.want(t, "secret one", "two", "three")
	}
	a.want(t, "three")

	// What is announced while the store is away, or has lost everything, is heard when it is back.
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{{"hung", store.Pause, store.Resume}, {"killed", store.Kill, store.Restart}} {
		outage.begin()
		a.Announce("topic", []byte(outage.name+" first"))
		a.Announce("topic", []byte(outage.name+" second"))
		outage.end()
		b.want(t, outage.name+" first", outage.name+" second")
	}
	store.Command("FLUSHALL")
	b.Announce("topic", []byte("after the store was emptied"))
	a.want(t, "after the store was emptied")
	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	if len(stranger.heard) > 0 {
		t.Errorf("a gateway with other keys has heard %q", stranger.heard)
	}
}

// A stream may begin again by a clock that is behind: the store was emptied and its clock set back, another server has taken its place, or
// nothing was announced for longer than it is kept. Nobody notices that otherwise.
func TestAnnounce_IsHeardWhereAStreamBeginsAgain(t *testing.T) {
	t.Parallel() // it waits
	store := clustertest.Start(t)
	a, b := listen(t, at(store), [32]byte{1}), listen(t, at(store), [32]byte{1})
	b.Announce("topic", []byte("before"))
	a.want(t, "before")
	stream := strings.Fields(store.Command("KEYS", "*announced*"))[2]
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	store.Command("XADD", stream, ahead, "m", "nothing-of-a-replica")
	b.Announce("topic", []byte("while the clock is ahead"))
	a.want(t, "while the clock is ahead")
	store.Command("DEL", stream)
	b.Announce("topic", []byte("after the clock was set back"))
	a.want(t, "after the clock was set back")
}

func TestSetKeys_HearsUnderTheNewOnes(t *testing.T) {
	store := clustertest.Start(t)
	a, b := listen(t, at(store), [32]byte{1}), listen(t, at(store), [32]byte{2})
	sealer, err := seal.New([][32]byte{{2}, {1}})
	if err != nil {
		t.Fatal(err)
	}
	a.SetKeys(sealer)
	b.Announce("topic", []byte("one"))
	a.Announce("topic", []byte("two"))
	a.want(t, "one", "two")
	b.want(t, "one", "two")
}
