//go:build store

package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main(m, map[string]func(args []string){"replica": replicaRole})
}

// watched is a server of the official SDK that counts how it is watched.
type watched struct {
	sdk *mcp.Server
	url string
	// lists are those that began, streams those that are open, sessions those that began.
	lists, streams, sessions atomic.Int64
}

func serveWatched(t *testing.T, names ...string) *watched {
	t.Helper()
	w := &watched{sdk: upstreamtest.SDK(mcp.ServerOptions{}, names...)}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.sdk }, nil)
	w.url = upstreamtest.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.streams.Add(1)
			defer w.streams.Add(-1)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch {
		case bytes.Contains(body, []byte(`"prompts/list"`)) && !bytes.Contains(body, []byte(`"cursor"`)):
			w.lists.Add(1)
		case bytes.Contains(body, []byte(`"initialize"`)):
			w.sessions.Add(1)
		case bytes.Contains(body, []byte(`"subscriptions/listen"`)):
			w.streams.Add(1)
			defer w.streams.Add(-1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(rw, r)
	})).URL
	return w
}

// team returns the configuration of a team with the server.
func (w *watched) team(more string) string {
	return fmt.Sprintf("team \"eng\" {\n upstream \"sdk\" {\n url = %q\n %s\n }\n}\n", w.url, more)
}

// wantWatch waits until as many streams are open.
func (w *watched) wantStreams(t *testing.T, n int64) {
	t.Helper()
	upstreamtest.Eventually(t, fmt.Sprint(n, " streams are open"), func() bool { return w.streams.Load() == n })
}

// add adds a prompt, and waits until some gateways list it.
func (w *watched) add(t *testing.T, name string, gateways ...*gatewaytest.Server) {
	t.Helper()
	upstreamtest.AddPrompt(w.sdk, name)
	wantListed(t, name, gateways...)
}

func wantListed(t *testing.T, name string, gateways ...*gatewaytest.Server) {
	t.Helper()
	for _, g := range gateways {
		upstreamtest.Eventually(t, name+" is listed", func() bool { return slices.Contains(g.Modern("").List(), "sdk."+name) })
	}
}

// watching returns how many endpoints of gateways take a part.
func watching(part upstream.Watching, gateways ...*gatewaytest.Server) (n int) {
	for _, g := range gateways {
		for _, s := range g.Snapshot().States {
			for _, e := range s.Endpoints {
				if e.Watching == part {
					n++
				}
			}
		}
	}
	return n
}

func TestSharedWatch_OneReplicaListsForAll(t *testing.T) {
	for _, n := range []int{1, 3, 10} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			store, w := clustertest.Start(t), serveWatched(t, "a", "b", "c")
			replicas := serveReplicas(t, store, n, "gateway { %CLUSTER% }\n"+w.team(""))
			wantListed(t, "c", replicas...)
			w.wantStreams(t, 1)
			changes := 0
			whileShared(t, replicas, func() (wrong string) {
				lists := w.lists.Load() // usually 1, but the store may be late
				for range 5 {
					changes++
					w.add(t, fmt.Sprintf("new%d", changes), replicas...)
				}
				if got := w.lists.Load() - lists; got != 5 {
					wrong = fmt.Sprintf("%d lists for 5 changes and %d replicas", got, n)
				}
				return wrong
			})
			w.wantStreams(t, 1)
			awaitFollowers(t, replicas...)
			if holders, others := watching(upstream.WatchingForAll, replicas...), watching(upstream.WatchingOther, replicas...); holders != 1 || others != n-1 {
				t.Errorf("%d replicas watch for all, and %d leave it to another, of %d", holders, others, n)
			}
			seen := map[string]int{}
			for _, g := range replicas {
				ready := gatewaytest.Send(t, http.MethodGet, g.AdminURL+"/readyz", "", nil).Body
				for _, part := range []string{"for_all", "other"} {
					seen[part] += strings.Count(ready, fmt.Sprintf(`"watching": %q`, part))
				}
			}
			if seen["for_all"] != 1 || seen["other"] != n-1 {
				t.Errorf("readyz of %d replicas: %v", n, seen)
			}
			for _, g := range replicas {
				g.Modern("").Call("prompts/get", gatewaytest.GetParams("sdk.new4")).Want(t, http.StatusOK, "new4: ")
			}
		})
	}
}

