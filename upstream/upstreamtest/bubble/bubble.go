// Package bubble runs tests in virtual time: [Test] is synctest.Test, which the race detector of Go 1.26 cannot crash.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// oneThread counts the bubbles that need one thread.
//
//nolint:gochecknoglobals // the number of threads is the process's
var oneThread struct {
	sync.Mutex
	bubbles int
	before  int
}

// Test runs f in a bubble, as synctest.Test does.
//
// The timers of a bubble share one context of the race detector. Before Go 1.27, two that fire on two threads at once crash it
// (golang/go#78156). Under the detector of such a Go, no other thread runs while there is a bubble. It finds the same races: it looks
// at which access is ordered before which, not at what runs at the same time.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if sharedByTimers {
		begin()
		defer end()
	}
	synctest.Test(t, f)
}

func begin() {
	oneThread.Lock()
	defer oneThread.Unlock()
	if oneThread.bubbles == 0 {
		oneThread.before = runtime.GOMAXPROCS(1)
	}
	oneThread.bubbles++
}

func end() {
	oneThread.Lock()
	defer oneThread.Unlock()
	if oneThread.bubbles--; oneThread.bubbles == 0 {
		runtime.GOMAXPROCS(oneThread.before)
	}
}
