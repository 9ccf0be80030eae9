//go:build unix

// Command outage measures what a gateway costs while every server that it knows is down: 2 000 team files with five upstreams
// each, behind a port on which nobody listens.
//
//	outage ── team files ──▶ promptweir validate
//	       └─ changes to one file ──▶ promptweir serve ──▶ a closed port
//
// It prints the time and the peak memory of validate, the processors that reconnecting keeps busy, the memory of the gateway, and
// how long a changed file takes until the gateway uses it. Figures are printed beside their targets. With -strict, the exit code is
// 1 if one is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
)

// settings are the flags.
type settings struct {
	bin       string
	teams     int
	upstreams int
	settle    time.Duration
	watch     time.Duration
	reloads   int
	pprof     bool
	strict    bool
}

func main() {
	var s settings
	flag.StringVar(&s.bin, "bin", "bin/promptweir", "the `program` to measure")
	flag.IntVar(&s.teams, "teams", 2_000, "number of team files")
	flag.IntVar(&s.upstreams, "upstreams", 5, "number of upstreams in each")
	flag.DurationVar(&s.settle, "settle", 20*time.Second, "how long reconnects may become rarer before they are measured")
	flag.DurationVar(&s.watch, "watch", 30*time.Second, "how long reconnects are measured")
	flag.IntVar(&s.reloads, "reloads", 5, "number of changes to one file")
	flag.BoolVar(&s.pprof, "pprof", false, "have the gateway serve profiles, and wait for Enter before it stops")
	flag.BoolVar(&s.strict, "strict", false, "exit with 1 if a target is missed")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "outage:", err)
		os.Exit(1) //nolint:gocritic // the deferred call releases only what ends with the process
	}
}

// figure is one measured value.
type figure struct {
	name          string
	value, target float64
	unit          string
}

func run(ctx context.Context, s settings) error {
	folder, err := os.MkdirTemp("", "outage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	world, err := newWorld(ctx, folder, s)
	if err != nil {
		return err
	}
	validated, err := validate(ctx, s, folder)
	if err != nil {
		return err
	}
	served, err := serve(ctx, s, world)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d team files, %d upstreams, all down.\n\n", s.teams, s.teams*s.upstreams)
	return report(append(validated, served...), s.strict)
}

// report prints the figures. If strict, the error says that one is above its target.
func report(figures []figure, strict bool) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(out, "| what\t| measured\t| target\t|")
	fmt.Fprintln(out, "| ---\t| ---\t| ---\t|")
	missed := false
	for _, f := range figures {
		target := ""
		if f.target > 0 {
			target = fmt.Sprintf("%.4g %s", f.target, f.unit)
			missed = missed || f.value > f.target
		}
		fmt.Fprintf(out, "| %s\t| %.3g %s\t| %s\t|\n", f.name, f.value, f.unit, target)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if missed && strict {
		return errors.New("a target is missed")
	}
	return nil
}