func TestSharedWatch_ReplicasWithOtherHeadersShareNothing(t *testing.T) {
	t.Parallel() // it waits
	store, w := clustertest.Start(t), serveWatched(t, "a")
	start := func(headers, shared string) *gatewaytest.Server {
		return gatewaytest.Serve(t, "gateway { cursor_keys = [\"%KEY%\"] }\ncluster {\n store = \""+store.URL()+"\"\n"+shared+"\n}\n"+w.team(headers))
	}
	replicas := []*gatewaytest.Server{
		start("", ""), start(`headers = { X-Tenant = "one" }`, ""), start(`headers = { X-Tenant = "two" }`, ""), start(`max_prompts = 7`, ""),
		start("", "shared_watch = false"), start("", "shared_watch = false"),
	}
	awaitStore(t, true, replicas...)
	wantListed(t, "a", replicas...)
	w.wantStreams(t, 6)
	same := start(`headers = { X-Tenant = "one" }`, "")
	wantListed(t, "a", same)
	w.add(t, "b", append(replicas, same)...)
	w.wantStreams(t, 6)
	if n := watching("", replicas...); n != 2 {
		t.Errorf("%d replicas do not share, want the 2 that are not to", n)
	}
}

func TestSharedWatch_PassesOnWhenAReplicaStops(t *testing.T) {
	t.Parallel() // it waits
	store, w := clustertest.Start(t), serveWatched(t, "a")
	replicas := serveReplicas(t, store, 3, "gateway { %CLUSTER% }\n"+w.team(""))
	for i := range 2 {
		w.wantStreams(t, 1)
		awaitFollowers(t, replicas...)
		holder := slices.IndexFunc(replicas, func(g *gatewaytest.Server) bool { return watching(upstream.WatchingForAll, g) == 1 })
		began := time.Now()
		replicas[holder].Stop()
		replicas = slices.Delete(replicas, holder, holder+1)
		upstreamtest.Eventually(t, "another one watches for all", func() bool { return watching(upstream.WatchingForAll, replicas...) == 1 })
		if took := time.Since(began); took > 5*time.Second { // less than a lease
			t.Errorf("it took %v", took)
		}
		w.add(t, fmt.Sprintf("new%d", i), replicas...)
	}
}

// While the store is away each replica watches for itself, and no change is lost on the way there and back.
func TestSharedWatch_IsEachReplicasOwnWithoutTheStore(t *testing.T) {
	t.Parallel() // it waits
	store, w := clustertest.Start(t), serveWatched(t, "a")
	replicas := serveReplicas(t, store, 3, "gateway { %CLUSTER% }\n"+w.team(""))
	w.wantStreams(t, 1)
	store.Kill()
	w.add(t, "killed", replicas...)
	w.wantStreams(t, 3)
	store.Restart()
	w.add(t, "restarted", replicas...)
	w.wantStreams(t, 1)
	w.add(t, "shared", replicas...)
	store.Command("FLUSHALL")
	w.add(t, "emptied", replicas...)
	w.wantStreams(t, 1)
	if got := watching(upstream.WatchingAlone, replicas...); got != 0 {
		t.Errorf("%d replicas still watch alone", got)
	}
}

// A Sentinel puts another server in the place of the store that was killed. Nobody keeps an old list, before that and after it.
func TestSharedWatch_FollowsAFailoverOfTheStore(t *testing.T) {
	t.Parallel() // it waits
	f, w := clustertest.StartFailover(t), serveWatched(t, "a", "old")
	replicas := serveReplicas(t, f, 3, "gateway { %CLUSTER% }\n"+w.team(""))
	wantListed(t, "old", replicas...)
	w.wantStreams(t, 1)
	f.LoseWrites()
	w.add(t, "lost", replicas...) // the new master has the list of before
	f.Master.Kill()
	w.sdk.RemovePrompts("old")
	w.add(t, "meanwhile", replicas...)
	upstreamtest.Eventually(t, "another server is the store", f.IsOver)
	awaitStore(t, true, replicas...)
	w.wantStreams(t, 1)
	w.add(t, "after", replicas...)
	for i, g := range replicas {
		if got := len(g.Modern("").List()); got != 4 || slices.Contains(g.Modern("").List(), "sdk.old") {
			t.Errorf("replica %d lists %s, want 4 prompts without the one that was removed", i, g.Modern("").List())
		}
	}
	upstreamtest.Eventually(t, "one replica watches for all, and two leave it to that one", func() bool {
		return watching(upstream.WatchingForAll, replicas...) == 1 && watching(upstream.WatchingOther, replicas...) == 2
	})
}

