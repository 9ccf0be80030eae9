package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// connections is how many clients send requests, each the next one after the response.
const connections = 32

// contest is a load, and the programs that are put under it in turns.
type contest struct {
	name     string
	servers  []server
	method   string // of the requests
	want     string // must be in each first response
	programs []program
}

// program is a gateway, or another program.
type program struct {
	name string
	// against is the program that it is compared with; empty for none.
	against string
	// reference is the first argument of another program than a gateway. The server itself is "upstream".
	reference string
	// build and audit are of a gateway: its build if that is not the one of the settings, and whether it has an
	// audit log.
	build string
	audit bool
}

func (s *settings) contests() (all []contest) {
	const name, old = "promptweir", "older build"
	older := []program{{name: name, against: old}, {name: old, build: s.against}}
	sizes := []struct {
		name  string
		bytes int
	}{{"0.3 KB", 300}, {"10 KB", 10_000}}
	for _, size := range sizes {
		for _, legacy := range []bool{true, false} {
			of, revision := server{Size: size.bytes, Legacy: legacy}, wire.Rev20260728
			if legacy {
				revision = wire.Rev20251125
			}
			all = append(all, contest{
				"get of " + size.name + ", " + revision,
				[]server{of, of},
				wire.PromptsGet, `"messages":[{`,
				[]program{
					{name: name, against: "ReverseProxy"},
					{name: "with an audit log", against: name, audit: true},
					{name: "ReverseProxy", reference: "proxy"},
				},
			})
		}
	}
	// As servers on the SDKs answer by default.
	streaming := all[0]
	streaming.name, streaming.servers = streaming.name+", in an event stream", []server{{Legacy: true, SSE: true}, {Legacy: true, SSE: true}}
	all = append(all, streaming)
	all[0].programs = append(all[0].programs, program{name: "gateway on the Go SDK", against: name, reference: "sdk"})
	for _, prompts := range []int{10, 100, 1000} {
		all = append(all, contest{
			fmt.Sprintf("list of %d", prompts),
			[]server{{Legacy: true, Prompts: prompts}},
			wire.PromptsList, fmt.Sprintf(`p%05d"`, prompts-1),
			[]program{{name: name, against: "the server itself"}, {name: "the server itself", reference: "upstream"}},
		})
	}
	for i := range all {
		if s.against != "" {
			all[i].programs = older
		}
	}
	return all
}

