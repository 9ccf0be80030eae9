// Package bubble runs tests in virtual time: [Test] is synctest.Test, which the race detector of Go
// 1.26 cannot crash.
package bubble

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble, as synctest.Test does. The test must not be parallel to others, nor be
// any test that it is part of: it is busy without a pause for as much time as passes in it, and
// others that run in real time beside it would seem to be slow.
//
// The timers of a bubble share one context of the race detector. Before Go 1.27, two that fire on
// two threads at once crash it (golang/go#78156). Under the detector of such a Go, no other thread
// runs while there is a bubble. It finds the same races: it looks at which access is ordered before
// which, not at what runs at the same time.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Setenv("BUBBLE", t.Name()) // which refuses tests that are parallel
	if sharedByTimers {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, f)
}
