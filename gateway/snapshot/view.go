package snapshot

import (
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
)

// maxViews bounds the views that a snapshot keeps, to as many audiences as a policy keeps. An audience that the policy
// has evicted comes back as another pointer, so without a bound the views would grow forever.
const maxViews = 10_000

// view is what one audience sees of a snapshot. Its parts are built on first use, outside of the cache's lock.
type view struct {
	entries func() *catalog.View
	// built is set once the entries have been asked for, and ready once they are there.
	built, ready atomic.Bool
	// owners are the labels of the upstreams that may serve an entry of the view to the audience.
	owners func() map[string]bool
	// paged is set once it has been said that the view has more than one page. The audience's later views share it.
	paged *atomic.Bool
}

func newView(audience *policy.Audience, paged *atomic.Bool, build func() *catalog.View) *view {
	v := &view{paged: paged}
	v.entries = sync.OnceValue(func() *catalog.View {
		v.built.Store(true)
		defer v.ready.Store(true)
		return build()
	})
	v.owners = sync.OnceValue(func() map[string]bool {
		owners := map[string]bool{}
		for _, entry := range v.entries().Entries() {
			for _, owner := range entry.OwnersFor(audience) {
				owners[owner.Upstream] = true
			}
		}
		return owners
	})
	return v
}
