package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// soonEnough is what the 99th percentile of the latency must not exceed at the capacity, and
	// nearlyAll the share of requests that must be answered with a result.
	soonEnough = 100 * time.Millisecond
	nearlyAll  = 0.999
	// probeLength is how long each rate is tried in the search for the capacity, and halvings how often
	// the interval is halved.
	probeLength = 2 * time.Second
	halvings    = 4
	// openTimeout is how long a client waits for a response.
	openTimeout = 15 * time.Second
	// calm is how many goroutines a gateway without load has at most: two for each connection to one of
	// the two servers that is kept alive. And calmTimeout is how long it may take to get there.
	calm        = 2*2*config.DefaultConcurrency + 100
	calmTimeout = time.Minute
	// looks is how often an operator looks at a page, each second.
	looks = 10
	// At twice a server's capacity, the goodput is at least this share of the capacity, and the p99 of
	// another server's gets at most so many times what it is without load, or a few milliseconds.
	leastGoodput   = 0.9
	mostNeighbours = 1.5
	leastLate      = 10 * time.Millisecond
)

// crowded is a gateway with a server behind it that everybody asks, and a neighbour.
type crowded struct {
	st        *rig.Stage
	gateway   *rig.Gateway
	client    rig.Client
	transport *http.Transport
	pool      *rig.Pool
}

// runOverload finds the capacity, the highest rate at which 99 of 100 results take less than 100 ms, and
// offers multiples of it: that of the gateway, on one core, and that of a server with a few workers.
func runOverload(ctx context.Context, s *settings) (broken error) {
	for _, bound := range []struct {
		name    string
		workers int     // of the server, which answer in 20 ms; 0 means no bound, and no delay
		first   float64 // rate of the search for the capacity
	}{{"gateway", 0, 2000}, {"server", 10, 200}} { // of the latter 500 gets a second
		if !s.only.MatchString(bound.name) {
			continue
		}
		kept := &checks{}
		err := rig.Run(ctx, func(st *rig.Stage) {
			w := newCrowded(st, s, bound.workers)
			capacity := w.capacity(bound.first)
			w.overload(s, capacity, bound.name, kept)
		})
		if err = errors.Join(err, kept.err()); err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", bound.name, err))
		}
	}
	return broken
}

