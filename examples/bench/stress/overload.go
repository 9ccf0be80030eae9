package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// soonEnough is what the 99th percentile of the latency must not exceed at the capacity, and nearlyAll the share of requests that
	// must be answered with a result.
	soonEnough = 100 * time.Millisecond
	nearlyAll  = 0.999
	// probeLength is how long each rate is tried in the search for the capacity, and halvings how often the interval is halved.
	probeLength = 2 * time.Second
	halvings    = 4
	// openTimeout is how long a client waits for a response.
	openTimeout = 15 * time.Second
	// calm is how many goroutines a gateway without load has at most: two for each connection to one of the two servers that is kept
	// alive. And calmTimeout is how long it may take to get there.
	calm        = 2*2*config.DefaultConcurrency + 100
	calmTimeout = time.Minute
	// lookInterval is the pause between two looks of an operator.
	lookInterval = 100 * time.Millisecond
	// At twice a server's capacity, the goodput is at least this share of the capacity, and the p99 of another server's gets at most
	// so many times what it is without load, or a few milliseconds.
	leastGoodput   = 0.9
	mostNeighbours = 1.5
	leastLate      = 10 * time.Millisecond
)

// bound is what bounds the requests per second: the gateway, on one core, or a server with a few workers.
type bound struct {
	name string
	// workers are those of the server, first is the rate at which the search for the capacity begins.
	workers string
	first   float64
}

// runOverload finds the capacity, the highest rate at which 99 of 100 results take less than 100 ms, and offers multiples of it in an
// open loop.
func runOverload(ctx context.Context, s *settings) error {
	var broken error
	for _, b := range []bound{{"gateway", "0", 2000}, {"server", "10", 200}} { // of the latter 500 gets a second
		if !s.only.MatchString(b.name) {
			continue
		}
		fmt.Printf("Capacity of the %s:\n\n| × capacity | offered/s | goodput/s | refused | lost | p50 | p99 | refusals, p99 | neighbour, p99 | RSS MiB | goroutines | "+
			"operators, slowest |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", b.name)
		if err := b.overload(ctx, s); err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", b.name, err))
		}
	}
	return broken
}

// crowded is a gateway with a server behind it that everybody asks, and a neighbour.
type crowded struct {
	gateway   *rig.Gateway
	client    rig.Client
	transport *http.Transport
	get       rig.Open
}

func (b bound) overload(ctx context.Context, s *settings) error {
	server, err := startServer(ctx, "-modern", "-workers", b.workers)
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	neighbour, err := startServer(ctx, "-modern")
	if err != nil {
		return err
	}
	defer func() { _ = neighbour.Kill() }()
	configuration := fmt.Sprintf("gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\nteam \"crowd\" {\n"+
		"  upstream \"up\" { url = %q }\n  upstream \"neighbour\" { url = %q }\n}\n", server.Endpoint, neighbour.Endpoint)
	g, err := rig.StartGateway(ctx, configuration, nil, "taskset", "-c", s.core, "env", "GOMAXPROCS=1", s.promptweir())
	if err != nil {
		return err
	}
	defer g.Stop()
	w := &crowded{gateway: g, transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	w.client = rig.Client{Endpoint: g.Endpoint, Transport: w.transport}
	raw := w.client.Raw(1, wire.PromptsGet, fmt.Sprintf(`"name":"up.%s"`, promptName))
	w.get = rig.Open{Address: g.Address(), Timeout: openTimeout, Raw: raw}
	capacity, err := w.capacity(ctx, b.first)
	if err != nil {
		return err
	}
	var broken error
	usual := time.Duration(0)
	for _, multiple := range []float64{0.5, 0.9, 2, 3} {
		o, err := w.offer(ctx, multiple*capacity, s.length)
		if err != nil {
			return fmt.Errorf("at %.1f of the capacity: %w", multiple, err)
		}
		share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(o.Sent, 1))) }
		fmt.Printf("| %.1f | %.0f | %.0f | %s | %s | %s | %s | %s | %s | %d | %d | %s, %s |\n", multiple, multiple*capacity, o.Goodput(), share(o.Refused), share(o.Lost),
			rig.Milliseconds(o.P50), rig.Milliseconds(o.P99), rig.Milliseconds(o.RefusedP99), rig.Milliseconds(o.neighbour), o.Memory>>20, o.Goroutines,
			rig.Milliseconds(o.Slowest), o.Page)
		switch {
		case multiple < 1:
			usual = max(usual, o.neighbour)
		case multiple == 2 && b.name == "server" && !s.busy:
			if o.Goodput() < leastGoodput*capacity {
				broken = errors.Join(broken, fmt.Errorf("%.0f results a second at twice the capacity of %.0f", o.Goodput(), capacity))
			}
			if most := max(time.Duration(mostNeighbours*float64(usual)), leastLate); o.neighbour > most {
				broken = errors.Join(broken, fmt.Errorf("the p99 of the neighbour's gets is %v, more than %v", o.neighbour, most))
			}
		}
	}
	return broken
}