// process is a replica in a process of its own, that can be stopped in every way.
type process struct {
	*gatewaytest.Server
	*os.Process
}

// replicaRole serves the configuration in a file, and prints its address.
func replicaRole(args []string) {
	cfg, diags := config.Load(args[0], config.Options{})
	if err := diags.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	g, err := gateway.New(cfg, gateway.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Version: "1"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { _ = g.Run(context.Background()) }() // until the process is killed
	fmt.Printf("http://%s/mcp\n", l.Addr())
	_ = (&http.Server{Handler: g.Handler(), ReadHeaderTimeout: time.Minute}).Serve(l)
}

func startProcess(t *testing.T, text string) process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	text = strings.ReplaceAll(text, "%KEY%", strings.Repeat("QUJD", 10)+"QUI=")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	child := upstreamtest.Child(t, "replica", "replica", path)
	cmd := exec.Command(child.Command[0], child.Command[1:]...) //nolint:noctx // it ends with the test
	cmd.Env = os.Environ()
	for name, value := range child.Env {
		cmd.Env = append(cmd.Env, name+"="+value.Reveal())
	}
	var log lockedBuffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been killed before
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("replica:\n%s", log.String())
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, log.String())
	}
	return process{&gatewaytest.Server{TB: t, URL: strings.TrimSpace(url)}, cmd.Process}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func (p process) send(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// holderFirst starts a replica in a process of its own that watches for all, and others in this one.
func holderFirst(t *testing.T, store *clustertest.Store, w *watched) (process, []*gatewaytest.Server) {
	t.Helper()
	text := "gateway { %CLUSTER% }\n" + w.team("")
	p := startProcess(t, strings.ReplaceAll(text, "%CLUSTER%", "cursor_keys = [\"%KEY%\"]")+"\ncluster { store = \""+store.URL()+"\" }\n")
	wantListed(t, "a", p.Server)
	others := serveReplicasAs(t, store, 2, text, "1")
	wantListed(t, "a", others...)
	w.wantStreams(t, 1)
	upstreamtest.Eventually(t, "both follow the one in another process", func() bool { return watching(upstream.WatchingOther, others...) == 2 })
	return p, others
}

func TestSharedWatch_IsTakenFromAReplicaThatIsKilled(t *testing.T) {
	t.Parallel() // it waits
	store, w := clustertest.Start(t), serveWatched(t, "a")
	p, others := holderFirst(t, store, w)
	lists := w.lists.Load()
	p.send(t, syscall.SIGKILL)
	wasAlone := watchedAlone(t, others...)
	began := time.Now()
	w.add(t, "meanwhile", others...) // nobody watches
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a change was seen %v after the replica that watched was killed", took)
	}
	w.wantStreams(t, 1)
	w.add(t, "later", others...)
	if got := w.lists.Load() - lists; got != 2 && !wasAlone() {
		t.Errorf("%d lists, want one at the takeover and one for the change after it", got)
	}
}

// watchedAlone returns a function that reports whether a replica has watched for itself since, as it is to where the store seems to be late,
// on a busy machine. It does so for seconds, so that looking at it now and then is enough.
func watchedAlone(t *testing.T, replicas ...*gatewaytest.Server) func() bool {
	t.Helper()
	var alone atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			if watching(upstream.WatchingAlone, replicas...) > 0 {
				alone.Store(true)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		looking.Wait()
	})
	return alone.Load
}

// A holder that was stopped for longer than its lease, in the middle of a list or not, brings back nothing that it knew.
func TestSharedWatch_IsNotGivenBackToAReplicaThatWasStopped(t *testing.T) {
	t.Parallel() // it waits
	store, w := clustertest.Start(t), serveWatched(t, "a", "old")
	p, others := holderFirst(t, store, w)
	p.send(t, syscall.SIGSTOP)
	w.sdk.RemovePrompts("old")
	w.add(t, "new", others...)
	p.send(t, syscall.SIGCONT)
	wantListed(t, "new", p.Server)
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for i, g := range append(others, p.Server) {
			if names := g.Modern("").List(); slices.Contains(names, "sdk.old") || !slices.Contains(names, "sdk.new") {
				t.Fatalf("replica %d went back to %s", i, names)
			}
		}
	}
	w.wantStreams(t, 1)
	w.add(t, "newer", append(others, p.Server)...)
}
