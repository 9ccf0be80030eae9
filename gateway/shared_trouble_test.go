//go:build store

package gateway_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// partOf returns the first of some replicas that takes a part, and the others.
func partOf(t *testing.T, part upstream.Watching, replicas []*gatewaytest.Server) (*gatewaytest.Server, []*gatewaytest.Server) {
	t.Helper()
	i := slices.IndexFunc(replicas, func(g *gatewaytest.Server) bool { return watching(part, g) == 1 })
	if i < 0 {
		t.Fatalf("no replica watches %s", part)
	}
	return replicas[i], slices.Delete(slices.Clone(replicas), i, i+1)
}

// once returns what intercepts the first call of a method.
func once(method string, respond http.HandlerFunc) func(http.ResponseWriter, *http.Request, gatewaytest.Call) bool {
	var called atomic.Bool
	return func(w http.ResponseWriter, r *http.Request, call gatewaytest.Call) bool {
		if call.Method != method || called.Swap(true) {
			return false
		}
		respond(w, r)
		return true
	}
}

func askForPause(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "300")
	w.WriteHeader(http.StatusTooManyRequests)
}

// pause has the server ask a replica for a pause of five minutes.
func pause(t *testing.T, p *gatewaytest.Peer, g *gatewaytest.Server) {
	t.Helper()
	p.Intercept(once("prompts/get", askForPause))
	g.Modern("").CallUnchecked("prompts/get", gatewaytest.GetParams("p.a"))
	if len(p.Calls("prompts/get")) == 0 {
		t.Fatal("the server was not asked")
	}
}

// A holder that the server asks for a pause gives the lease up, so that a change reaches all, and takes it only after that.
func TestSharedWatch_PassesOnWhenTheServerAsksForAPause(t *testing.T) {
	t.Parallel() // it waits
	p := gatewaytest.NewPeer(t, "p", "a")
	replicas := replicasOf(t, clustertest.Start(t), 3, p)
	wantNames(t, p.AwaitStream(), replicas, "a")
	awaitFollowers(t, replicas...)
	holder, others := partOf(t, upstream.WatchingForAll, replicas)
	pause(t, p, holder)
	p.Offer("a", "b")
	wantNames(t, p, replicas, "a", "b")
	upstreamtest.Eventually(t, "another replica watches for all", func() bool { return watching(upstream.WatchingForAll, others...) == 1 })
	if part := watching(upstream.WatchingOther, holder); part != 1 {
		t.Error("the replica that must not list does not follow")
	}
}

// A replica that must not list leaves the lease to one that may, whoever comes first.
func TestSharedWatch_IsNotTakenByAReplicaThatTheServerAskedForAPause(t *testing.T) {
	t.Parallel() // it waits
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	replicas := replicasOf(t, store, 2, p)
	wantNames(t, p.AwaitStream(), replicas, "a")
	awaitFollowers(t, replicas...)
	holder, others := partOf(t, upstream.WatchingForAll, replicas)
	pause(t, p, others[0])
	holder.Stop()
	p.SetPrompts("a", "b")
	replicas = append(others, replicasOf(t, store, 1, p)...)
	wantNames(t, p, replicas, "a", "b")
	if watching(upstream.WatchingForAll, replicas[1]) != 1 {
		t.Errorf("the replica that may list is %q", replicas[1].Snapshot().States[0].Endpoints[0].Watching)
	}
}

// While the holder waits for a list, the others list for themselves, and follow again when it has one.
func TestSharedWatch_ReplicasListThemselvesWhileTheHoldersListHangs(t *testing.T) {
	t.Parallel() // it waits
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	p.Settings = `timeout = "60s"`
	replicas := replicasOf(t, store, 3, p)
	wantNames(t, p.AwaitStream(), replicas, "a")
	awaitFollowers(t, replicas...)
	holder, others := partOf(t, upstream.WatchingForAll, replicas)
	release := make(chan struct{})
	p.Intercept(once("prompts/list", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		http.Error(w, "late", http.StatusInternalServerError)
	}))
	p.Offer("a", "b")
	wantNames(t, p, others, "a", "b")
	late := replicasOf(t, store, 1, p)
	wantNames(t, p, late, "a", "b")
	if got := holder.Modern("").List(); len(got) != 1 {
		t.Errorf("the holder lists %s before the server has answered it", got)
	}
	close(release)
	p.Offer("a", "b", "c")
	wantNames(t, p, append(replicas, late...), "a", "b", "c")
	upstreamtest.Eventually(t, "they follow again", func() bool { return watching(upstream.WatchingOther, append(others, late...)...) == 3 })
}
