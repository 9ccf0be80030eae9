package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/history"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
)

const (
	// people are how many get, list and listen at each of two gateways, and what they do each second.
	people                  = 50
	getsEach, listsEach     = 2, 0.5
	crowdChanges, crowdTime = 2 * time.Second, time.Minute
	// mostMemory is how much more memory a gateway may use that somebody troubles, in bytes.
	mostMemory = 192 << 20
)

// crowd is people who get, list and listen at a gateway.
type crowd struct {
	world       *world
	gateway     *rig.Gateway
	gets, lists *rig.Paced
	audience    *light.Audience
	cpu         time.Duration
}

func (w *world) crowd(g *rig.Gateway) *crowd {
	ctx, client := w.st.Context(), w.at(g.Endpoint)
	c := &crowd{
		world: w, gateway: g, gets: get(ctx, client, "plain.p00000", people*getsEach),
		lists: w.walk(ctx, client, people*listsEach), audience: w.follow(ctx, people, g.Endpoint),
	}
	c.cpu, _ = g.Usage()
	return c
}

// watched is what a crowd has met.
type watched struct {
	gets, lists rig.Gots
	history     history.History
	cores       float64
	// memory is the most that the gateway used meanwhile, in bytes.
	memory int64
}

// compare has a crowd at each of two gateways, of which the second is in trouble, watches them for a
// minute, and prints a row for each. What the machine does slows both.
func (w *world) compare(s *settings, kept *checks, gateways ...*rig.Gateway) (quiet, troubled watched) {
	length := s.watched(crowdTime)
	var crowds []*crowd
	for _, g := range gateways {
		crowds = append(crowds, w.crowd(g))
	}
	calm := repeat(crowdChanges, func() { w.change() })
	all := make([]watched, len(gateways))
	for begun := time.Now(); time.Since(begun) < length; w.st.Pause(100 * time.Millisecond) {
		for i, g := range gateways {
			_, memory := g.Usage()
			all[i].memory = max(all[i].memory, memory)
		}
	}
	calm()
	last := w.change()
	fmt.Print("| gateway | gets | lists | failed | p99 of gets | of lists | cores | RSS MiB |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i, name := range []string{"alone", "in trouble"} {
		c, seen := crowds[i], &all[i]
		cpu, _ := c.gateway.Usage()
		missed := await(c.audience, last, timeout)
		kept.want(missed == nil, "%s: %w", name, missed)
		seen.gets, seen.lists, seen.history = c.gets.Stop(), c.lists.Stop(), c.audience.Stop()
		seen.cores = (cpu - c.cpu).Seconds() / length.Seconds()
		kept.wantNoFailure(slices.Concat(seen.gets, seen.lists))
		failed := seen.history.Failed()
		kept.want(len(failed) == 0, "%s: listeners failed: %v", name, failed)
		fmt.Printf("| %s | %d | %d | %d | %s | %s | %.2f | %d |\n", name, len(seen.gets), len(seen.lists),
			len(seen.gets.Failed())+len(seen.lists.Failed())+len(failed), rig.Milliseconds(seen.gets.Quantile(99)),
			rig.Milliseconds(seen.lists.Quantile(99)), seen.cores, seen.memory>>20)
	}
	if !s.busy {
		kept.wantNotSlower(all[1].gets, 0, all[0].gets)
	}
	more := all[1].memory - all[0].memory
	kept.want(more <= mostMemory, "%d MiB more memory, not at most %d", more>>20, mostMemory>>20)
	return all[0], all[1]
}
