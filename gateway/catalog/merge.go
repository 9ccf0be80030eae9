package catalog

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/gateway/policy"
)

// Source is what one upstream contributes. Every configured upstream is a source, even one that was
// never listed: its prefix belongs to its team all the same.
type Source struct {
	// Upstream is its label, unique in the configuration.
	Upstream string
	Team     string
	// Prefix stands before the separator in exposed names; without one, a prompt is exposed under
	// its own name.
	Prefix string
	// Skills says that it may have skills, so that names which begin with "skill:" are theirs.
	Skills bool
	// Place is where the upstream is configured, as PATH:LINE, for reports.
	Place string
	// Prompts is its last good list, in the upstream's order.
	Prompts []*Prompt

	declared *Declaration // that of all owners in a catalog
}

// Options are the gateway settings that decide about names.
type Options struct {
	// Separator stands between an upstream's prefix and the prompt's name.
	Separator string
	// KeepFirst keeps the first of several prompts that claim one exposed name, in configuration
	// order. Otherwise all claimants are left out. It does not concern replicas, of which the first
	// one's definition is always kept.
	KeepFirst bool
	// Decide returns what policy decides about a new entry: one visibility if all of its owners are
	// alike, else one for each. It must be pure. If it is nil, nobody sees any entry.
	Decide func(*Entry) []*policy.Visibility
}

// claim is one prompt's claim to one exposed name. A catalog's claims are sorted by name, then
// source.
type claim struct {
	name   string
	source int // position in configuration order
	prompt *Prompt
}

func compareClaims(a, b claim) int {
	return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.source, b.source))
}

// Merge returns the catalog of all sources, which are in configuration order.
func Merge(sources []Source, opts Options) *Catalog {
	// The catalog sets fields of its own in them.
	sources = slices.Clone(sources)
	c := &Catalog{opts: opts, sources: sources, namespaces: newNamespaces(sources, opts.Separator)}
	for i := range c.sources {
		source := &c.sources[i]
		source.declared = &Declaration{source.Upstream, source.Place}
		claims, reports := c.claimsOf(i)
		c.claims = append(c.claims, claims...)
		c.reports = append(c.reports, reports...)
	}
	slices.SortFunc(c.claims, compareClaims)
	c.entries = make([]*Entry, 0, len(c.claims))
	for claims := range runs(c.claims, func(c claim) string { return c.name }) {
		entry, reports := c.resolve(claims)
		if entry != nil {
			c.entries = append(c.entries, entry)
		}
		c.reports = append(c.reports, reports...)
	}
	c.folded = slices.SortedFunc(slices.Values(c.entries), compareFolded)
	for entries := range runs(c.folded, func(e *Entry) string { return e.fold }) {
		c.reports = append(c.reports, foldedReports(entries)...)
	}
	c.reports = sortReports(c.reports)
	return c
}

// With returns the catalog after one upstream's list was refreshed: the same as a full [Merge], at
// a cost in proportion to what changed in that list, plus a look at each of its prompts and the
// copy of a sorted slice. Unchanged entries keep their pointers, and an unchanged list returns the
// catalog itself. See [Diff] for the changes.
func (c *Catalog) With(source Source) *Catalog {
	at := slices.IndexFunc(c.sources, func(old Source) bool { return old.Upstream == source.Upstream })
	if at < 0 {
		return Merge(append(slices.Clone(c.sources), source), c.opts)
	}
	old, sources := c.sources[at], slices.Clone(c.sources)
	// Entries that stay refer to it, and so do those that are made now.
	source.declared = old.declared
	sources[at] = source
	switch {
	// Any of these may change what other upstreams' names mean, or what their reports say.
	case old.Team != source.Team || old.Prefix != source.Prefix || old.Skills != source.Skills || old.Place != source.Place:
		return Merge(sources, c.opts)
	case slices.EqualFunc(old.Prompts, source.Prompts, samePrompt):
		return c
	}
	return c.replace(at, sources)
}

// replace keeps everything that does not depend on the prompts of the source at the given position.
func (c *Catalog) replace(at int, sources []Source) *Catalog {
	next := &Catalog{opts: c.opts, sources: sources, namespaces: c.namespaces}
	fresh, reports := next.claimsOf(at)
	// By name, since exchange merges two sorted lists.
	slices.SortFunc(fresh, compareClaims)
	var stale []claim
	next.claims, stale = exchange(c.claims, at, fresh)

	// Only a name that the source claims now with another prompt than before, or no longer, can
	// have another entry.
	names := changedNames(stale, fresh)
	var changes []Change
	for _, name := range names.sorted() {
		entry, conflict := next.resolve(next.claimsOn(name))
		reports = append(reports, conflict...)
		// An entry that is the same although its claims changed keeps its pointer, and so do the
		// views.
		if change := (Change{Before: c.Lookup(name), After: entry}); !change.nothing() {
			changes = append(changes, change)
		}
	}
	next.entries = splice(c.entries, changes, compareNames)

	// Likewise, only what these names fold to can be shared by other entries than before.
	slices.SortFunc(changes, func(a, b Change) int { return compareFolded(a.either(), b.either()) })
	next.folded = splice(c.folded, changes, compareFolded)
	folds := newSet(changes, func(c Change) string { return c.either().fold })
	for _, folded := range folds.sorted() {
		reports = append(reports, foldedReports(next.foldedTo(folded))...)
	}

	for i := range c.reports {
		if !c.dependsOn(&c.reports[i], c.sources[at].Upstream, names, folds) {
			reports = append(reports, c.reports[i])
		}
	}
	next.reports = sortReports(reports)
	return next
}

