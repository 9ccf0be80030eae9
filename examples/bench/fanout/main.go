// Command fanout measures how much memory very many listening clients take, and how soon a change in one upstream reaches all
// of them. Three processes take part:
//
//	fanout ── the upstream ◀──── promptweir serve
//	       └─ all clients, one raw connection each ──▶ promptweir serve, and then bare
//
// The upstream and the clients share a process, and so a clock: a latency is the time from the upstream's notification to the
// client's read of list_changed. In between, the gateway lists the upstream. Half of the clients have a token that does not see
// every change.
//
// Program bare is the baseline for memory: the same streams on a plain net/http server. Memory is resident memory, once it
// has settled.
//
// Latencies and memory are printed and not judged. The exit code is 1 if a notification is missing, repeated, or sent to a
// client that cannot see the change.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// settings are the flags.
type settings struct {
	bin       string
	listeners int
	rounds    int
	legacy    bool
	timeout   time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.bin, "bin", "bin", "`directory` of the programs promptweir and bare")
	flag.IntVar(&s.listeners, "listeners", 10_000, "number of clients, half of them with the token that sees everything")
	flag.IntVar(&s.rounds, "rounds", 10, "number of changes of each kind")
	flag.BoolVar(&s.legacy, "legacy", false, "use GET streams of 2025-11-25 instead of subscriptions of 2026-07-28")
	flag.DurationVar(&s.timeout, "timeout", 5*time.Minute, "give up after this time")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1) //nolint:gocritic // the deferred calls release only what ends with the process
	}
}

// run measures both programs and prints the table. The error says which notifications were wrong.
func run(ctx context.Context, s settings) error {
	if err := enoughFiles(s.listeners); err != nil {
		return err
	}
	gateway, gatewayErr := measureGateway(ctx, s)
	if ctx.Err() != nil || gateway == nil {
		return gatewayErr
	}
	bare, err := measureBare(ctx, s)
	if err != nil {
		return errors.Join(gatewayErr, err)
	}
	printTable(s, gateway, bare)
	return gatewayErr
}

// figures are the results of one program.
type figures struct {
	opening             time.Duration
	idle, open, changed int64 // bytes of resident memory: before the clients, with all of them, after the rounds
	all, half           latencies
}

// perListener returns the memory of one client's stream.
func (f *figures) perListener(resident int64, listeners int) float64 {
	return float64(resident-f.idle) / float64(listeners)
}

// measureGateway measures the gateway. With its figures it may return an error that says which notifications were wrong.
func measureGateway(ctx context.Context, s settings) (*figures, error) {
	stage, err := newStage(ctx, s)
	if err != nil {
		return nil, err
	}
	defer stage.close()
	f, c, err := open(ctx, s, stage.gateway, stage.endpoint)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var broken error
	for round := range s.rounds {
		for _, kind := range []struct {
			prompt    string
			seen      func(*listener) bool
			latencies *latencies
		}{
			{"shared", func(*listener) bool { return true }, &f.all},
			{"secret", func(l *listener) bool { return l.token == everything }, &f.half},
		} {
			took, err := c.round(ctx, func() { stage.change(kind.prompt, round) }, kind.seen)
			if err != nil {
				broken = errors.Join(broken, fmt.Errorf("change %d of the %s prompt: %w", round+1, kind.prompt, err))
			}
			kind.latencies.add(took)
		}
	}
	if f.changed, err = stage.gateway.RSS(); err != nil {
		return nil, err
	}
	return f, broken
}

// measureBare measures the baseline.
func measureBare(ctx context.Context, s settings) (*figures, error) {
	bare, err := process.Start(ctx, filepath.Join(s.bin, "bare"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = bare.Stop() }() // measured by then
	endpoint, err := bare.Attr("endpoint")
	if err != nil {
		return nil, err
	}
	f, c, err := open(ctx, s, bare, endpoint)
	if err != nil {
		return nil, err
	}
	defer c.close()
	admin, err := bare.Attr("admin")
	if err != nil {
		return nil, err
	}
	for range 2 * s.rounds {
		took, err := c.round(ctx, func() { post(ctx, admin+"/change") }, func(*listener) bool { return true })
		if err != nil {
			return nil, fmt.Errorf("bare: %w", err)
		}
		f.all.add(took)
	}
	f.changed, err = bare.RSS()
	return f, err
}

// post sends an empty request. It reports no error: if it fails, the round that waits for its effect fails.
func post(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return
	}
	if response, err := http.DefaultClient.Do(r); err == nil {
		_ = response.Body.Close()
	}
}

// open opens the streams of all clients.
func open(ctx context.Context, s settings, p *process.Process, endpoint string) (*figures, *crowd, error) {
	f := &figures{}
	var err error
	if f.idle, err = p.RSS(); err != nil {
		return nil, nil, err
	}
	begun := time.Now()
	c, err := newCrowd(ctx, endpoint, s.listeners, s.legacy)
	if err != nil {
		return nil, nil, err
	}
	f.opening = time.Since(begun)
	if f.open, err = p.RSS(); err != nil {
		c.close()
		return nil, nil, err
	}
	return f, c, nil
}

func printTable(s settings, gateway, bare *figures) {
	revision := "subscriptions of 2026-07-28"
	if s.legacy {
		revision = "GET streams of 2025-11-25"
	}
	fmt.Printf("%d listening clients, %s, %d changes of each kind\n\n", s.listeners, revision, s.rounds)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer table.Flush()
	row := func(name, gateway, bare, ratio string) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", name, gateway, bare, ratio)
	}
	mib := func(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
	memory := func(name string, of func(*figures) int64) {
		g, b := gateway.perListener(of(gateway), s.listeners), bare.perListener(of(bare), s.listeners)
		row(name, mib(of(gateway)), mib(of(bare)), "")
		row("per listener", fmt.Sprintf("%.1f KiB", g/1024), fmt.Sprintf("%.1f KiB", b/1024), fmt.Sprintf("%.2f", g/b))
	}
	row("", "gateway", "bare", "ratio")
	row("all open within", seconds(gateway.opening), seconds(bare.opening), "")
	row("memory without clients", mib(gateway.idle), mib(bare.idle), "")
	memory("with all open", func(f *figures) int64 { return f.open })
	memory("after the changes", func(f *figures) int64 { return f.changed })
	for _, quantile := range []float64{0.5, 0.99, 1} {
		row(fmt.Sprintf("a change for all, p%g", 100*quantile), millis(gateway.all.quantile(quantile)), millis(bare.all.quantile(quantile)), "")
	}
	for _, quantile := range []float64{0.5, 0.99, 1} {
		row(fmt.Sprintf("a change for half, p%g", 100*quantile), millis(gateway.half.quantile(quantile)), "", "")
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// serve serves a handler on a free port of 127.0.0.1 until stop is called.
func serve(ctx context.Context, handler http.Handler) (url string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until stop
	return "http://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}