func (s *settings) compareSpeed(ctx context.Context) error {
	before, err := busy(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("Other programs use %.0f %% of the processors.\n\n", before)
	fmt.Printf("| load | program | CPU µs | requests/s | p50 ms | p99 ms | allocations | compared with | CPU | requests/s | p99 |\n%s\n",
		strings.Repeat("| --- ", int(figures)+6)+"|")
	for _, c := range s.contests() {
		if !s.only.MatchString(c.name) {
			continue
		}
		samples := make([][]sample, len(c.programs))
		for round := range s.rounds {
			if err := rig.Run(ctx, func(st *rig.Stage) { c.run(st, s, round, samples) }); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		fmt.Print(c.rows(samples))
	}
	after, err := busy(ctx)
	if err == nil {
		fmt.Println("\n" + verdict(before, after))
	}
	return err
}

// run starts all programs, and adds to the samples one of each. All start anew in each round: two processes of one build
// differ by some percent for as long as they live, because of how their memory happens to lie.
func (c contest) run(st *rig.Stage, s *settings, round int, samples [][]sample) {
	var servers []*rig.Process
	var endpoints []string
	for _, of := range c.servers {
		p := of.start(st)
		servers, endpoints = append(servers, p), append(endpoints, p.Endpoint)
	}
	all := make([]contestant, len(c.programs))
	for i, p := range c.programs {
		switch p.reference {
		case "":
			blocks := ""
			if p.audit {
				blocks = fmt.Sprintf("audit { path = %q }\n", st.Dir()+"/audit.jsonl")
			}
			all[i].gateway = s.gateway(st, p.build, upstreams(endpoints), blocks)
			all[i].process = all[i].gateway.Process
		case "upstream":
			all[i].process = servers[0]
		default:
			all[i].process = st.Self(append([]string{p.reference}, endpoints...)...)
		}
		all[i].load = c.load(st, all[i].process, len(endpoints), p.reference)
	}
	for _, length := range []time.Duration{s.length / 4, s.length} {
		for i := range all {
			i = (i + round) % len(all) // each goes first in some rounds
			one, err := all[i].measure(st.Context(), length)
			if err != nil {
				rig.Check(fmt.Errorf("%s: %w\n%.2000s", c.programs[i].name, err, all[i].process.Log()))
			}
			if length == s.length { // a process that has just started is slower: its first turn does not count
				samples[i] = append(samples[i], one)
			}
		}
	}
}

// upstreams returns upstream blocks for servers, labelled a, b and so on.
func upstreams(endpoints []string) string {
	var blocks strings.Builder
	for i, endpoint := range endpoints {
		fmt.Fprintf(&blocks, "  upstream \"%c\" { url = %q }\n", 'a'+i, endpoint)
	}
	return blocks.String()
}

// load returns the requests for a program in front of servers. Those of a gateway ask for the prompts of the servers in turn; a
// proxy chooses the server itself.
func (c contest) load(st *rig.Stage, p *rig.Process, servers int, reference string) rig.Closed {
	client := &upstreamtest.Client{Endpoint: p.Endpoint, Legacy: c.servers[0].Legacy}
	rig.Check(client.Initialize(st.Context()))
	// Each connection has another id: a server may refuse two requests of one session that are in flight
	// with the same one.
	raw := make([][]byte, connections)
	for i := range raw {
		params := ""
		if c.method == wire.PromptsGet {
			params = fmt.Sprintf(`"name":"%c.p00001"`, 'a'+i%servers)
			if reference == "proxy" {
				params = `"name":"p00001"`
			}
		}
		raw[i] = client.Raw(i+1, c.method, params)
	}
	return rig.Closed{Address: p.Address(), Want: c.want, Raw: raw}
}

// contestant is a process under measurement, with its requests.
type contestant struct {
	process *rig.Process
	gateway *rig.Gateway // nil for another program
	load    rig.Closed
}

// sample has a value for each of the figures.
type sample [figures]float64

// The figures: processor time per request in microseconds, requests per second, milliseconds, and allocations per
// request, of gateways only.
const (
	cpu = iota
	perSecond
	p50
	p99
	allocations

	figures
)

func (c contestant) measure(ctx context.Context, length time.Duration) (s sample, err error) {
	count := func(sign float64) {
		used, _ := c.process.Usage()
		s[cpu] += sign * float64(used.Nanoseconds()) / 1e3
		if c.gateway != nil {
			text := rig.Must(rig.Fetch(ctx, http.MethodGet, c.gateway.Admin+"/metrics"))
			s[allocations] += sign * rig.Must(rig.Metric(text, "go_memstats_mallocs_total"))
		}
	}
	// The processor time is read inside of the allocations, which take some themselves.
	result, err := c.load.Run(ctx, connections, length, func() { count(-1) }, func() { count(1) })
	if err != nil {
		return s, err
	}
	requests := float64(result.Requests)
	s[cpu], s[allocations] = s[cpu]/requests, s[allocations]/requests
	s[perSecond] = requests / result.Elapsed.Seconds()
	s[p50], s[p99] = result.P50.Seconds()*1e3, result.P99.Seconds()*1e3
	return s, nil
}

// rows returns a row of the table for each program: medians, and the medians of the ratios within a round with their confidence
// intervals.
func (c contest) rows(samples [][]sample) string {
	var rows strings.Builder
	for i, p := range c.programs {
		fmt.Fprintf(&rows, "| %s | %s |", c.name, p.name)
		of := func(f int, baseline []sample) rig.Interval {
			values := make([]float64, len(samples[i]))
			for round, one := range samples[i] {
				if values[round] = one[f]; baseline != nil {
					values[round] /= baseline[round][f]
				}
			}
			return rig.MedianInterval(values)
		}
		for f, format := range []string{" %.1f |", " %.0f |", " %.2f |", " %.1f |", " %.0f |"} {
			fmt.Fprintf(&rows, format, of(f, nil).Median)
		}
		fmt.Fprintf(&rows, " %s |", p.against)
		for _, f := range []int{cpu, perSecond, p99} {
			cell := ""
			for j, other := range c.programs {
				if other.name == p.against {
					cell = of(f, samples[j]).String()
				}
			}
			fmt.Fprintf(&rows, " %s |", cell)
		}
		rows.WriteByte('\n')
	}
	return rows.String()
}

// busy returns how much of all processors other programs use, in percent, during two seconds in which this one waits.
func busy(ctx context.Context) (float64, error) {
	times := func() (busy, all float64) {
		var t [8]float64 // user, nice, system, idle, iowait, irq, softirq, and what the host of a virtual machine takes
		text := string(rig.Must(os.ReadFile("/proc/stat")))
		rig.Must(fmt.Sscanf(text, "cpu %f %f %f %f %f %f %f %f", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]))
		for _, each := range t {
			all += each
		}
		return all - t[3] - t[4], all
	}
	var percent float64
	err := rig.Run(ctx, func(st *rig.Stage) {
		busyBefore, before := times()
		st.Pause(2 * time.Second)
		busyAfter, after := times()
		percent = 100 * (busyAfter - busyBefore) / cmp.Or(after-before, 1)
	})
	return percent, err
}

// maxQuiet is how much of all processors other programs use at most on a machine that is quiet, in percent.
const maxQuiet = 5

// verdict says whether the machine was quiet.
func verdict(before, after float64) string {
	text := fmt.Sprintf("Other programs used %.0f %% of the processors before the measurement and %.0f %% after it: ", before, after)
	if max(before, after) > maxQuiet {
		return text + "the machine was busy. Measure again on a quiet one: here, only the ratios of CPU mean anything."
	}
	return text + "the machine was quiet."
}