func (w *crowded) capacity(ctx context.Context, first float64) (float64, error) {
	var failed error
	holds := func(rate float64) bool {
		o, err := w.offer(ctx, rate, probeLength)
		failed = errors.Join(failed, err)
		return err == nil && o.P99 < soonEnough && float64(o.Good) >= nearlyAll*float64(max(o.Sent, 1))
	}
	low, high := 0.0, first
	for holds(high) {
		low, high = high, 2*high
	}
	for range halvings {
		if middle := (low + high) / 2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	if failed == nil && low == 0 {
		failed = fmt.Errorf("at %.0f a second, results take longer than %v, or do not come", high, soonEnough)
	}
	return low, failed
}

// offered is what happened under one load.
type offered struct {
	rig.Outcome
	looks

	neighbour time.Duration // the p99 of gets of the other server
}

// offer puts a load on the gateway, watches it, and waits until it has calmed down.
func (w *crowded) offer(ctx context.Context, rate float64, length time.Duration) (o offered, err error) {
	finish, err := startOperator(ctx, w.gateway.Admin)
	if err != nil {
		return o, err
	}
	others := rig.Pace(ctx, neighbourRate, func(ctx context.Context) error { return w.client.Get(ctx, "neighbour."+promptName) })
	get := w.get
	get.Rate = rate
	o.Outcome = get.Run(ctx, length)
	o.neighbour = rig.QuantileOf(others.Stop(), 99)
	w.transport.CloseIdleConnections() // which the gateway has open, too
	if o.looks, err = finish(); err != nil {
		return o, err
	}
	return o, rig.Eventually(calmTimeout, func() error {
		u, err := usageOf(ctx, w.gateway)
		if err == nil && u.goroutines >= calm {
			err = fmt.Errorf("%d goroutines after the load", u.goroutines)
		}
		return err
	})
}

// looks are what an operator reports.
type looks struct {
	// Slowest is the longest that a page took, and Page that page.
	Slowest time.Duration
	Page    string
	// Goroutines and Memory, in bytes, are the most that the gateway had.
	Goroutines, Memory int
}

// startOperator starts somebody who looks at the admin listener, in a process of its own: in that of the load, it would wait for its turn
// among thousands of clients, and what it measures would say little about the gateway.
func startOperator(ctx context.Context, admin string) (finish func() (looks, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self, "operator", admin)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return func() (seen looks, err error) {
		_ = input.Close()
		err = json.NewDecoder(output).Decode(&seen)
		return seen, errors.Join(err, command.Wait())
	}, command.Start()
}

// operate is the operator's process: it looks until its standard input ends, and prints what it has seen. Every other look connects anew, as
// load balancers and kubelets do for each.
func operate(ctx context.Context, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	pages := []string{"/readyz", "/healthz", "/metrics"}
	var seen looks
	for i := 0; ctx.Err() == nil; i++ {
		begun, page := time.Now(), pages[i%len(pages)]
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), calmTimeout)
		text, err := rig.Fetch(bounded, http.MethodGet, args[0]+page)
		stop()
		if err != nil {
			return err
		}
		if took := time.Since(begun); took > seen.Slowest {
			seen.Slowest, seen.Page = took, page
		}
		goroutines, _ := rig.Metric(text, "go_goroutines") // 0 on the other pages
		memory, _ := rig.Metric(text, "process_resident_memory_bytes")
		seen.Goroutines, seen.Memory = max(seen.Goroutines, int(goroutines)), max(seen.Memory, int(memory))
		if i%2 == 1 {
			http.DefaultClient.CloseIdleConnections()
		}
		_ = rig.Pause(ctx, lookInterval) // the loop ends with ctx
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}
