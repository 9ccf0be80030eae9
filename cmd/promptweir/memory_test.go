package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheCollectorWaitsForGarbage(t *testing.T) {
	for _, test := range []struct{ live, due, least, most uint64 }{ // MiB in use, of garbage that is due, and to be left
		{0, 0, 10, 12},
		{2, 0, 10, 12},
		{4, 0, 10, 12},
		{10, 0, 16, 20},
		{30, 0, 50, 60},
		{120, 0, 106, 128},
		{170, 0, 106, 128},
		{200, 0, 140, 140},
		{1000, 0, 700, 700},
		{2, 10, 10, 12},
		{2, 50, 40, 50},
		{30, 50, 50, 60},
		{30, 100, 80, 100},
		{2, 1000, 106, 128},
		{200, 1000, 140, 140},
	} {
		percent := uint64(collectorPercent(test.live<<20, test.due<<20))
		if garbage := percent * max(test.live, leastHeap>>20) / 100; garbage < test.least || garbage > test.most {
			t.Errorf("with %d MiB in use and %d due, %d of garbage are left, want %d to %d", test.live, test.due, garbage, test.least, test.most)
		}
	}
}

func TestWhatIsDueDependsOnThePaceAndOnWhatItTakes(t *testing.T) {
	allowed := collectorShare * float64(runtime.GOMAXPROCS(0)) * float64(time.Second)
	begun := time.Now()
	for _, test := range []struct {
		allocated  uint64        // in a second
		collecting time.Duration // of that second, of all processors
		before     uint64        // what was due last time
		due        uint64
	}{
		{100 << 20, time.Duration(allowed), 0, 100 << 20},
		{100 << 20, time.Duration(allowed / 10), 0, 10 << 20},
		{10 << 20, time.Duration(2 * allowed), 0, 20 << 20},
		{1 << 40, time.Duration(allowed), 0, mostGarbage},
		{0, time.Duration(allowed), 0, 0},
		{100 << 20, 0, 0, 0},
		{100 << 20, time.Duration(allowed / 10), 12 << 20, 10 << 20},
		{100 << 20, time.Duration(allowed / 10), 100 << 20, 50 << 20},
	} {
		last := heap{at: begun, allocated: 7, collecting: time.Minute, due: test.before}
		now := heap{at: begun.Add(time.Second), allocated: 7 + test.allocated, collecting: time.Minute + test.collecting}
		if got := now.dueAfter(last); got < test.due-test.due/1000 || got > test.due+test.due/1000 {
			t.Errorf("%d bytes a second, %v: %d due, want %d", test.allocated, test.collecting, got, test.due)
		}
	}
}

// The collector's pace is the whole process's and is set again after every collection, so a process of its own shows it.
func TestPaceCollector_FollowsTheLiveHeap(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "collector")
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GOGC=") })
	command.Env = append(command.Env, "GORACE=atexit_sleep_ms=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// followLiveHeap is the process that TestPaceCollector_FollowsTheLiveHeap runs. It exits with 1 if the pace is wrong to
// begin with, and is killed if the pace never follows.
func followLiveHeap() {
	runtime.GC()
	paceCollector()
	if got := debug.SetGCPercent(100); got <= 100 {
		fmt.Printf("GOGC is %d with next to nothing in use\n", got)
		os.Exit(1)
	}
	inUse := make([]byte, 200<<20)
	for {
		runtime.GC() // the pace is set by a cleanup, some time after
		live := readHeap().live
		if got := debug.SetGCPercent(leastPercent); got == leastPercent && live > uint64(len(inUse)) {
			break
		}
		time.Sleep(time.Millisecond)
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
