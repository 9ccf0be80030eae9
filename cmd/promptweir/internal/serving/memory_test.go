package serving

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestGCPercent_BoundsGarbage(t *testing.T) {
	for _, test := range []struct{ live, budget, least, most uint64 }{ // all in MiB; garbage is between least and most
		{0, 0, 10, 12},
		{4, 0, 10, 12},
		{30, 0, 50, 60},
		{120, 0, 84, 84},
		{120, 128, 106, 128},
		{1000, 0, 700, 700},
		{2, 50, 40, 50},
		{30, 100, 80, 100},
		{2, 1000, 106, 128},
	} {
		percent := uint64(gcPercent(test.live<<20, test.budget<<20))
		if garbage := percent * max(test.live, minHeap>>20) / 100; garbage < test.least || garbage > test.most {
			t.Errorf("gcPercent(%d MiB, %d MiB) = %d, which is %d MiB of garbage, want %d to %d", test.live, test.budget, percent, garbage, test.least, test.most)
		}
	}
}

func TestNextBudget_FollowsPaceAndCost(t *testing.T) {
	allowed := gcFraction * float64(runtime.GOMAXPROCS(0)) * float64(time.Second)
	begun := time.Now()
	for _, test := range []struct {
		allocated uint64        // within a second
		spent     time.Duration // of that second, of all processors
		before    uint64        // the last budget
		want      uint64
	}{
		{100 << 20, time.Duration(allowed), 0, 100 << 20},
		{100 << 20, time.Duration(allowed / 10), 0, 10 << 20},
		{10 << 20, time.Duration(2 * allowed), 0, 20 << 20},
		{1 << 40, time.Duration(allowed), 0, maxGarbage},
		{0, time.Duration(allowed), 0, 0},
		{100 << 20, 0, 0, 0},
		{100 << 20, time.Duration(allowed / 10), 12 << 20, 10 << 20},
		{100 << 20, time.Duration(allowed / 10), 100 << 20, 50 << 20},
	} {
		last := collection{at: begun, allocated: 7, spent: time.Minute, budget: test.before}
		now := collection{at: begun.Add(time.Second), allocated: 7 + test.allocated, spent: time.Minute + test.spent}
		if got := now.nextBudget(last); got < test.want-test.want/1000 || got > test.want+test.want/1000 {
			t.Errorf("%d bytes in a second, %v of collection, %d before: nextBudget() = %d, want %d", test.allocated, test.spent, test.before, got, test.want)
		}
	}
}

// The pacer runs on the real heap of this process and its collections, but sets nothing.
func TestPacer_FollowsHeap(t *testing.T) {
	var percent atomic.Int64
	p := &pacer{set: func(n int) int { return int(percent.Swap(int64(n))) }}
	runtime.GC()
	p.follow(readCollection())
	if got := percent.Load(); got <= 100 {
		t.Errorf("GOGC = %d with hardly any memory in use, want more than 100", got)
	}
	inUse := make([]byte, 200<<20)
	for deadline := time.Now().Add(time.Minute); percent.Load() != minPercent; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC = %d with %d MiB in use, want %d", percent.Load(), readCollection().live>>20, minPercent)
		}
	}
	runtime.KeepAlive(inUse)
}
