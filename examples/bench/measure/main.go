// Command measure compares the gateway with other programs, and with older builds:
//
//	measure speed      requests per second, latency, CPU and allocations, beside other programs
//	measure pairs      the same for gets and lists, memory per listener and of a large catalog, beside an
//	                   older build
//	measure recording  what an audit log costs a get
//	measure assertion  what it costs a get that its server learns who calls
//	measure memory     memory per listener and of a large catalog
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"regexp"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// settings are the flags.
type settings struct {
	build, against, cores   string
	only                    regexp.Regexp
	turns, pairs, listeners int
	length                  time.Duration
}

func main() {
	s, flags := settings{}, flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.StringVar(&s.build, "build", "bin/promptweir", "the `program` promptweir")
	flags.StringVar(&s.against, "against", "",
		"an older `build` of the gateway; pairs, recording and memory compare with it")
	rig.OnlyFlag(flags, &s.only)
	flags.IntVar(&s.turns, "turns", 5, "speed: how many turns each program takes")
	flags.IntVar(&s.pairs, "pairs", 15,
		"pairs, recording: how often the two gateways are started and compared")
	flags.DurationVar(&s.length, "length", 500*time.Millisecond,
		"how long a turn lasts; with -pairs, two turns")
	flags.StringVar(&s.cores, "cores", "",
		"run the gateway on these `cores` only, such as 2-3; needs taskset")
	flags.IntVar(&s.listeners, "listeners", 2500, "memory: number of listening clients, at most a quarter of the connections")
	rig.Main(flags, map[string]func(context.Context) error{
		"speed": s.compareSpeed, "pairs": s.comparePairs, "recording": s.compareRecording, "assertion": s.compareAssertion,
		"memory": s.compareMemory,
	}, references())
}

// spec is a gateway: which build, and how it is configured.
type spec struct {
	name string
	// build is the gateway's program; empty means that of the settings.
	build string
	// upstream is the body of the upstream block; rules are further blocks of the team, blocks further
	// ones of the platform.
	upstream, rules, blocks string
	// gateway is the rest of the gateway block.
	gateway  string
	pageSize int
	// prompts are files by name; with them, there is no upstream.
	prompts map[string]string
}

func (s spec) text() string {
	upstream := s.upstream + "\n    concurrency = 4096\n    timeout = \"60s\""
	if s.prompts != nil {
		upstream = `files = ["*.md"]`
	}
	return fmt.Sprintf("gateway {\n  listen = \"127.0.0.1:0\"\n  page_size = %d\n  %s\n}\n"+
		"admin { listen = \"127.0.0.1:0\" }\nteam \"bench\" {\n  upstream \"up\" {\n    %s\n  }\n%s}\n%s\n",
		max(s.pageSize, 1), s.gateway, upstream, s.rules, s.blocks)
}

func (s *settings) gateway(st *rig.Stage, of spec) *rig.Gateway {
	command := []string{cmp.Or(of.build, s.build)}
	if s.cores != "" {
		command = append([]string{"taskset", "-c", s.cores}, command...)
	}
	return st.Gateway(of.text(), of.prompts, command...)
}
