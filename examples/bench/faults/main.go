//go:build unix

// Command faults lets one of three servers behind a gateway fail in all the ways that servers, networks and child processes fail,
// and checks what the gateway promises about it:
//
//		callers ──▶ gateway ──▶ neighbours, one of each era
//		                    └─▶ Toxiproxy, HAProxy or nothing ──▶ the server that falls ill
//		                    └─▶ a child process that falls ill
//
//	  - Neighbours are served as before: every get, with a 99th percentile within 1.5 times of before, or 30 ms.
//	  - A get of the ill server fails with the code and reason that say why, within its timeout.
//	  - The fault is marked in /readyz, on the console, in the metric and in lists, 3 seconds after its first sign or, while nobody calls
//	    the server, 35 seconds after it began.
//	  - 10 seconds after the fault has ended, all is well again.
//	  - Memory stays bounded, and nothing is left in use afterwards.
//
// Each fault has a gateway of its own, some at a time. The exit code is 1 if a promise was not kept. With -write, the table in a
// Markdown file is replaced by one of this run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/examples/bench/internal/toxiproxy"
)

// settings are the flags.
type settings struct {
	bin, build string
	only       *regexp.Regexp
	wards      int
	write      string
	busy       bool
	verbose    bool
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "server" {
		return serve(ctx, os.Args[2:])
	}
	var s settings
	flag.StringVar(&s.bin, "bin", "bin", "`directory` of the programs promptweir and toxiproxy-server")
	flag.StringVar(&s.build, "build", "", "another `build` of promptweir")
	only := flag.String("only", "", "run only the faults whose name matches this regular `expression`")
	flag.IntVar(&s.wards, "wards", 3, "how many faults run at the same time")
	flag.StringVar(&s.write, "write", "", "write the table into this Markdown `file`")
	flag.BoolVar(&s.busy, "busy", false, "do not check how long gets of neighbours take, because the machine is busy with other work")
	flag.BoolVar(&s.verbose, "v", false, "print the log of a gateway that could not be watched")
	flag.Parse()
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	return watchAll(ctx, s)
}

// watchAll runs all faults, prints what was seen, and returns an error if a promise was not kept.
func watchAll(ctx context.Context, s settings) error {
	t, err := toxiproxy.Start(ctx, s.bin)
	if err != nil {
		return err
	}
	defer t.Stop()
	control, stop, err := watchNothing(ctx, s)
	if err != nil {
		return err
	}
	defer stop()
	var (
		outcomes []*outcome
		group    errgroup.Group
		broken   error
	)
	begun := time.Now()
	group.SetLimit(s.wards)
	all := faults()
	for i := range all {
		if s.only.MatchString(all[i].name) {
			o := &outcome{}
			outcomes = append(outcomes, o)
			group.Go(func() error {
				*o = *watch(ctx, s, t, control, &all[i], i)
				fmt.Fprintln(os.Stderr, progress(o, s.busy))
				return nil
			})
		}
	}
	_ = group.Wait() // what failed is in the outcomes
	fmt.Print(table(outcomes))
	for _, o := range outcomes {
		if err := errBroken(o.broken(s.busy)); err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", o.fault.name, err))
		}
	}
	fmt.Printf("\n%d faults in %v\n", len(outcomes), time.Since(begun).Round(time.Second))
	if s.write != "" {
		broken = errors.Join(broken, writeTable(s.write, table(outcomes)))
	}
	return broken
}
