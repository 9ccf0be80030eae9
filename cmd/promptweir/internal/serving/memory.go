package serving

import (
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

// memoryFraction is Go's soft limit as a fraction of the container's memory limit. The remainder is for
// memory that Go does not manage.
const memoryFraction = 0.9

// limitMemory sets Go's soft memory limit from the container's limit, unless GOMEMLIMIT is set.
func limitMemory(logger *slog.Logger) {
	if limit, err := memlimit.Set(memlimit.WithRatio(memoryFraction)); err != nil &&
		!errors.Is(err, memlimit.ErrNoCgroup) {
		logger.Info("cannot read the container's memory limit", slog.Any("error", err))
	} else if err == nil && limit != math.MaxInt64 {
		logger.Info("memory limit", slog.Int64("bytes", limit))
	}
}

// availableMemory returns the memory for the process in bytes: Go's soft limit, else the container's limit,
// else the machine's memory, or 0 if it cannot be determined.
func availableMemory(logger *slog.Logger) int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	limit, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil || limit > math.MaxInt64 {
		logger.Info("cannot read the size of the memory: max_buffered works only as a number of bytes",
			slog.Any("error", err))
		return 0
	}
	return int64(limit)
}

// The pacer chooses GOGC after each garbage collection, because no constant suits a small heap under load as
// well as a large one. Measured in pairs of builds (CPU per request with the pacer against other settings,
// median ratio and 95 % confidence interval):
//
//	against GOGC=100               get of 10 KB 0.82 (0.78–0.86), list of 10 0.88 (0.78–0.91)
//	against GOGC=200               get of 1 MB 0.85 (0.79–0.89), list of 100 0.95 (0.85–0.97)
//	against GOGC=400               get of 1 MB 0.85 (0.75–0.98); 2 000 gets in flight hold 270 MiB instead of 460
//	against one without a budget   get of 1 MB 0.76 (0.70–0.79), get of 10 KB 0.91 (0.81–1.02)
//
// The price is memory: gets of 1 MB from 32 connections hold 160 MiB instead of 90, and a listener
// 5 KiB more than with GOGC=200.
const (
	// gcFraction is the fraction of the processors' time that garbage collection may take before
	// the pacer lets more garbage accumulate, up to maxGarbage.
	gcFraction = 0.02
	// minGarbage is the minimum garbage between two collections, in bytes. With more, the working
	// set of the gateway and its neighbours leaves the processor's caches: with 32 MiB a list of 10
	// took 4 % longer.
	minGarbage = 12 << 20
	// easyGarbage bounds the garbage in bytes while gcFraction does not require more. Below this bound, the
	// garbage may be twice the memory in use. This saves 60 MB in a process with much memory in use and little
	// work, such as one with 10 000 servers that are down.
	easyGarbage = 64 << 20
	// maxGarbage bounds the garbage in bytes, unless minPercent allows more.
	maxGarbage = 128 << 20
	// minPercent is the minimum GOGC. It matters for a large catalog, where memory is more
	// important than the time of rare collections.
	minPercent = 70
	// minHeap is Go's minimum heap size at GOGC=100, see https://go.dev/doc/gc-guide#GOGC.
	minHeap = 4 << 20
)

// paceCollector starts a pacer that runs until the process ends, unless GOGC is set.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		p := &pacer{set: debug.SetGCPercent}
		p.follow(readCollection())
	}
}

// pacer sets GOGC after each garbage collection. It needs no lock: each run of follow registers the next run
// as its last step.
type pacer struct {
	set     func(percent int) int
	percent int
}

// follow sets GOGC now, and again after the next collection.
func (p *pacer) follow(last collection) {
	now := readCollection()
	now.budget = now.nextBudget(last)
	if percent := gcPercent(now.live, now.budget); percent != p.percent {
		p.percent = percent
		p.set(percent)
	}
	// The sentinel is garbage at once, so the next collection finds it. It contains a pointer because Go
	// allocates small objects without pointers together, and frees them together.
	sentinel := &struct{ self any }{}
	runtime.AddCleanup(sentinel, p.follow, now)
}

// collection is the state of the heap after a garbage collection.
type collection struct {
	at time.Time
	// live is the memory in use, and allocated the memory allocated since the start, both in bytes.
	live, allocated uint64
	// spent is the processor time of garbage collection since the start.
	spent time.Duration
	// budget is the garbage in bytes with which garbage collection stays within gcFraction.
	budget uint64
}

func readCollection() collection {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		// Collection on processors that are otherwise idle costs nothing: this time is subtracted.
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
	}
	metrics.Read(samples)
	spent := samples[2].Value.Float64() - samples[3].Value.Float64()
	return collection{
		at: time.Now(), live: samples[0].Value.Uint64(), allocated: samples[1].Value.Uint64(),
		spent: time.Duration(spent * float64(time.Second)),
	}
}

// nextBudget returns the garbage in bytes with which the next collection stays within gcFraction, if its
// duration and the allocation rate stay the same.
func (c collection) nextBudget(last collection) uint64 {
	// The budget falls by at most half at a time, so that it recovers quickly after a pause.
	elapsed := max(c.at.Sub(last.at), time.Microsecond)
	perSecond := float64(c.allocated-last.allocated) / elapsed.Seconds()
	interval := (c.spent - last.spent).Seconds() / (gcFraction * float64(runtime.GOMAXPROCS(0)))
	return max(uint64(min(max(perSecond*interval, 0), maxGarbage)), last.budget/2)
}

// gcPercent returns the GOGC for the budget, rounded down to steps of 20 %, because each change of GOGC stops
// the world for a moment.
func gcPercent(live, budget uint64) int {
	garbage := min(max(min(2*live, easyGarbage), minGarbage, budget), maxGarbage)
	percent := minPercent
	for next := percent; uint64(next)*max(live, minHeap)/100 <= garbage; next += next / 5 {
		percent = next
	}
	return percent
}

// releaseMemory returns unused memory to the operating system after a start or a reload. With 1 000
// upstreams of 100 prompts the process then has 268 MiB instead of 340 to 560, and with 10 000
// servers that are down 240 MB after some reloads instead of 420.
func releaseMemory() { debug.FreeOSMemory() }
