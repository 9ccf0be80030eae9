// Command soak lets a gateway live through a bad day in a minute: upstreams that change, die and return at random,
// while clients drain the list page by page and listen. All takes place in this process and its children, on loopback,
// so that goroutines and memory can be counted; it ends by itself.
//
//	clients ──▶ gateway (gateway.New, Run, Handler) ──▶ upstreams over HTTP, of both eras
//	                                                └─▶ upstreams as children of the gateway, of both eras
//
// It runs in two parts, each of which ends in quiet: everything is up again, nothing changes. What must hold:
//
//   - no drain has a prompt twice or out of order, or lacks one that was there throughout
//   - in the quiet each client comes to hold the true list, though it lists only when it is told of a change
//   - a last change is heard of by every client that sees it, and nobody's stream ends
//   - the second part leaves no more goroutines and memory in use than the first one did
//
// The exit code is 1 where one of these is broken. The seed is printed; with -seed the same things are decided again,
// as far as decisions do not depend on who is faster.
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
	flag.Uint64Var(&s.seed, "seed", 0, "what chance begins with; 0 takes another one each time")
	flag.IntVar(&s.upstreams, "upstreams", 50, "servers behind the gateway")
	flag.IntVar(&s.children, "children", 6, "how many of them are children of the gateway, on stdio")
	flag.IntVar(&s.clients, "clients", 200, "clients that list and listen")
	flag.IntVar(&s.pageSize, "page-size", 25, "prompts on a page")
	flag.StringVar(&s.child, "child", "", "be a child `NAME@ADDRESS`, for the program's own use")
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
		fmt.Fprintf(os.Stderr, "soak: BROKEN with -seed %d:\n%v\n", s.seed, err)
		os.Exit(1) //nolint:gocritic // what is deferred ends with the process
	}
}

// run returns what was broken.
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

	chance := rand.New(rand.NewPCG(s.seed, 0)) //nolint:gosec // chance that can be repeated
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
