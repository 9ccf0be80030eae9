//go:build store

package gateway_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// replicasOf runs gateways that share a store and have a peer.
func replicasOf(t *testing.T, store *clustertest.Store, n int, p *gatewaytest.Peer) []*gatewaytest.Server {
	t.Helper()
	return serveReplicas(t, store, n, "gateway { %CLUSTER% }\n"+gatewaytest.Team("eng", "", "", p))
}

// wantNames waits until each gateway lists just these names of a peer.
func wantNames(t *testing.T, p *gatewaytest.Peer, gateways []*gatewaytest.Server, names ...string) {
	t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, p.Name+"."+name)
	}
	for i, g := range gateways {
		var got []string
		upstreamtest.Eventually(t, fmt.Sprintf("replica %d lists %s", i, want), func() bool {
			got = g.Modern("").List()
			return slices.Equal(got, want)
		})
	}
}

// awaitFollowers waits until one replica watches for all the others.
func awaitFollowers(t *testing.T, replicas ...*gatewaytest.Server) {
	t.Helper()
	upstreamtest.Eventually(t, "one replica watches for all", func() bool {
		return watching(upstream.WatchingForAll, replicas...) == 1 && watching(upstream.WatchingOther, replicas...) == len(replicas)-1
	})
}

// whileShared counts something while one replica watches for all the others. What is wrong with the count is an error if they shared the
// whole time. On a busy machine the store may be taken to be late meanwhile, or a lease end, so that a replica watches for itself as it is
// to: then they count again.
func whileShared(t *testing.T, replicas []*gatewaytest.Server, count func() (wrong string)) {
	t.Helper()
	const aloneTime = 5 * time.Second // for which a replica watches for itself at least
	holder := func() int {
		return slices.IndexFunc(replicas, func(g *gatewaytest.Server) bool { return watching(upstream.WatchingForAll, g) == 1 })
	}
	for deadline := time.Now().Add(time.Minute); ; {
		awaitFollowers(t, replicas...)
		began, before := time.Now(), holder()
		wrong := count()
		if wrong == "" {
			return
		}
		shared := holder() == before && watching(upstream.WatchingOther, replicas...) == len(replicas)-1
		if shared && time.Since(began) < aloneTime || time.Now().After(deadline) {
			t.Error(wrong)
			return
		}
		t.Logf("while they did not share: %s", wrong)
	}
}

func TestSharedWatch_ReplicasListOnceInBothEras(t *testing.T) {
	for era, peer := range map[string]func(testing.TB, string, ...string) *gatewaytest.Peer{"legacy": gatewaytest.NewPeer, "modern": gatewaytest.NewModernPeer} {
		t.Run(era, func(t *testing.T) {
			p := peer(t, "p", "a")
			replicas := replicasOf(t, clustertest.Start(t), 3, p)
			wantNames(t, p.AwaitStream(), replicas, "a")
			whileShared(t, replicas, func() (wrong string) {
				p.Forget()
				p.Offer("a", "b")
				wantNames(t, p, replicas, "a", "b")
				p.Offer("b")
				wantNames(t, p, replicas, "b")
				if lists, listens := len(p.Calls("prompts/list")), len(p.Calls("subscriptions/listen")); lists != 2 || listens > 0 {
					wrong = fmt.Sprintf("%d lists for two changes, %d more subscriptions", lists, listens)
				}
				return wrong
			})
		})
	}
}

// Over HTTP+SSE each session is a stream, and the server tells each of a change.
func TestSharedWatch_ReplicasListOnceOverSSE(t *testing.T) {
	p := upstreamtest.NewPeer(t)
	p.Prompts("a")
	server := upstreamtest.Serve(t, upstreamtest.SSE(p))
	replicas := serveReplicas(t, clustertest.Start(t), 3, "gateway { %CLUSTER% }\nteam \"eng\" {\n upstream \"sdk\" {\n url = \""+server.URL+
		"/sse\"\n transport = \"sse\"\n}\n}\n")
	wantListed(t, "a", replicas...)
	changes := 0
	whileShared(t, replicas, func() (wrong string) {
		before := len(p.Seen("prompts/list"))
		for range 3 {
			changes++
			name := fmt.Sprintf("new%d", changes)
			p.Prompts(name)
			p.Changed()
			wantListed(t, name, replicas...)
		}
		if lists := len(p.Seen("prompts/list")) - before; lists != 3 {
			wrong = fmt.Sprintf("%d lists for three changes", lists)
		}
		return wrong
	})
}