// claimsOf returns the names that one source may claim, in the order of its list, and reports those
// it may not.
func (c *Catalog) claimsOf(at int) (claims []claim, reports []Report) {
	source := &c.sources[at]
	seen := make(map[string]bool, len(source.Prompts))
	claims = make([]claim, 0, len(source.Prompts))
	for _, prompt := range source.Prompts {
		name := cmp.Or(prompt.Exposed, source.Exposed(c.opts.Separator, prompt.Name))
		if len(name) > MaxName {
			reports = append(reports, nameTooLong(source, prompt, name))
			continue
		}
		if owner := c.namespaces.owner(name); owner.Team != source.Team && owner.Upstream != "" { // a name that an override gives may lie in no namespace
			reports = append(reports, foreignPrefix(source, prompt, name, &owner))
			continue
		}
		if report, taken := c.namespaces.taken(source, prompt, name); taken {
			reports = append(reports, report)
			continue
		}
		if seen[name] {
			reports = append(reports, duplicate(source, prompt, name))
			continue
		}
		seen[name] = true
		claims = append(claims, claim{name: name, source: at, prompt: prompt})
	}
	return claims, reports
}

// resolve decides about one name: given all of its claims, it returns the entry, if the name gets
// one.
func (c *Catalog) resolve(claims []claim) (*Entry, []Report) {
	if len(claims) == 0 {
		return nil, nil
	}
	first, isReplicated := claims[0], true
	var agreed, others []claim
	for _, claim := range claims {
		isReplicated = isReplicated && c.isReplica(first, claim)
		if claim.prompt.agrees(first.prompt) {
			agreed = append(agreed, claim)
		} else {
			others = append(others, claim)
		}
	}
	switch {
	case len(others) == 0:
		return c.newEntry(agreed), nil
	case isReplicated:
		return c.newEntry(agreed), []Report{c.difference(agreed, others)}
	case c.opts.KeepFirst:
		return c.newEntry(agreed), []Report{c.conflict(claims)}
	}
	return nil, []Report{c.conflict(claims)}
}

// isReplica reports whether two claims are of one prompt: of upstreams that share a prefix because
// their servers are replicas. Without a prefix, a name in common may be a coincidence.
func (c *Catalog) isReplica(a, b claim) bool {
	prefix := c.sources[a.source].Prefix
	return prefix != "" && prefix == c.sources[b.source].Prefix && a.prompt.Name == b.prompt.Name
}

// claimsOn returns the claims on one name.
func (c *Catalog) claimsOn(name string) []claim {
	// No claim has the name and a source below 0: the search ends at the first one of the name.
	start, _ := slices.BinarySearchFunc(c.claims, claim{name: name}, compareClaims)
	end := start
	for end < len(c.claims) && c.claims[end].name == name {
		end++
	}
	return c.claims[start:end]
}

// foldedTo returns the entries whose names fold to the same.
func (c *Catalog) foldedTo(folded string) []*Entry {
	// No entry has an empty name, which would sort first: as in claimsOn.
	start, _ := slices.BinarySearchFunc(c.folded, &Entry{fold: folded}, compareFolded)
	end := start
	for end < len(c.folded) && c.folded[end].fold == folded {
		end++
	}
	return c.folded[start:end]
}

// exchange returns the claims with all of one source's (the stale ones) replaced by fresh ones.
func exchange(claims []claim, source int, fresh []claim) (merged, stale []claim) {
	merged = make([]claim, 0, len(claims)+len(fresh))
	for _, c := range claims {
		if c.source == source {
			stale = append(stale, c)
			continue
		}
		for len(fresh) > 0 && compareClaims(fresh[0], c) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, c)
	}
	return append(merged, fresh...), stale
}

// changedNames returns the names on which one source's claims differ. Both lists have a name once
// at most.
func changedNames(stale, fresh []claim) set {
	names, before := set{}, make(map[string]*Prompt, len(stale))
	for _, c := range stale {
		before[c.name] = c.prompt
	}
	for _, c := range fresh {
		if old := before[c.name]; old == nil || !samePrompt(old, c.prompt) {
			names[c.name] = struct{}{}
		}
		delete(before, c.name)
	}
	for name := range before {
		names[name] = struct{}{}
	}
	return names
}

func samePrompt(a, b *Prompt) bool {
	return a == b || bytes.Equal(a.Definition, b.Definition) && a.Exposed == b.Exposed && a.Overrides.Equal(b.Overrides)
}

// agrees reports whether two prompts are interchangeable: a get may go to the upstream of either.
func (p *Prompt) agrees(other *Prompt) bool {
	return p.Hash == other.Hash && p.Overrides.Equal(other.Overrides)
}

// set is a set of keys.
type set map[string]struct{}

func newSet[T any](items []T, key func(T) string) set {
	s := make(set, len(items))
	for _, item := range items {
		s[key(item)] = struct{}{}
	}
	return s
}

func (s set) has(key string) bool {
	_, ok := s[key]
	return ok
}

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// runs yields the runs of neighbours that have the same key.
func runs[T any](sorted []T, key func(T) string) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for start := 0; start < len(sorted); {
			end := start + 1
			for end < len(sorted) && key(sorted[end]) == key(sorted[start]) {
				end++
			}
			if !yield(sorted[start:end:end]) {
				return
			}
			start = end
		}
	}
}

// splice applies changes to entries; both are sorted by compare.
func splice(entries []*Entry, changes []Change, compare func(a, b *Entry) int) []*Entry {
	spliced := make([]*Entry, 0, len(entries)+len(changes))
	for _, c := range changes {
		at, found := slices.BinarySearchFunc(entries, c.either(), compare)
		spliced = append(spliced, entries[:at]...)
		if c.After != nil {
			spliced = append(spliced, c.After)
		}
		if found {
			at++
		}
		entries = entries[at:]
	}
	return append(spliced, entries...)
}
