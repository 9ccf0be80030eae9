package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/admin"
)

// soaked is a running gateway.
type soaked struct {
	endpoint string
	close    func()
}

// startGateway starts a gateway in front of the world.
func startGateway(ctx context.Context, s settings, w *world) (*soaked, error) {
	cfg, err := configure(s, w)
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(cfg, gateway.Options{Version: "soak"})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: g.Handler(), ReadHeaderTimeout: time.Minute}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(listener) }()
	go func() { ended <- g.Run(ctx) }()
	started := &soaked{"http://" + listener.Addr().String() + cfg.Gateway.Path, func() {
		g.Drain()
		_ = server.Close() // the process is about to exit
		cancel()
		for range cap(ended) {
			<-ended //nolint:errcheck // says only that it was stopped
		}
	}}
	if err := listed(ctx, g); err != nil {
		started.close()
		return nil, err
	}
	return started, nil
}

// listed waits until the gateway has listed every upstream: from then on all permanent prompts must be visible.
func listed(ctx context.Context, g *gateway.Gateway) error {
	for end := time.Now().Add(patience); time.Now().Before(end); pause(ctx, 50*time.Millisecond) {
		waiting := slices.DeleteFunc(g.Ready().Upstreams, func(u admin.UpstreamHealth) bool { return u.Listed })
		if len(waiting) == 0 {
			return nil
		}
	}
	return fmt.Errorf("some upstreams are not listed after %s: %+v", patience, g.Ready().Upstreams)
}

// configure writes the gateway's configuration and loads it as the command line does. It has a token for the member of each team,
// and one for the member of both.
func configure(s settings, w *world) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var text strings.Builder
	fmt.Fprintf(&text, "gateway {\n  listen = \"127.0.0.1:0\"\n  page_size = %d\n}\nauth {\n", s.pageSize)
	for _, a := range audiences() {
		sum := sha256.Sum256([]byte(a.token))
		fmt.Fprintf(&text, "  token %q { sha256 = %q }\n", a.token, hex.EncodeToString(sum[:]))
	}
	text.WriteString("}\n")
	for team := range teams {
		fmt.Fprintf(&text, "team \"team%d\" {\n  members = [", team)
		for _, a := range audiences() {
			if a.in(team) {
				fmt.Fprintf(&text, "%q, ", "user:"+a.token)
			}
		}
		text.WriteString("]\n")
		for _, u := range w.upstreams {
			if u.team == team {
				fmt.Fprintf(&text, "  upstream %q { %s }\n", u.name, u.host.block())
			}
		}
		text.WriteString("}\n")
	}
	file := filepath.Join(dir, "gateway.hcl")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	cfg, diagnostics := config.Load(file, config.Options{})
	return cfg, diagnostics.Err()
}

// usage is what a process has in use.
type usage struct {
	goroutines int
	heap       uint64
	stacks     string // of the goroutines, to report those that leaked
}

// The second part may leave a little more in use than the first: connections are kept for a while, and pools fill.
const (
	goroutineTolerance = 30
	heapTolerance      = 8 << 20
	heapFactor         = 1.2
	// winding is how long connections and goroutines may take to end.
	winding = 15 * time.Second
)

// measure returns the least usage within a while, during which it closes idle connections with the given functions.
func measure(idle ...func()) usage {
	var least usage
	for end := time.Now().Add(winding); time.Now().Before(end); time.Sleep(winding / 15) {
		for _, closeIdle := range idle {
			closeIdle()
		}
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		if n := runtime.NumGoroutine(); least.goroutines == 0 || n < least.goroutines {
			least.goroutines = n
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a Builder never fails
			least.stacks = stacks.String()
		}
		if least.heap == 0 || stats.HeapAlloc < least.heap {
			least.heap = stats.HeapAlloc
		}
	}
	return least
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MiB of heap", u.goroutines, float64(u.heap)/(1<<20))
}

// against returns an error if more is in use than before.
func (u usage) against(before usage) error {
	if u.goroutines > before.goroutines+goroutineTolerance {
		return fmt.Errorf("goroutines leak: %d before, %d now:\n%s", before.goroutines, u.goroutines, u.stacks)
	}
	if float64(u.heap) > heapFactor*float64(before.heap)+heapTolerance {
		return fmt.Errorf("memory leaks: %v before, %v now", before, u)
	}
	return nil
}