// A server may tell only whoever makes a call of a change.
func TestSharedWatch_ReplicaThatHearsOfAChangeTellsTheHolder(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Capabilities, p.Settings = `{"prompts":{}}`, `refresh = "1h"`
	replicas := replicasOf(t, clustertest.Start(t), 3, p)
	wantNames(t, p, replicas, "a")
	var names []string
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method != "prompts/get" {
			return false
		}
		p.SetPrompts(names...)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", call.ID, p.Result("prompts/get"))
		return true
	})
	changes := 0
	whileShared(t, replicas, func() (wrong string) {
		changes++
		names = []string{"a", fmt.Sprintf("b%d", changes)}
		p.Forget()
		follower := slices.IndexFunc(replicas, func(g *gatewaytest.Server) bool { return watching(upstream.WatchingOther, g) == 1 })
		replicas[follower].Modern("").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, "from p")
		wantNames(t, p, replicas, names...)
		if lists := len(p.Calls("prompts/list")); lists != 1 {
			wrong = fmt.Sprintf("%d lists, want one for all", lists)
		}
		return wrong
	})
}

// A list that the holder cannot share is each replica's own affair, and shared again when it can be.
func TestSharedWatch_ReplicasListThemselvesWhatCannotBeShared(t *testing.T) {
	noise := make([]byte, 1<<20)
	large := []string{}
	for i := range 9 { // more than 8 MiB, however well they are compressed
		_, _ = rand.Read(noise) // never fails
		large = append(large, fmt.Sprintf(`{"name":"large%02d","description":%q}`, i, base64.StdEncoding.EncodeToString(noise)))
	}
	for name, unshare := range map[string]func(p *gatewaytest.Peer){
		"refused": func(p *gatewaytest.Peer) { p.Answer("prompts/list", `error:{"code":-32603,"message":"broken"}`) },
		"large":   func(p *gatewaytest.Peer) { p.SetPrompts(large...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			p := gatewaytest.NewPeer(t, "p", "a")
			p.Settings = "max_message = 33554432"
			replicas := replicasOf(t, clustertest.Start(t), 3, p)
			wantNames(t, p.AwaitStream(), replicas, "a")
			unshare(p)
			p.Announce()
			for i, g := range replicas {
				upstreamtest.Eventually(t, fmt.Sprintf("replica %d knows", i), func() bool {
					return g.Problem("p") != nil || len(g.Snapshot().Catalog.Entries()) == len(large)
				})
			}
			upstreamtest.Eventually(t, "all but the holder watch alone", func() bool { return watching(upstream.WatchingAlone, replicas...) == 2 })
			p.Answer("prompts/list", `{"prompts":[{"name":"b"}]}`)
			p.Announce()
			wantNames(t, p, replicas, "b")
			upstreamtest.Eventually(t, "they follow again", func() bool { return watching(upstream.WatchingOther, replicas...) == 2 })
			for i, g := range replicas {
				upstreamtest.Eventually(t, fmt.Sprintf("replica %d is well", i), func() bool { return g.Problem("p") == nil })
			}
		})
	}
}

