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
	// collectorShare is how much of the processors' time the garbage collector may take, up to mostGarbage. What it takes
	// each time depends on what is in use, and how often on how fast garbage is made: prompts of a megabyte would have one
	// collection come after the other, and thousands of requests in flight make each of them long.
	collectorShare = 0.02
	// leastGarbage is about how many bytes are left lying before they are collected, however little that takes. Many more
	// would push what the gateway and its neighbours work with out of the processor's caches: with 32 MiB, a list of 10
	// prompts took 4 % longer.
	leastGarbage = 12 << 20
	// mostGarbage bounds what is left lying, in bytes, however much is in use and whatever the share, but for leastPercent.
	mostGarbage = 128 << 20
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
		readHeap().pace(0)
	}
}

// heap is how a collection left things.
type heap struct {
	at time.Time
	// live is what is in use, and allocated what was allocated since the start, in bytes.
	live, allocated uint64
	// collecting is how long processors have collected since the start.
	collecting time.Duration
	// due is after how many bytes of garbage the next collection is, see dueAfter.
	due uint64
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}, // which nobody misses
	}
	metrics.Read(samples)
	collecting := samples[2].Value.Float64() - samples[3].Value.Float64()
	return heap{
		at: time.Now(), live: samples[0].Value.Uint64(), allocated: samples[1].Value.Uint64(),
		collecting: time.Duration(collecting * float64(time.Second)),
	}
}

// pace sets the measure, and again after each collection: whatever is in use then, the next may be far off.
func (h heap) pace(percent int) {
	now := readHeap()
	now.due = now.dueAfter(h)
	if next := collectorPercent(now.live, now.due); next != percent {
		percent = next
		debug.SetGCPercent(percent)
	}
	mark := &struct{ self any }{} // nothing refers to it: it goes with the next collection
	runtime.AddCleanup(mark, now.pace, percent)
}

// dueAfter is after how many bytes of garbage, at the pace since the last collection, the next may take as long as that one.
// It falls by half at a time: after a lull the pace is soon what it was.
func (h heap) dueAfter(last heap) uint64 {
	perSecond := float64(h.allocated-last.allocated) / max(h.at.Sub(last.at), time.Microsecond).Seconds()
	pause := (h.collecting - last.collecting).Seconds() / (collectorShare * float64(runtime.GOMAXPROCS(0)))
	return max(uint64(min(max(perSecond*pause, 0), mostGarbage)), last.due/2)
}

// collectorPercent is the measure for so many bytes in use, where the next collection is due after so many of garbage. It
// goes in steps of a fifth: each change stops the world for a moment.
func collectorPercent(live, due uint64) int {
	garbage := min(max(2*live, leastGarbage, due), mostGarbage)
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
