//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// What the gateway promises about each fault.
const (
	// leastP99 is what the 99th percentile of the neighbours' gets may be in any case. Otherwise it may be 1.5 times as high as before
	// the fault, or as that of a gateway to which nothing happens at the same time.
	leastP99 = 30 * time.Millisecond
	// lateError is how much longer than the timeout of its upstream a get may take to fail.
	lateError = time.Second
	// markedWithin is how long after its first sign a fault is marked everywhere, markedIdle how long after it began if nobody
	// calls the server.
	markedWithin = 3 * time.Second
	markedIdle   = 35 * time.Second
	// healedWithin is how long after its end all is well again.
	healedWithin = 10 * time.Second
	// maxMemory is how much more memory the gateway may have in use meanwhile, in bytes: the garbage that it may let accumulate,
	// and a little.
	maxMemory = 160 << 20
	// What may be left in use afterwards: connections to the server that are kept alive, each with two goroutines.
	maxLeftDescriptors = 80
	maxLeftGoroutines  = 2 * maxLeftDescriptors
)

// broken returns the promises that were not kept. On a busy machine, the latency of neighbours says nothing.
func (o *outcome) broken(busy bool) (all []string) {
	if o.err != nil {
		return []string{o.err.Error()}
	}
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if failed := failures(o.neighbours); len(failed) > 0 {
		say("%d of %d gets of neighbours failed, one with %d %s", len(failed), len(o.neighbours), failed[0].code, failed[0].reason)
	}
	if p99, most := p99(o.neighbours), max(leastP99, max(o.p99Before, o.p99Control)*3/2); p99 > most && !busy {
		say("p99 of the neighbours is %v, not at most %v", p99.Round(time.Millisecond), most.Round(time.Millisecond))
	}
	failed := failures(o.gets)
	if o.fault.reasons == nil && len(failed) > 0 {
		say("%d of %d gets failed, one with %d %s", len(failed), len(o.gets), failed[0].code, failed[0].reason)
	}
	if len(o.fault.reasons) > 0 {
		for i, g := range failed {
			if g.code != wire.InternalError || !o.fault.allows(g.reason) {
				say("get %d of %d that failed: %d %s, not %s", i+1, len(failed), g.code, g.reason, o.fault.reasons)
				break
			}
		}
		if len(failed) == 0 && !o.fault.idle && !o.fault.unmarked {
			say("no get failed")
		}
	}
	if slowest := slowest(failed); slowest > callTimeout+lateError {
		say("an error took %v, not at most %v", slowest.Round(time.Millisecond), callTimeout+lateError)
	}
	if !o.fault.unmarked {
		within := markedWithin
		if o.fault.idle {
			within = markedIdle
		}
		for _, place := range places() {
			if at, ok := o.seen[place]; !ok {
				say("not marked in %s", place)
			} else if at > within {
				say("marked in %s after %v, not within %v", place, at.Round(10*time.Millisecond), within)
			}
		}
	}
	if !o.relisted {
		say("the list is not that of the server")
	}
	if o.healed < 0 {
		say("not healed after %v", convalescence)
	} else if o.healed > healedWithin {
		say("healed after %v, not within %v", o.healed.Round(10*time.Millisecond), healedWithin)
	}
	if o.memory > maxMemory {
		say("%d MiB more memory, not at most %d", o.memory>>20, maxMemory>>20)
	}
	if o.left.goroutines > maxLeftGoroutines || o.left.descriptors > maxLeftDescriptors {
		say("%d goroutines and %d descriptors are left", o.left.goroutines, o.left.descriptors)
	}
	return all
}

// allows reports whether gets may fail for a reason. While a server hangs, its slots are taken, and the ping that follows a timeout
// finds that it cannot be reached.
func (f *fault) allows(reason string) bool {
	return reason == breakerOpen || slices.Contains(f.reasons, reason) ||
		slices.Contains(f.reasons, timedOut) && (reason == overloaded || reason == unreachable)
}

func failures(gets []get) []get {
	return slices.DeleteFunc(slices.Clone(gets), func(g get) bool { return g.code == 0 })
}

func slowest(gets []get) (longest time.Duration) {
	for _, g := range gets {
		longest = max(longest, g.took())
	}
	return longest
}
