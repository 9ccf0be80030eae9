// Command measure says how fast the gateway is, and what it holds:
//
//	measure speed       beside a handler that writes the same bytes, httputil.ReverseProxy, and a gateway on the official Go SDK
//	measure pairs       beside an older build of it, both started anew again and again: -against FILE
//	measure recording   with an audit log, and with traces, logs and metrics exported, beside the same gateway without
//	measure memory      with 10 000 listening clients, and with 1 000 upstreams of 100 prompts; -against FILE
//	measure fanout      how soon a change reaches very many listening clients, and that each of them hears of it exactly once
//
// Each program is a process of its own. They take turns under the same load, a closed loop on a fixed number of connections,
// and the result is the ratio within one turn: whatever else the machine does slows all of them alike.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	bin string
	// against is an older build of the gateway.
	against string
	only    *regexp.Regexp
	// turns is how many turns each program takes, and pairs how often two gateways are started and compared.
	turns, pairs int
	length       time.Duration
	// cores are those that the gateway may use, in the syntax of taskset; empty means all.
	cores             string
	listeners, rounds int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		slog.Error("measure", slog.Any("error", err))
		os.Exit(1) //nolint:gocritic // the deferred call releases only what ends with the process
	}
}

func run(ctx context.Context, args []string) error {
	measurements := map[string]func(context.Context, settings) error{
		"speed": compareSpeed, "pairs": comparePairs, "recording": compareRecording,
		"memory": compareMemory, "fanout": measureFanout,
	}
	if len(args) == 0 {
		args = []string{""}
	}
	measure, ok := measurements[args[0]]
	if !ok {
		return reference(ctx, args)
	}
	var s settings
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&s.bin, "bin", "bin", "`directory` of the program promptweir")
	flags.StringVar(&s.against, "against", "", "an older `build` of the gateway; pairs, recording and memory compare with it")
	only := flags.String("only", "", "measure only the cases whose name matches this regular `expression`")
	flags.IntVar(&s.turns, "turns", 5, "speed: how many turns each program takes")
	flags.IntVar(&s.pairs, "pairs", 15, "pairs, recording: how often the two gateways are started and compared")
	flags.DurationVar(&s.length, "length", 500*time.Millisecond, "how long a turn lasts; with -pairs, two turns")
	flags.StringVar(&s.cores, "cores", "", "run the gateway on these `cores` only, such as 2-3; needs taskset")
	flags.IntVar(&s.listeners, "listeners", 10_000, "fanout, memory: number of listening clients")
	flags.IntVar(&s.rounds, "rounds", 5, "fanout: number of changes of each kind")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	return measure(ctx, s)
}

func (s settings) promptweir() string { return filepath.Join(s.bin, "promptweir") }
