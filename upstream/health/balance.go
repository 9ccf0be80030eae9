package health

import (
	"cmp"
	"slices"
	"sync"
)

// Balance orders the endpoints of one upstream: the one with the fewest calls in flight comes first
// and, of those with as many, the one that came first the longest time ago. So endpoints that are
// equally fast share the calls evenly, a slower one gets fewer, and one that hangs no more than the
// others have in flight. Its zero value is ready for use.
type Balance struct {
	mu    sync.Mutex // so that each order sees the last one's pick
	picks uint64
}

// Order returns endpoints, best first: those that are ready, ordered, and then the others. There
// must be one. Health returns that of an endpoint.
func Order[E any](b *Balance, ready, others []E, health func(E) *Endpoint) []E {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Stable, so that the configured order counts among endpoints that had no call yet.
	slices.SortStableFunc(ready, func(first, second E) int {
		x, y := health(first), health(second)
		return cmp.Or(
			cmp.Compare(x.inFlight.Load(), y.inFlight.Load()), cmp.Compare(x.picked.Load(), y.picked.Load()))
	})
	ordered := append(ready, others...)
	b.picks++
	health(ordered[0]).picked.Store(b.picks)
	return ordered
}