// A server that a replica does not reach is down for it, whatever another one has listed. A holder that does not reach it gives the lease
// back.
func TestSharedWatch_ReplicasGetByThemselves(t *testing.T) {
	t.Parallel() // it waits
	p := gatewaytest.NewPeer(t, "p", "a")
	replicas := replicasOf(t, clustertest.Start(t), 3, p)
	wantNames(t, p.AwaitStream(), replicas, "a")
	p.Stop()
	for i, g := range replicas {
		upstreamtest.Eventually(t, fmt.Sprintf("for replica %d the server is down", i), func() bool {
			g.Modern("").Call("prompts/get", gatewaytest.GetParams("p.a"))
			return g.Problem("p") != nil
		})
	}
	p.SetPrompts("b")
	p.Restart()
	wantNames(t, p, replicas, "b")
	for i, g := range replicas {
		upstreamtest.Eventually(t, fmt.Sprintf("replica %d is well", i), func() bool { return g.Problem("p") == nil })
		g.Modern("").Call("prompts/get", gatewaytest.GetParams("p.b")).Want(t, http.StatusOK, "from p")
	}
	p.AwaitStream().Offer("c")
	wantNames(t, p, replicas, "c")
}

// During a rolling change of the configuration, lists stay with the configurations that they were made for.
func TestSharedWatch_ReplicasThatAreReloadedDoNotMixLists(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if tenant := call.Header.Get("X-Tenant"); tenant != "" && call.Method == "prompts/list" {
			p.Respond(w, call, `{"prompts":[{"name":"of_`+tenant+`"}]}`)
			return true
		}
		return false
	})
	text := func(label, tenant string) string {
		p.Settings = ""
		if tenant != "" {
			p.Settings = fmt.Sprintf("headers = { X-Tenant = %q }", tenant)
		}
		p.Name = label
		return strings.ReplaceAll("gateway { cursor_keys = [\"%KEY%\"] }\ncluster { store = \""+store.URL()+"\" }\n"+gatewaytest.Team("eng", "", "", p),
			"%KEY%", strings.Repeat("QUJD", 10)+"QUI=")
	}
	var replicas []*gatewaytest.Reloadable
	for range 3 {
		replicas = append(replicas, gatewaytest.ServeReloadable(t, text("p", ""), gateway.Options{Version: "1"}))
	}
	for _, step := range []struct{ label, tenant, want string }{
		{"p", "one", "p.of_one"}, {"p", "two", "p.of_two"}, {"q", "two", "q.of_two"}, {"q", "", "q.a"},
	} {
		for i, r := range replicas {
			r.MustReload(text(step.label, step.tenant))
			upstreamtest.Eventually(t, fmt.Sprintf("replica %d lists %s", i, step.want), func() bool { // once it is admitted
				return slices.Equal(r.Modern("").List(), []string{step.want})
			})
		}
		for i, r := range replicas {
			if got := r.Modern("").List(); !slices.Equal(got, []string{step.want}) {
				t.Errorf("replica %d lists %s after all were reloaded, want %s", i, got, step.want)
			}
		}
	}
	p.AwaitStream()
	upstreamtest.Eventually(t, "one replica watches", func() bool {
		return watching(upstream.WatchingForAll, replicas[0].Server, replicas[1].Server, replicas[2].Server) == 1
	})
}

// Whatever happens to the store while the list changes, no replica ever goes back, and all have the last list in the end.
func TestSharedWatch_NoReplicaGoesBackWhateverTheStoreDoes(t *testing.T) {
	t.Parallel() // it waits
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "v0")
	replicas := replicasOf(t, store, 3, p)
	wantNames(t, p.AwaitStream(), replicas, "v0")
	done := make(chan struct{})
	var polling sync.WaitGroup
	for i, g := range replicas {
		polling.Go(func() {
			for last := 0; ; time.Sleep(2 * time.Millisecond) {
				select {
				case <-done:
					return
				default:
				}
				names := g.Modern("").List()
				version, err := strconv.Atoi(strings.TrimPrefix(strings.Join(names, ","), "p.v"))
				if err != nil || version < last {
					t.Errorf("replica %d lists %s after v%d", i, names, last)
					return
				}
				last = version
			}
		})
	}
	version := 0
	change := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			version++
			p.Offer(fmt.Sprintf("v%d", version))
		}
	}
	change(300 * time.Millisecond)
	for _, trouble := range []func(){
		func() { store.Command("FLUSHALL") }, store.Pause, store.Resume, store.Kill, store.Restart,
	} {
		trouble()
		change(1200 * time.Millisecond)
	}
	change(5 * time.Second)
	wantNames(t, p, replicas, fmt.Sprintf("v%d", version))
	close(done)
	polling.Wait()
}

