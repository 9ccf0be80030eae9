package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// workers of a server take workTime for each get: they answer at most 100 a second. Ten times as
	// many gets overload the server, and not two processors.
	workers, workTime = 2, 20 * time.Millisecond
	// openTimeout is how long a client waits for a response.
	openTimeout = 15 * time.Second
	// looks is how often an operator looks at a page, each second.
	looks = 10
	// Above a server's capacity, the goodput is at least this share of the capacity, and the p99 of the
	// other servers' gets at most 1.5 times its value without overload, or a few milliseconds.
	leastGoodput = 0.9
	leastLate    = 10 * time.Millisecond
)

// runOverload offers multiples of a server's capacity, which is what it answers without a gateway.
func (s *settings) runOverload(ctx context.Context) error {
	kept := &checks{}
	err := rig.Run(ctx, func(st *rig.Stage) {
		w := open(st, s, &fault{workers: workers})
		w.call(true)
		capacity := w.capacity(s.length)
		fmt.Printf("Capacity: %.0f a second\n\n| × capacity | goodput/s | refused | lost | p50 | p99 | refusals, p99 | "+
			"neighbours, p99 | RSS MiB | operators, slowest |\n"+
			"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", capacity)
		usual := leastLate
		for _, multiple := range []float64{0.5, 0.9, 2, 10} {
			o := w.offer(multiple*capacity, s.length, kept)
			all := float64(max(len(o.good)+len(o.refused)+len(o.lost), 1))
			neighbours := o.neighbours.Quantile(99)
			fmt.Printf("| %.1f | %.0f | %.1f %% | %.1f %% | %s | %s | %s | %s | %d | %s |\n", multiple, o.goodput,
				100*float64(len(o.refused))/all, 100*float64(len(o.lost))/all,
				rig.Milliseconds(o.good.Quantile(50)), rig.Milliseconds(o.good.Quantile(99)),
				rig.Milliseconds(o.refused.Quantile(99)), rig.Milliseconds(neighbours), o.memory>>20,
				rig.Milliseconds(o.operator.Quantile(100)))
			switch {
			case multiple < 1:
				usual = max(usual, neighbours*3/2)
			case !s.busy:
				kept.want(o.goodput >= leastGoodput*capacity, "%.0f results a second at %.0f times the capacity of %.0f",
					o.goodput, multiple, capacity)
				kept.want(neighbours <= usual, "at %.0f times the capacity, the p99 of the neighbours' gets is %v, more than %v",
					multiple, neighbours, usual)
			}
		}
	})
	return errors.Join(err, kept.err())
}

// capacity returns how many gets a second the server answers.
func (w *faultRun) capacity(length time.Duration) float64 {
	client := upstreamtest.Client{Endpoint: "http://" + w.faultyServer.proxy.To + "/mcp", Legacy: true}
	rig.Check(client.Initialize(w.st.Context()))
	const clients = 3 * workers // some are between two gets
	load := rig.Closed{Address: w.faultyServer.proxy.To, Want: `"messages"`}
	for id := range clients {
		load.Raw = append(load.Raw, client.Raw(id+1, wire.PromptsGet, fmt.Sprintf("\"name\":%q", promptName)))
	}
	result := rig.Must(load.Run(w.st.Context(), clients, length, func() {}, func() {}))
	return float64(result.Requests) / result.Elapsed.Seconds()
}

// offered is what happened under one load: gets that were answered, refused, and lost, those of the
// other servers, and an operator's pages.
type offered struct {
	goodput                                   float64 // results a second
	good, refused, lost, neighbours, operator rig.Gots
	memory                                    int64 // the most that the gateway had, in bytes
}

// offer puts a load on the gateway, watches it, and waits until it has calmed down. What is sent in the
// first part, a quarter, does not count. What counts begins when it was due.
func (w *faultRun) offer(rate float64, length time.Duration, kept *checks) (o offered) {
	was := w.usage()
	pages := []string{"/readyz", "/healthz", "/metrics"}
	operator := rig.Pace(w.st.Context(), looks, func(ctx context.Context) error {
		_, err := rig.Fetch(ctx, http.MethodGet, w.gateway.Admin+pages[time.Now().UnixMilli()%3])
		return err
	})
	load, begun := rig.Pace(w.st.Context(), rate, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		return w.client.Get(ctx, illName+"."+promptName)
	}), time.Now()
	for time.Since(begun) < length {
		_, memory := w.gateway.Usage()
		o.memory = max(o.memory, memory)
		w.st.Pause(min(length/4, time.Second))
	}
	counted, end := begun.Add(length/4), time.Now()
	all := load.Stop()
	for _, g := range all {
		if done := g.Began.Add(g.Took); g.Err == nil && done.After(counted) && done.Before(end) {
			o.goodput += 1 / end.Sub(counted).Seconds()
		}
	}
	all = all.Between(counted, end)
	for i := range all {
		all[i].Took += all[i].Late
	}
	refused := func(g rig.Got) bool { _, ok := errors.AsType[*upstreamtest.Error](g.Err); return ok }
	o.good = all.Where(func(g rig.Got) bool { return g.Err == nil })
	o.refused = all.Where(refused)
	o.lost = all.Where(func(g rig.Got) bool { return g.Err != nil && !refused(g) })
	o.neighbours, o.operator = w.ofNeighbours(counted), operator.Stop()
	const connections = config.DefaultConcurrency + maxLeft
	left := w.left(was, connections)
	kept.want(!left.tooMuch(connections), "%d goroutines and %d descriptors are left", left.goroutines, left.descriptors)
	return o
}
