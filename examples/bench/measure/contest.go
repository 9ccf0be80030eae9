package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// contest is a load, and who is put under it. The last contestant is the one that the others are compared with.
type contest struct {
	name        string
	connections int
	upstream    server
	pageSize    int
	method      string // of the requests
	arguments   string // of the prompt, in JSON
	token       string // of the caller; empty for none
	want        string // must be in each first response
	gateways    []spec
	beside      []string // other programs, by their first argument
}

// contestant is a process under measurement, with its requests.
type contestant struct {
	name    string
	process *rig.Process
	gateway *rig.Gateway // nil if it is another program
	load    rig.Closed
}

// sample is the result of one turn, or the mean of several: a value for each of the figures.
type sample [figures]float64

// The figures: requests per second, milliseconds, processor time per request in microseconds, allocations
// per request, of gateways only, and MiB.
const (
	perSecond = iota
	p50
	p99
	cpu
	objects
	allocated
	memory

	figures
)

const heading = "| case | connections | program | req/s | p50 ms | p99 ms | CPU µs | allocations | bytes | RSS MiB | req/s ratio | CPU ratio | p99 ratio |\n" +
	"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"

// compare starts all contestants a number of times, has them take turns under the load, and prints a row for each. What counts is the
// ratio within a turn or, with several starts, within a start: two starts of one build differ by some percent for as long as they live,
// because of how their memory happens to lie.
func (c contest) compare(ctx context.Context, s *settings, starts, turns int, length time.Duration) error {
	if !s.only.MatchString(c.name) {
		return nil
	}
	var names []string
	var samples [][]sample // by contestant
	for start := range starts {
		var taken [][]sample
		if err := rig.Run(ctx, func(st *rig.Stage) {
			names, taken = c.start(st, s, start, turns, length)
		}); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if samples == nil {
			samples = make([][]sample, len(taken))
		}
		for i, of := range taken {
			if starts > 1 {
				var mean sample
				for _, one := range of {
					for f := range one {
						mean[f] += one[f] / float64(len(of))
					}
				}
				of = []sample{mean}
			}
			samples[i] = append(samples[i], of...)
		}
	}
	for i, name := range names {
		fmt.Printf("| %s | %d | %s | %s |\n", c.name, c.connections, name, row(samples[i], samples[len(samples)-1], i == len(names)-1))
	}
	return nil
}

func (c contest) start(st *rig.Stage, s *settings, start, turns int, length time.Duration) (names []string, samples [][]sample) {
	all := c.set(st, s)
	samples = make([][]sample, len(all))
	for turn := range turns + 1 {
		for i := range all {
			i = (start + turn + i) % len(all) // each goes first in some turns
			one, err := all[i].run(st.Context(), c.connections, length)
			if err != nil {
				rig.Check(fmt.Errorf("%s: %w\n%.2000s", all[i].name, err, all[i].process.Log()))
			}
			if turn > 0 { // a process that has just started is slower
				samples[i] = append(samples[i], one)
			}
		}
	}
	for _, one := range all {
		names = append(names, one.name)
	}
	return names, samples
}

// set starts all contestants.
func (c contest) set(st *rig.Stage, s *settings) (all []contestant) {
	up, block := c.upstream.start(st)
	for _, one := range c.gateways {
		one.upstream, one.pageSize = block+"\n"+one.upstream, max(c.pageSize, 100)
		g := s.gateway(st, one)
		next := c.enter(st, one.name, g.Process, "up.p00001")
		next.gateway = g
		all = append(all, next)
	}
	for _, name := range c.beside {
		p := up // with nothing in front of it
		if name != "upstream" {
			p = st.Self(name, up.Endpoint)
		}
		all = append(all, c.enter(st, name, p, "p00001"))
	}
	return all
}

func (c contest) enter(st *rig.Stage, name string, p *rig.Process, prompt string) contestant {
	client := &upstreamtest.Client{Endpoint: p.Endpoint, Legacy: c.upstream.Legacy, Token: c.token}
	rig.Check(client.Initialize(st.Context()))
	params := ""
	if c.method == wire.PromptsGet {
		params = strings.TrimSuffix(fmt.Sprintf(`"name":%q,%s`, prompt, c.arguments), ",")
	}
	// Each connection has another id: a server may refuse two requests of one session that are in flight
	// with the same one.
	raw := make([][]byte, c.connections)
	for i := range raw {
		raw[i] = client.Raw(i+1, c.method, params)
	}
	return contestant{name: name, process: p, load: rig.Closed{Address: p.Address(), Want: c.want, Raw: raw}}
}

func (c contestant) run(ctx context.Context, connections int, length time.Duration) (s sample, err error) {
	count := func(sign float64) {
		used, resident := c.process.Usage()
		if c.gateway != nil {
			// One page, because it allocates as well.
			text := rig.Must(rig.Fetch(ctx, http.MethodGet, c.gateway.Admin+"/metrics"))
			s[objects] += sign * rig.Must(rig.Metric(text, "go_memstats_mallocs_total"))
			s[allocated] += sign * rig.Must(rig.Metric(text, "go_memstats_alloc_bytes_total"))
		}
		s[cpu] += sign * float64(used.Nanoseconds()) / 1e3
		s[memory] = float64(resident) / (1 << 20)
	}
	result, err := c.load.Run(ctx, connections, length, func() { count(-1) }, func() { count(1) })
	if err != nil {
		return s, err
	}
	requests := float64(result.Requests)
	for _, f := range []int{cpu, objects, allocated} {
		s[f] /= requests
	}
	s[perSecond] = requests / result.Elapsed.Seconds()
	s[p50], s[p99] = result.P50.Seconds()*1e3, result.P99.Seconds()*1e3
	return s, nil
}

// row returns cells of the table: medians, and the medians of the ratios to the baseline with their
// confidence intervals.
func row(of, baseline []sample, isBaseline bool) string {
	var cells []string
	values := make([]float64, len(of))
	for f, format := range []string{"%.0f", "%.2f", "%.1f", "%.1f", "%.1f", "%.0f", "%.0f"} {
		for i := range of {
			values[i] = of[i][f]
		}
		cells = append(cells, fmt.Sprintf(format, rig.MedianInterval(values).Median))
	}
	for _, f := range []int{perSecond, cpu, p99} { // the last being the least certain
		for i := range of {
			values[i] = of[i][f] / baseline[i][f]
		}
		ratio := "1"
		if !isBaseline {
			ratio = rig.MedianInterval(values).String()
		}
		cells = append(cells, ratio)
	}
	return strings.Join(cells, " | ")
}
