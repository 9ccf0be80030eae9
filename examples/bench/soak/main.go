// Command soak puts a gateway through a minute of chaos: upstreams change, die and return at random, while clients listen and
// walk all pages of the list. Everything runs in this process and its children, so that soak can count goroutines and
// memory.
//
//	clients ──▶ gateway (gateway.New, Run, Handler) ──▶ upstreams over HTTP, of both eras
//	                                                └─▶ upstreams as children of the gateway, of both eras
//
// It runs in two parts, each of which ends with a quiet phase: all upstreams are up and nothing changes. It checks that
//
//   - no walk finds a prompt twice or out of order, or misses one that was there all the time
//   - in the quiet phase each client arrives at the true list, though it lists only when it is notified
//   - every client that sees a last change is notified of it, and no stream ends
//   - the second part leaves no more goroutines and memory in use than the first
//
// The exit code is 1 if a check fails. Soak prints its seed; -seed repeats the random choices, though not the timing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	length    time.Duration
	seed      uint64
	upstreams int
	children  int
	clients   int
	pageSize  int
	child     string
}

func main() {
	var s settings
	flag.DurationVar(&s.length, "for", time.Minute, "how long upstreams change, die and return")
	flag.Uint64Var(&s.seed, "seed", 0, "seed of the random choices; 0 means a new one")
	flag.IntVar(&s.upstreams, "upstreams", 50, "number of servers behind the gateway")
	flag.IntVar(&s.children, "children", 6, "number of servers that are child processes of the gateway, on stdio")
	flag.IntVar(&s.clients, "clients", 200, "number of clients")
	flag.IntVar(&s.pageSize, "page-size", 25, "prompts per page")
	flag.StringVar(&s.child, "child", "", "run as the child `NAME@ADDRESS`; for internal use")
	flag.Parse()
	if s.child != "" {
		os.Exit(playChild(s.child))
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 3*s.length+4*patience)
	defer cancel()
	fmt.Printf("soak: %d upstreams, %d of them children, %d clients, %v, -seed %d\n", s.upstreams, s.children, s.clients, s.length, s.seed)
	if err := run(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "soak: failed with -seed %d:\n%v\n", s.seed, err)
		os.Exit(1) //nolint:gocritic // the deferred calls release only what ends with the process
	}
}

// run returns the checks that failed.
func run(ctx context.Context, s settings) error {
	w, err := newWorld(ctx, s)
	if err != nil {
		return err
	}
	defer w.close()
	g, err := startGateway(ctx, s, w)
	if err != nil {
		return err
	}
	defer g.close()
	var crowd crowd
	if err := crowd.join(ctx, s, g.endpoint, w); err != nil {
		return err
	}
	defer crowd.leave()

	chance := rand.New(rand.NewPCG(s.seed, 0)) //nolint:gosec // must be repeatable, not secret
	var use [2]usage
	var broken error
	for part, length := range []time.Duration{s.length / 4, s.length * 3 / 4} {
		crowd.busy.Store(true)
		w.rage(ctx, chance, length)
		crowd.busy.Store(false)
		quiet, err := crowd.settle(ctx)
		broken = errors.Join(broken, err, crowd.lastChange(ctx, part))
		if ctx.Err() != nil {
			return errors.Join(broken, ctx.Err())
		}
		use[part] = measure(crowd.idle, w.idle)
		fmt.Printf("part %d: %v; %v; true lists after %.1f s; %v\n", part+1, w, &crowd, quiet.Seconds(), use[part])
		broken = errors.Join(broken, crowd.violations())
	}
	return errors.Join(broken, use[1].against(use[0]))
}
