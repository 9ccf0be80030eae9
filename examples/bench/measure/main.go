// Command measure compares the gateway with other programs, and with older builds:
//
//	measure speed      requests per second, latency, CPU and allocations, beside other programs
//	measure pairs      the same for gets and lists, memory per listener and of a large catalog, beside an
//	                   older build
//	measure recording  what an audit log costs a get
//	measure memory     memory per listener and of a large catalog
//	measure fanout     how soon a change reaches very many listening clients
package main

import (
	"context"
	"flag"
	"path/filepath"
	"regexp"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// settings are the flags.
type settings struct {
	bin, against, cores string
	only                *regexp.Regexp
	turns, pairs        int
	length              time.Duration
	listeners, rounds   int
}

func main() {
	programs := references()
	for name, run := range map[string]func(context.Context, settings) error{
		"speed": compareSpeed, "pairs": comparePairs, "recording": compareRecording,
		"memory": compareMemory, "fanout": measureFanout,
	} {
		programs[name] = func(ctx context.Context, args []string) error {
			s, err := parse(name, args)
			if err != nil {
				return err
			}
			return run(ctx, s)
		}
	}
	rig.Main(programs)
}

func parse(name string, args []string) (s settings, err error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&s.bin, "bin", "bin", "`directory` of the program promptweir")
	flags.StringVar(&s.against, "against", "",
		"an older `build` of the gateway; pairs, recording and memory compare with it")
	only := flags.String("only", "", "measure only the cases whose name matches this regular `expression`")
	flags.IntVar(&s.turns, "turns", 5, "speed: how many turns each program takes")
	flags.IntVar(&s.pairs, "pairs", 15,
		"pairs, recording: how often the two gateways are started and compared")
	flags.DurationVar(&s.length, "length", 500*time.Millisecond,
		"how long a turn lasts; with -pairs, two turns")
	flags.StringVar(&s.cores, "cores", "",
		"run the gateway on these `cores` only, such as 2-3; needs taskset")
	flags.IntVar(&s.listeners, "listeners", 10_000, "fanout, memory: number of listening clients")
	flags.IntVar(&s.rounds, "rounds", 5, "fanout: number of changes of each kind")
	if err = flags.Parse(args); err == nil {
		s.only, err = regexp.Compile(*only)
	}
	return s, err
}

func (s settings) promptweir() string { return filepath.Join(s.bin, "promptweir") }
