package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheCollectorWaitsForGarbage(t *testing.T) {
	for live, want := range map[uint64][2]uint64{ // MiB in use, and the least and the most garbage that may be left
		0: {0, 0}, 2: {5, 6}, 4: {10, 12}, 10: {16, 20}, 30: {50, 60}, 60: {100, 120}, 120: {106, 128}, 170: {106, 128}, 200: {140, 140}, 1000: {700, 700},
	} {
		garbage := uint64(collectorPercent(live<<20)) * live / 100
		if garbage < want[0] || garbage > want[1] {
			t.Errorf("with %d MiB in use, %d of garbage are left, want %d to %d", live, garbage, want[0], want[1])
		}
	}
}

func TestTheMeasureFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	paceCollector()
	if got := debug.SetGCPercent(100); got <= 100 {
		t.Errorf("GOGC is %d with next to nothing in use", got)
	}
	inUse := make([]byte, 200<<20)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		if got := debug.SetGCPercent(leastPercent); got == leastPercent && liveHeap() > uint64(len(inUse)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the measure does not follow: %d bytes are in use", liveHeap())
		}
	}
	runtime.KeepAlive(inUse)
}

func TestTidyingUpWaitsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, looks := time.Now(), 0
		if err := tidyUp(t.Context(), func() bool { looks++; return looks == 3 }); err != nil || time.Since(begun) != 2*tidyInterval {
			t.Errorf("tidyUp() = %v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*tidyInterval)
		defer cancel()
		if err := tidyUp(ctx, func() bool { return false }); err != nil || ctx.Err() == nil {
			t.Errorf("tidyUp() = %v before its context ended", err)
		}
	})
}