// A replica that alone lost the store may know a later list than the holder. It does not go back when it follows again: the holder lists
// for it, and so all have the later one.
func TestSharedWatch_ReplicaThatKnowsMoreThanTheHolderDoesNotGoBack(t *testing.T) {
	t.Parallel() // it waits
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	p.Capabilities, p.Settings = `{"prompts":{}}`, `refresh = "1h"`
	replicas := replicasOf(t, store, 2, p)
	wantNames(t, p, replicas, "a")
	way := forward(t, strings.TrimPrefix(store.URL(), "redis://"))
	apart := gatewaytest.Serve(t, "gateway { cursor_keys = [\"%KEY%\"] }\ncluster { store = \"redis://"+way.address+"\" }\n"+
		gatewaytest.Team("eng", "", "", p))
	wantNames(t, p, []*gatewaytest.Server{apart}, "a")
	awaitFollowers(t, append(replicas, apart)...)
	way.close()
	p.SetPrompts("a", "b") // nobody is told
	wantNames(t, p, []*gatewaytest.Server{apart}, "a", "b")
	if got := replicas[0].Modern("").List(); len(got) != 1 {
		t.Errorf("the holder lists %s, although nobody has told it of the change", got)
	}
	way.open()
	upstreamtest.Eventually(t, "the replica follows again", func() bool {
		if got := apart.Modern("").List(); len(got) != 2 {
			t.Fatalf("the replica went back to %s", got)
		}
		return watching(upstream.WatchingOther, apart) == 1
	})
	wantNames(t, p, replicas, "a", "b")
	wantNames(t, p, []*gatewaytest.Server{apart}, "a", "b")
}

// way passes connections on to another address, as long as it is open.
type way struct {
	tb              testing.TB
	address, target string
	listener        net.Listener

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func forward(t *testing.T, target string) *way {
	t.Helper()
	w := &way{tb: t, address: upstreamtest.Address(t), target: target}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *way) open() {
	w.tb.Helper()
	l, err := net.Listen("tcp", w.address) //nolint:noctx // it does not block
	if err != nil {
		w.tb.Fatal(err)
	}
	w.listener = l
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", w.target) //nolint:noctx // it does not block
			if err != nil {
				_ = from.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, from, to)
			w.mu.Unlock()
			go func() { _, _ = io.Copy(to, from) }() // until it is closed
			go func() { _, _ = io.Copy(from, to) }()
		}
	}()
}

// close breaks all connections, and refuses further ones.
func (w *way) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// A lease is for a connection, not for a name: two blocks of one replica may have the same.
func TestSharedWatch_ReplicaWatchesOnceForTwoNames(t *testing.T) {
	store, w := clustertest.Start(t), serveWatched(t, "a")
	g := gatewaytest.Serve(t, "gateway { cursor_keys = [\"%KEY%\"] }\ncluster { store = \""+store.URL()+"\" }\n"+w.team("")+
		strings.NewReplacer(`"eng"`, `"ops"`, `"sdk"`, `"other"`).Replace(w.team("")))
	awaitStore(t, true, g)
	list := func() []string { return g.Modern("").List() }
	upstreamtest.Eventually(t, "both are listed", func() bool { return slices.Equal(list(), []string{"other.a", "sdk.a"}) })
	w.wantStreams(t, 1)
	upstreamtest.Eventually(t, "one watches for both", func() bool {
		return watching(upstream.WatchingForAll, g) == 1 && watching(upstream.WatchingOther, g) == 1
	})
	lists := w.lists.Load()
	upstreamtest.AddPrompt(w.sdk, "b")
	upstreamtest.Eventually(t, "both have the change", func() bool { return len(list()) == 4 })
	if got := w.lists.Load() - lists; got != 1 && watching(upstream.WatchingOther, g) == 1 { // else the store was late
		t.Errorf("%d lists for one change", got)
	}
}