func newCrowded(st *rig.Stage, s *settings, workers int) *crowded {
	server := newNeighbour(false)
	if server.Workers = workers; workers > 0 {
		server.Delay = 20 * time.Millisecond
	}
	text := fmt.Sprintf("gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\n"+
		"team \"crowd\" {\n  upstream \"up\" { url = %q }\n  upstream \"neighbour\" { url = %q }\n}\n",
		st.Serve(server), st.Serve(newNeighbour(false)))
	g := st.Gateway(text, nil, "taskset", "-c", s.core, "env", "GOMAXPROCS=1", s.promptweir())
	w := &crowded{st: st, gateway: g, transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	w.client = rig.Client{Endpoint: g.Endpoint, Transport: w.transport}
	raw := w.client.Raw(1, wire.PromptsGet, fmt.Sprintf(`"name":"up.%s"`, promptName))
	w.pool = &rig.Pool{Address: g.Address(), Timeout: openTimeout, Raw: raw}
	st.Defer(w.transport.CloseIdleConnections)
	return w
}

func (w *crowded) overload(s *settings, capacity float64, name string, kept *checks) {
	fmt.Printf("Capacity of the %s:\n\n| × capacity | offered/s | goodput/s | refused | lost | p50 | p99 | "+
		"refusals, p99 | neighbour, p99 | RSS MiB | goroutines | operators, slowest |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", name)
	usual := time.Duration(0)
	for _, multiple := range []float64{0.5, 0.9, 2, 3} {
		o := w.offer(multiple*capacity, s.length)
		all := float64(max(len(o.good)+len(o.refused)+len(o.lost), 1))
		share := func(some rig.Gots) string { return fmt.Sprintf("%.1f %%", 100*float64(len(some))/all) }
		goodput, neighbour := float64(len(o.good))/o.length.Seconds(), o.neighbour.Quantile(99)
		fmt.Printf("| %.1f | %.0f | %.0f | %s | %s | %s | %s | %s | %s | %d | %d | %s |\n", multiple,
			multiple*capacity, goodput, share(o.refused), share(o.lost), rig.Milliseconds(o.good.Quantile(50)),
			rig.Milliseconds(o.good.Quantile(99)), rig.Milliseconds(o.refused.Quantile(99)),
			rig.Milliseconds(neighbour), o.memory>>20, o.goroutines, rig.Milliseconds(o.operator.Quantile(100)))
		switch {
		case multiple < 1:
			usual = max(usual, neighbour)
		case multiple == 2 && name == "server" && !s.busy:
			kept.want(goodput >= leastGoodput*capacity, "%.0f results a second at twice the capacity of %.0f",
				goodput, capacity)
			most := max(time.Duration(mostNeighbours*float64(usual)), leastLate)
			kept.want(neighbour <= most, "the p99 of the neighbour's gets is %v, more than %v", neighbour, most)
		}
	}
}

func (w *crowded) capacity(first float64) float64 {
	holds := func(rate float64) bool {
		o := w.offer(rate, probeLength)
		return o.good.Quantile(99) < soonEnough && float64(len(o.good)) >= nearlyAll*rate*o.length.Seconds()
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
	if low == 0 {
		rig.Check(fmt.Errorf("at %.0f a second, results take longer than %v, or do not come", high, soonEnough))
	}
	return low
}

// offered is what happened under one load: gets that were answered, refused, and lost, those of the
// other server, and an operator's pages.
type offered struct {
	length                                   time.Duration
	good, refused, lost, neighbour, operator rig.Gots
	// memory, in bytes, and goroutines are the most that the gateway had.
	memory     int64
	goroutines int
}

// offer puts a load on the gateway, watches it, and waits until it has calmed down. What is sent in the
// first part, a quarter, does not count. What counts begins when it was due.
func (w *crowded) offer(rate float64, length time.Duration) (o offered) {
	ctx, pages := w.st.Context(), []string{"/readyz", "/healthz", "/metrics"}
	operator := rig.Pace(ctx, looks, func(ctx context.Context) error {
		_, err := rig.Fetch(ctx, http.MethodGet, w.gateway.Admin+pages[time.Now().UnixMilli()%3])
		return err
	})
	others := get(ctx, &w.client, "neighbour."+promptName, neighbourRate)
	load, begun := rig.Pace(ctx, rate, w.pool.Send), time.Now()
	for time.Since(begun) < length {
		_, memory := w.gateway.Usage()
		o.memory, o.goroutines = max(o.memory, memory), max(o.goroutines, goroutines(ctx, w.gateway))
		w.st.Pause(min(length/4, time.Second))
	}
	counted := begun.Add(length / 4)
	o.length = time.Since(counted)
	all := load.Stop().Between(counted, time.Now())
	for i := range all {
		all[i].Took += all[i].Late
	}
	o.good = all.Where(func(g rig.Got) bool { return g.Err == nil })
	o.refused = all.Where(func(g rig.Got) bool { return errors.Is(g.Err, rig.ErrRefused) })
	o.lost = all.Where(func(g rig.Got) bool { return g.Err != nil && !errors.Is(g.Err, rig.ErrRefused) })
	o.neighbour, o.operator = others.Stop(), operator.Stop()
	w.pool.Close()
	w.transport.CloseIdleConnections() // which the gateway has open, too
	rig.Check(rig.Eventually(calmTimeout, func() error {
		if n := goroutines(ctx, w.gateway); n >= calm {
			return fmt.Errorf("%d goroutines after the load", n)
		}
		return nil
	}))
	return o
}
