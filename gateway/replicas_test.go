package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// serveReplicas runs gateways of one configuration that share a store.
func serveReplicas(t *testing.T, store interface{ URL() string }, n int, text string) []*gatewaytest.Server {
	t.Helper()
	text = strings.ReplaceAll(text, "%CLUSTER%", "cursor_keys = [\"%KEY%\"]") + "\ncluster { store = \"" + store.URL() + "\" }\n"
	var all []*gatewaytest.Server
	for range n {
		s := gatewaytest.Serve(t, text)
		s.AwaitUpstreams()
		all = append(all, s)
	}
	awaitStore(t, true, all...)
	return all
}

// awaitStore waits until the store is here for each replica, or away.
func awaitStore(t *testing.T, here bool, replicas ...*gatewaytest.Server) {
	t.Helper()
	for _, s := range replicas {
		upstreamtest.Eventually(t, "the replica knows the store's condition", func() bool { return s.Ready().Store.Here == here })
	}
}

func TestLimit_HoldsOverAllReplicas(t *testing.T) {
	t.Parallel()
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	replicas := serveReplicas(t, store, 3, "gateway {\n %CLUSTER%\n limit {\n rate = 0.001\n burst = 6\n }\n}\nauth {\n anonymous = true\n"+
		gatewaytest.Token("ann", "eng")+gatewaytest.Token("bob", "eng")+"}\n"+
		gatewaytest.Team("eng", `"group:eng"`, "limit {\n rate = 0.001\n burst = 4\n}\n", p))
	who := "ann"
	get := func(s *gatewaytest.Server) bool {
		t.Helper()
		return !strings.Contains(s.Modern(who).Call("prompts/get", gatewaytest.GetParams("p.a")).Body, `"rate_limited"`)
	}
	allowed := 0
	for i := range 9 {
		if get(replicas[i%3]) {
			allowed++
		}
	}
	upstreamtest.Equal(t, 4, allowed, "gets over three replicas, which share the team's limit")
	for i := range 2 { // lists count against the gateway's limit, which gets have used as well
		replicas[i].Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"p.a"`)
	}
	replicas[2].Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"reason":"rate_limited"`, `"retryAfterMs":`)

	// While the store is away, each replica has its own limit, and is as ready as before.
	store.Kill()
	awaitStore(t, false, replicas...)
	for i, s := range replicas {
		allowed := 0
		for range 6 {
			if get(s) {
				allowed++
			}
		}
		upstreamtest.Equal(t, 4, allowed, "gets of replica %d while the store is away", i)
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Want(t, http.StatusOK, `"store": {`, `"here": false`)
	}
	store.Restart()
	awaitStore(t, true, replicas...)
	if !get(replicas[0]) { // counts go on from now
		t.Error("a get after an empty store is back is refused, want it counted there")
	}
}

// A replica that a load balancer sent clients before it has asked the store would count them apart.
func TestReady_WaitsUntilTheStoreIsKnown(t *testing.T) {
	t.Parallel()
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	store.Pause()
	began := time.Now()
	s := gatewaytest.Serve(t, "gateway { cursor_keys = [\"%KEY%\"] }\n"+gatewaytest.Team("eng", "", "", p)+"\ncluster { store = \""+store.URL()+"\" }\n")
	if ready := s.Ready(); ready.Ready && time.Since(began) < time.Second {
		t.Error("ready before the store is known to be away")
	}
	upstreamtest.Eventually(t, "the replica is ready without the store", func() bool { return s.Ready().Ready })
	if s.Ready().Store.Here {
		t.Error("the store is here, want it away")
	}
	store.Resume()
	awaitStore(t, true, s)
}
