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

// maxViews bounds the cached views of a catalog. A policy caches as many audiences. After it evicts
// an audience and makes it again, the audience has a new pointer, and the old view would stay
// forever without this bound.
const maxViews = 10_000

// maxURI bounds the URIs in lookups, in bytes. Longer URIs name no file of a skill.
const maxURI = 4096

// views caches a catalog's views for the most recent audiences.
type views struct {
	catalog *catalog.Catalog
	recent  *lru.Cache[*policy.Audience, *view]
}

func newViews(of *catalog.Catalog) views {
	recent, _ := lru.New[*policy.Audience, *view](maxViews) // fails only for a size below one
	return views{of, recent}
}

// after returns the views of the next catalog with the same policy. Built views are updated, at a
// cost proportional to the changes. Views that were not built are dropped.
func (v views) after(next *catalog.Catalog) views {
	if next == v.catalog {
		return v
	}
	fresh, changes := newViews(next), catalog.Diff(v.catalog, next)
	for _, audience := range v.recent.Keys() { // least recently used first
		earlier, ok := v.recent.Peek(audience)
		if !ok || !earlier.built.Load() { // evicted, or not built
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
	merged := v.catalog // capture the catalog, not v: views of later catalogs hold on to this function
	fresh := newView(audience, new(atomic.Bool), func() *catalog.View { return merged.View(visibleTo(audience)) })
	if earlier, ok, _ := v.recent.PeekOrAdd(audience, fresh); ok { // another goroutine was faster
		return earlier
	}
	return fresh
}

func visibleTo(audience *policy.Audience) func(*catalog.Entry) bool {
	return func(entry *catalog.Entry) bool { return entry.VisibleTo(audience) }
}

// view is the view of one audience. Its parts are built at their first use, outside of the cache's
// lock.
type view struct {
	entries func() *catalog.View
	// built is true once the entries were requested, ready once they exist.
	built, ready atomic.Bool
	// skills returns the entries that are skills, by the URI of their folder.
	skills func() map[string]*catalog.Entry
	// owners returns the labels of the upstreams that may serve an entry of the view to the
	// audience.
	owners func() map[string]bool
	// paged is true once the log says that the view has several pages. The audience's later views
	// share the value.
	paged *atomic.Bool
}

func newView(audience *policy.Audience, paged *atomic.Bool, build func() *catalog.View) *view {
	v := &view{paged: paged}
	v.entries = sync.OnceValue(func() *catalog.View {
		v.built.Store(true)
		entries := build()
		v.ready.Store(true)
		return entries
	})
	v.skills = sync.OnceValue(func() map[string]*catalog.Entry {
		skills := map[string]*catalog.Entry{}
		for _, entry := range v.entries().Kind(true).Entries() {
			skills[entry.Root] = entry
		}
		return skills
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

// knows reports whether the view's audience may know of an upstream: it is a member of the team, or
// sees an entry of the upstream.
func (v *view) knows(audience *policy.Audience, u *config.Upstream) bool {
	return audience.Member(u.Team) || v.owners()[u.Name]
}

// Skill returns the visible skill whose SKILL.md has this URI, or nil if there is none. Call
// [Snapshot.RequestView] for the audience first.
func (s *Snapshot) Skill(audience *policy.Audience, uri string) *catalog.Entry {
	root, _ := strings.CutSuffix(uri, "/"+wire.SkillFile)
	if entry := s.views.of(audience).skills()[root]; entry != nil && entry.URI() == uri {
		return entry
	}
	return nil
}

// SkillsAround yields the visible skills whose folder contains the file or folder, or is this
// folder. The innermost skill comes first. The string is the path from the skill's folder.
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
