// Command stress breaks what is around the gateway, or asks too much of it, and checks what it promises
// then:
//
//	stress faults     one of three servers fails in all the ways that servers, networks and child
//	                  processes fail
//	stress overload   clients ask for more than a server can answer
//	stress histories  gateways, their store and their servers fail, and the recorded notifications and
//	                  lists of each client are compared with a model
//
// The exit code is 1 if a promise was not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// settings are the flags.
type settings struct {
	build, write string
	only         regexp.Regexp
	// busy says that the machine is busy with other work, so that how long anything takes is not
	// checked.
	busy, short bool
	length      time.Duration
	// Those of histories.
	seed     uint64
	replicas int
}

func main() {
	s, flags := settings{}, flag.NewFlagSet("stress", flag.ContinueOnError)
	flags.StringVar(&s.build, "build", "bin/promptweir", "the `program` promptweir")
	rig.OnlyFlag(flags, &s.only)
	flags.BoolVar(&s.busy, "busy", false,
		"do not check how long anything takes, because the machine is busy with other work")
	flags.BoolVar(&s.short, "short", false, "watch for a quarter of the time")
	flags.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "histories: what faults are drawn from") //nolint:gosec // a number
	flags.IntVar(&s.replicas, "replicas", replicas, "histories: how many there are")
	flags.StringVar(&s.write, "write", "", "faults: write the table into this Markdown `file`")
	flags.DurationVar(&s.length, "length", 8*time.Second, "overload, histories: how long each load, or all, lasts")
	rig.Main(flags, map[string]func(context.Context) error{
		"faults": s.runFaults, "overload": s.runOverload, "histories": s.runHistories,
	}, map[string]func(context.Context, []string) error{"child": runChild})
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
