package snapshot

import (
	"strings"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxViews bounds the views that a snapshot keeps, to as many audiences as a policy keeps. An
// audience that the policy has evicted comes back as another pointer, so without a bound the views
// would grow forever.
const maxViews = 10_000

// maxURI bounds the URIs that are looked up, in bytes. No file of a skill has a longer one.
const maxURI = 4096

// views are what audiences see of a catalog, of the most recent ones.
type views struct {
	catalog *catalog.Catalog
	recent  *lru.Cache[*policy.Audience, *view]
}

func newViews(of *catalog.Catalog) views {
	recent, _ := lru.New[*policy.Audience, *view](maxViews) // an error is for a size below one
	return views{of, recent}
}

// after returns the views of another catalog by the same policy. Those that were built are carried
// over, at a cost in proportion to what changed; the others are forgotten.
func (v views) after(next *catalog.Catalog) views {
	if next == v.catalog {
		return v
	}
	fresh, changes := newViews(next), catalog.Diff(v.catalog, next)
	for _, audience := range v.recent.Keys() { // from the least to the most recently used
		earlier, ok := v.recent.Peek(audience)
		if !ok || !earlier.built.Load() { // evicted meanwhile, or not built
			continue
		}
		fresh.recent.Add(audience, newView(audience, earlier.paged, func() *catalog.View {
			return earlier.entries().With(next, changes, visibleTo(audience))
		}))
	}
	return fresh
}

// of returns the view of an audience.
func (v views) of(audience *policy.Audience) *view {
	if known, ok := v.recent.Get(audience); ok {
		return known
	}
	merged := v.catalog // not v: the views of later catalogs share the view
	fresh := newView(audience, new(atomic.Bool), func() *catalog.View { return merged.View(visibleTo(audience)) })
	if earlier, ok, _ := v.recent.PeekOrAdd(audience, fresh); ok { // another goroutine was faster
		return earlier
	}
	return fresh
}

func visibleTo(audience *policy.Audience) func(*catalog.Entry) bool {
	return func(entry *catalog.Entry) bool { return entry.VisibleTo(audience) }
}

// view is what one audience sees of a snapshot. Its parts are built on first use, outside of the
// cache's lock.
type view struct {
	entries func() *catalog.View
	// built is set once the entries have been asked for, and ready once they are there.
	built, ready atomic.Bool
	// skills are those of the entries, by the URI of their folder.
	skills func() map[string]*catalog.Entry
	// owners are the labels of the upstreams that may serve an entry of the view to the audience.
	owners func() map[string]bool
	// paged is set once it has been said that the view has more than one page. The audience's later
	// views share it.
	paged *atomic.Bool
}

func newView(audience *policy.Audience, paged *atomic.Bool, build func() *catalog.View) *view {
	v := &view{paged: paged}
	v.entries = once(func() *catalog.View {
		v.built.Store(true)
		entries := build()
		v.ready.Store(true)
		return entries
	})
	v.skills = once(func() map[string]*catalog.Entry {
		skills := map[string]*catalog.Entry{}
		for _, entry := range v.entries().Kind(true).Entries() {
			skills[entry.Root] = entry
		}
		return skills
	})
	v.owners = once(func() map[string]bool {
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

// once is sync.OnceValue but for a panic, after which the next call builds the value anew: it must
// not last for as long as the view.
func once[T any](build func() T) func() T {
	var (
		built atomic.Pointer[T]
		mu    sync.Mutex // guards build
	)
	return func() T {
		if value := built.Load(); value != nil {
			return *value
		}
		mu.Lock()
		defer mu.Unlock()
		if value := built.Load(); value != nil {
			return *value
		}
		value := build()
		built.Store(&value)
		build = nil // let go of what it refers to
		return value
	}
}

// knows reports whether the audience of the view may hear of an upstream: as members of its team,
// or since they see an entry of it.
func (v *view) knows(audience *policy.Audience, u *config.Upstream) bool {
	return audience.Member(u.Team) || v.owners()[u.Name]
}

// Skill returns the skill that an audience sees whose SKILL.md has this URI; nil if there is none.
// [Snapshot.RequestView] must have been called for the audience.
func (s *Snapshot) Skill(audience *policy.Audience, uri string) *catalog.Entry {
	root, _ := strings.CutSuffix(uri, "/"+wire.SkillFile)
	if entry := s.views.of(audience).skills()[root]; entry != nil && entry.URI() == uri {
		return entry
	}
	return nil
}

// SkillsAround yields the skills that an audience sees around a file or folder, or that begin
// there, the innermost first, each with the path from its folder.
func (s *Snapshot) SkillsAround(audience *policy.Audience, uri string) func(yield func(*catalog.Entry, string) bool) {
	return func(yield func(*catalog.Entry, string) bool) {
		skills := s.views.of(audience).skills()
		if len(uri) > maxURI || strings.HasSuffix(uri, "/") {
			return
		}
		for end := len(uri); end > 0; end = strings.LastIndexByte(uri[:end], '/') {
			if entry := skills[uri[:end]]; entry != nil && !yield(entry, strings.TrimPrefix(uri[end:], "/")) {
				return
			}
		}
	}
}
