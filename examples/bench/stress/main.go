// Command stress breaks what is around the gateway, or asks too much of it, and checks what it promises
// then:
//
//	stress faults        one of three servers fails in all the ways that servers, networks and child
//	                     processes fail
//	stress overload      clients ask for more than the gateway, or a server, can answer
//	stress cluster       three gateways with one store behind HAProxy, of which each may be stopped,
//	                     restarted or killed
//	stress histories     what each listening client of three gateways was told and has listed, while
//	                     gateways and store fail
//	stress hostile-team  a team whose prompt files cost as much as they can
//	stress stranger      somebody who sends what is refused, and keeps connections silent
//
// The exit code is 1 if a promise was not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// settings are the flags.
type settings struct {
	bin, build, core, write string
	only                    *regexp.Regexp
	// busy says that the machine is busy with other work, so that how long anything takes is not
	// checked.
	busy, short, verbose bool
	wards, times         int
	length               time.Duration
}

func main() {
	programs := map[string]func(context.Context, []string) error{"child": runChild}
	for name, run := range map[string]func(context.Context, *settings) error{
		"faults": runFaults, "overload": runOverload, "cluster": runCluster, "histories": runHistories,
		"hostile-team": runHostileTeam, "stranger": runStranger,
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

func parse(name string, args []string) (s *settings, err error) {
	s = &settings{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&s.bin, "bin", "bin", "`directory` of the program promptweir")
	flags.StringVar(&s.build, "build", "", "another `build` of promptweir")
	only := flags.String("only", "", "run only what has a name that matches this regular `expression`")
	flags.BoolVar(&s.busy, "busy", false,
		"do not check how long anything takes, because the machine is busy with other work")
	flags.BoolVar(&s.short, "short", false, "watch for a quarter of the time")
	flags.BoolVar(&s.verbose, "v", false, "faults: print the log of a gateway that could not be watched")
	flags.IntVar(&s.wards, "wards", 3, "faults: how many run at the same time")
	flags.IntVar(&s.times, "times", 10, "histories: how often each fault happens")
	flags.StringVar(&s.write, "write", "",
		"faults: write the table into this Markdown `file`; histories: write the history as JSON lines")
	flags.StringVar(&s.core, "core", "0",
		"overload: the `core` on which the gateway runs; needs taskset. Start stress itself on others")
	flags.DurationVar(&s.length, "length", 8*time.Second, "overload: how long each load lasts")
	if err = flags.Parse(args); err == nil {
		s.only, err = regexp.Compile(*only)
	}
	return s, err
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

// checks are promises of a rig that were not kept.
type checks struct{ broken []error }

// want notes a promise that was not kept.
func (c *checks) want(kept bool, format string, args ...any) {
	if !kept {
		c.broken = append(c.broken, fmt.Errorf(format, args...))
	}
}

func (c *checks) err() error { return errors.Join(c.broken...) }
