// Command measure says what promptweir costs:
//
//	measure speed   CPU, requests per second and latency of gets and lists, beside a reverse proxy in front
//	                of the same servers, a server's own list, and a gateway on the official Go SDK; with
//	                -against, beside an older build
//	measure memory  memory per listener and of a large catalog
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
	build, against, cores string
	only                  regexp.Regexp
	rounds, listeners     int
	length                time.Duration
}

func main() {
	s, flags := settings{}, flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.StringVar(&s.build, "build", "bin/promptweir", "the `program` promptweir")
	flags.StringVar(&s.against, "against", "", "an older `build` of promptweir to compare with")
	rig.OnlyFlag(flags, &s.only)
	flags.IntVar(&s.rounds, "rounds", 15, "speed: how often all programs are started and measured in turn")
	flags.DurationVar(&s.length, "length", time.Second, "speed: how long one program is measured in a round")
	flags.StringVar(&s.cores, "cores", "", "run the gateway on these `cores` only, such as 2-3; needs taskset")
	flags.IntVar(&s.listeners, "listeners", 2500, "memory: number of listening clients, at most a quarter of the connections")
	rig.Main(flags, map[string]func(context.Context) error{"speed": s.compareSpeed, "memory": s.compareMemory}, references())
}

// gateway starts a gateway: a build, empty for that of the settings, with upstream blocks and further
// blocks of the platform.
func (s *settings) gateway(st *rig.Stage, build, upstreams, blocks string) *rig.Gateway {
	command := []string{cmp.Or(build, s.build)}
	if s.cores != "" {
		command = append([]string{"taskset", "-c", s.cores}, command...)
	}
	return st.Gateway(fmt.Sprintf("gateway { listen = %q }\nadmin { listen = %[1]q }\nteam \"bench\" {\n%s}\n%s",
		rig.AnyAddress, upstreams, blocks), command...)
}
