// Command stress breaks what is around the gateway, or asks too much of it, and checks what it promises then:
//
//	stress faults      one of three servers fails in all the ways that servers, networks and child processes fail
//	stress overload    clients ask for more than the gateway, or a server, can answer
//	stress cluster     three gateways with one store behind HAProxy, of which each may be stopped, restarted or killed
//
// The exit code is 1 if a promise was not kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	bin, build, core string
	only             *regexp.Regexp
	// busy says that the machine is busy with other work, so that how long anything takes is not checked.
	busy, short, verbose bool
	wards                int
	write                string
	length               time.Duration
}

func (s *settings) promptweir() string {
	if s.build != "" {
		return s.build
	}
	return filepath.Join(s.bin, "promptweir")
}

func (s *settings) watched(usual time.Duration) time.Duration {
	if s.short {
		return min(usual/4, 3*time.Second)
	}
	return usual
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(1) //nolint:gocritic // the deferred call releases only what ends with the process
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{""}
	}
	rigs := map[string]func(context.Context, *settings) error{"faults": runFaults, "overload": runOverload, "cluster": runCluster}
	rig := rigs[args[0]]
	switch {
	case args[0] == "server": // in a process of its own
		return serve(ctx, args[1:])
	case args[0] == "operator":
		return operate(ctx, args[1:])
	case rig == nil:
		return fmt.Errorf("unknown rig %q: want faults, overload or cluster, each with -h", args[0])
	}
	s := &settings{}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&s.bin, "bin", "bin", "`directory` of the programs promptweir and toxiproxy-server")
	flags.StringVar(&s.build, "build", "", "another `build` of promptweir")
	only := flags.String("only", "", "run only what has a name that matches this regular `expression`")
	flags.BoolVar(&s.busy, "busy", false, "do not check how long anything takes, because the machine is busy with other work")
	flags.BoolVar(&s.short, "short", false, "watch for a quarter of the time")
	flags.BoolVar(&s.verbose, "v", false, "print the log of a gateway that could not be watched")
	flags.IntVar(&s.wards, "wards", 3, "faults: how many run at the same time")
	flags.StringVar(&s.write, "write", "", "faults: write the table into this Markdown `file`")
	flags.StringVar(&s.core, "core", "0", "overload: the `core` on which the gateway runs; needs taskset. Start stress itself on others")
	flags.DurationVar(&s.length, "length", 8*time.Second, "overload: how long each load lasts")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	return rig(ctx, s)
}
