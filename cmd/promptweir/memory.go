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
	// leastGarbage is about how many bytes are left lying before they are collected, however few are in use. Many more would
	// push what the gateway and its neighbours work with out of the processor's caches: with 32 MiB, a list of 10 prompts
	// took 4 % longer.
	leastGarbage = 12 << 20
	// mostGarbage is up to how many bytes twice as much is left as there is in use, where Go leaves as much: with
	// thousands of requests in flight, to go through them and their stacks costs more than the memory does.
	mostGarbage = 128 << 20
	// leastPause is how much time is to pass between two collections, up to mostGarbage: prompts of a megabyte would
	// otherwise have one come after the other.
	leastPause = 25 * time.Millisecond
	// leastPercent bounds the measure. Of a large catalog, what it weighs counts for more than what it costs to go through it
	// a little more often.
	leastPercent = 70
	// leastHeap is what Go waits for at 100 %, however little is in use.
	leastHeap = 4 << 20
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

// paceCollector decides when the garbage collector runs, as long as the process lives. GOGC in the environment decides
// instead, where it is set.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		pacer{at: time.Now()}.pace()
	}
}

// pacer is how a collection found things.
type pacer struct {
	at        time.Time
	allocated uint64 // since the start, in bytes
	percent   int    // the measure that followed
}

// pace sets the measure, and again after each collection: whatever is in use then, the next may be far off.
func (last pacer) pace() {
	live, allocated := heap()
	now := pacer{at: time.Now(), allocated: allocated}
	inPause := float64(allocated-last.allocated) * float64(leastPause) / float64(max(1, now.at.Sub(last.at)))
	now.percent = collectorPercent(live, uint64(min(inPause, mostGarbage)))
	if now.percent != last.percent {
		debug.SetGCPercent(now.percent)
	}
	mark := &struct{ self any }{} // nothing refers to it: it goes with the next collection
	runtime.AddCleanup(mark, pacer.pace, now)
}

// collectorPercent is the measure for so many bytes in use, where so many become garbage in leastPause. It goes in steps of
// a fifth: each change stops the world for a moment.
func collectorPercent(live, inPause uint64) int {
	garbage := min(max(2*live, leastGarbage, inPause), mostGarbage)
	percent := leastPercent
	for next := percent; uint64(next)*max(live, leastHeap)/100 <= garbage; next += next / 5 {
		percent = next
	}
	return percent
}

// tidyInterval is how often tidyUp looks.
const tidyInterval = 100 * time.Millisecond

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

// heap returns how many bytes were in use after the last collection, and how many have been allocated since the start.
func heap() (live, allocated uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}
