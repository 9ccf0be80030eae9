package upstreamtest

import (
	"runtime/debug"
	"testing"
)

// Allocs returns how many allocations one call of f makes once its pools are filled. The garbage
// collector is off meanwhile, since it empties sync.Pools, so without the race detector the first
// measurement is exact. The race detector makes a sync.Pool drop one value in four at random; only
// for its sake the least of many measurements is taken.
func Allocs(tb testing.TB, f func()) float64 {
	tb.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := testing.AllocsPerRun(1, f)
	for range 50 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}
