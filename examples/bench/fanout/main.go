// Command fanout measures what very many listening clients cost the gateway, and how soon one upstream's change
// reaches all of them. Three processes take part, on this machine only:
//
//	fanout ── the upstream ◀──── promptweir serve
//	       └─ all clients, one raw connection each ──▶ promptweir serve, and then bare
//
// The upstream and the clients share this process so that one clock serves: a time is from the upstream's word that its
// list has changed to the client's read of list_changed, with the list that the gateway asks for in between. Half of
// the clients hold a token that does not see every change.
//
// Program bare is the yardstick for memory: the same streams on a net/http server that knows nothing. Memory is
// resident memory from /proc, once it has come to rest.
//
// The exit code is 1 where a promise is broken that is not about speed: a client that should hear of a change hears of
// it exactly once, one that cannot see it never.
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
	flag.StringVar(&s.bin, "bin", "bin", "`folder` of the programs promptweir and bare")
	flag.IntVar(&s.listeners, "listeners", 10_000, "clients, half of them with the token that sees everything")
	flag.IntVar(&s.rounds, "rounds", 10, "changes of each kind")
	flag.BoolVar(&s.legacy, "legacy", false, "listen on GET streams of 2025-11-25 instead of subscriptions of 2026-07-28")
	flag.DurationVar(&s.timeout, "timeout", 5*time.Minute, "when to give up")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1) //nolint:gocritic // what is deferred ends with the process
	}
}

// run measures both programs, prints the table and returns what was broken.
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

// enoughFiles looks whether a process may hold that many connections. Go raises the soft limit to the hard one by
// itself, here and in the programs that are measured.
func enoughFiles(listeners int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < uint64(listeners)+200 {
		return fmt.Errorf("%d listeners need more open files than the hard limit of %d (ulimit -Hn)", listeners, limit.Max)
	}
	return nil
}

// figures are what was measured of one program.
type figures struct {
	opening             time.Duration
	idle, open, changed int64 // bytes of resident memory: before the clients, with all of them, after the rounds
	all, half           latencies
}

// perListener is the memory of one client's stream.
func (f *figures) perListener(resident int64, listeners int) float64 {
	return float64(resident-f.idle) / float64(listeners)
}

// measureGateway returns what the gateway took, and which promises it broke.
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
			prompt string
			seen   func(*listener) bool
			taken  *latencies
		}{
			{"shared", func(*listener) bool { return true }, &f.all},
			{"secret", func(l *listener) bool { return l.token == everything }, &f.half},
		} {
			took, err := c.round(ctx, func() { stage.change(kind.prompt, round) }, kind.seen)
			if err != nil {
				broken = errors.Join(broken, fmt.Errorf("change %d of the %s prompt: %w", round+1, kind.prompt, err))
			}
			kind.taken.add(took)
		}
	}
	if f.changed, err = stage.gateway.RSS(); err != nil {
		return nil, err
	}
	return f, broken
}

// measureBare returns what the program without a gateway in it took.
func measureBare(ctx context.Context, s settings) (*figures, error) {
	bare, err := process.Start(ctx, filepath.Join(s.bin, "bare"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = bare.Stop() }() // nothing of it is needed any more
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

// post sends an empty request. If it fails, the round that waits for its effect does.
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
	row := func(what, gateway, bare, ratio string) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", what, gateway, bare, ratio)
	}
	mib := func(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
	memory := func(what string, of func(*figures) int64) {
		g, b := gateway.perListener(of(gateway), s.listeners), bare.perListener(of(bare), s.listeners)
		row(what, mib(of(gateway)), mib(of(bare)), "")
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

// serve serves a handler on a free port of loopback until stop is called.
func serve(ctx context.Context, handler http.Handler) (url string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until stop
	return "http://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}
