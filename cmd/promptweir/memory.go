package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// leastGarbage is about how many bytes are left lying before they are collected, however few are in use: a gateway with
	// little in use would otherwise collect a hundred times a second. Much more than that pushes what it and its neighbours
	// work with out of the processor's caches: with 32 MiB, a list of 10 prompts took 4 % longer.
	leastGarbage = 12 << 20
	// mostGarbage is up to how many bytes twice as much is left as there is in use, where Go leaves as much: with
	// thousands of requests in flight, to go through them and their stacks costs more than the memory does.
	mostGarbage = 128 << 20
	// leastPercent and mostPercent bound the measure. Of a large catalog, what it weighs counts for more than what it costs
	// to go through it a little more often. With next to nothing in use Go waits for a heap of 4 MiB for each 100 %: with the
	// most, for leastGarbage.
	leastPercent, mostPercent = 70, 300
	// memoryShare is how much of the memory that a container allows Go may take before it collects more eagerly.
	memoryShare = 0.9
)

// limitMemory makes Go respect the memory limit of its container, unless GOMEMLIMIT says another.
func limitMemory(logger *slog.Logger) {
	if limit, err := memlimit.Set(memlimit.WithRatio(memoryShare)); err != nil && !errors.Is(err, memlimit.ErrNoCgroup) {
		logger.Info("memory limit not found out", slog.Any("error", err))
	} else if err == nil && limit != math.MaxInt64 {
		logger.Info("memory limit", slog.Int64("bytes", limit))
	}
}

// paceCollector keeps the garbage collector from running for less than leastGarbage, as long as the process lives. GOGC in
// the environment decides instead, where it is set.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		pace(0)
	}
}

// pace sets the measure, and again after each collection: whatever is in use then, the next may be far off.
func pace(last int) {
	percent := collectorPercent(liveHeap())
	if percent != last {
		debug.SetGCPercent(percent)
	}
	mark := &struct{ self any }{} // nothing refers to it: it goes with the next collection
	runtime.AddCleanup(mark, pace, percent)
}

// collectorPercent is the measure for so many bytes in use, in steps of a fifth: each change stops the world for a moment.
func collectorPercent(live uint64) int {
	garbage := min(max(2*live, leastGarbage), mostGarbage)
	percent := leastPercent
	for next := percent; next <= mostPercent && uint64(next)*live/100 <= garbage; next += next / 5 {
		percent = next
	}
	return percent
}

// tidyInterval is how often tidyUp looks.
const tidyInterval = time.Second

// tidyUp gives back to the operating system, once, what the start took and nobody needs any more: a large catalog is read in a
// second, and leaves as much behind as it weighs.
func tidyUp(ctx context.Context, ready func() bool) error {
	for !ready() {
		select {
		case <-time.After(tidyInterval):
		case <-ctx.Done():
			return nil
		}
	}
	debug.FreeOSMemory()
	return nil
}

// liveHeap is what was in use after the last collection, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
