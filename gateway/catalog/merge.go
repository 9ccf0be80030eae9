package catalog

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Source is what one upstream contributes. Every configured upstream has one, also when it was never listed, because
// its prefix belongs to its team all the same.
type Source struct {
	// Upstream is its label, unique in the configuration.
	Upstream string
	Team     string
	// Prefix stands before the separator in exposed names; empty means the prompt's name alone.
	Prefix string
	// Place is where the upstream is configured, as PATH:LINE, for reports.
	Place string
	// Prompts is its last good list, in its own order.
	Prompts []Prompt
}

// What becomes of one exposed name with two definitions, see [Options].
const (
	Drop  = "drop"
	First = "first"
)

// Options are the settings of the gateway that decide over names.
type Options struct {
	// Separator stands between an upstream's prefix and the prompt's name.
	Separator string
	// Conflict is [First], which keeps the first definition in configuration order, or [Drop], which leaves all
	// claimants out; so does anything else.
	Conflict string
	// Tag is called once for each entry that is made, and what it returns is kept in [Entry.Tag]: for what a caller
	// wants to decide once rather than on each request. It must be pure. Nil tags nothing.
	Tag func(*Entry) any
}

// claim is one prompt's wish for one exposed name. A snapshot's claims are sorted by name, then source.
type claim struct {
	name   string
	source int // position in configuration order
	prompt *Prompt
}

func compareClaims(a, b claim) int {
	return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.source, b.source))
}

// Merge makes the catalog of all sources, which are in configuration order.
func Merge(sources []Source, opts Options) *Snapshot {
	sources = slices.Clone(sources)
	s := &Snapshot{opts: opts, sources: sources, namespaces: newNamespaces(sources, opts.Separator)}
	for i := range s.sources {
		claims, reports := s.claimsOf(i)
		s.claims = append(s.claims, claims...)
		s.reports = append(s.reports, reports...)
	}
	slices.SortFunc(s.claims, compareClaims)
	s.entries = make([]*Entry, 0, len(s.claims))
	for claims := range runs(s.claims, func(c claim) string { return c.name }) {
		entry, reports := s.resolve(claims)
		if entry != nil {
			s.entries = append(s.entries, entry)
		}
		s.reports = append(s.reports, reports...)
	}
	s.folded = slices.SortedFunc(slices.Values(s.entries), compareFolded)
	for entries := range runs(s.folded, func(e *Entry) string { return e.fold }) {
		s.reports = append(s.reports, foldedReports(entries)...)
	}
	s.reports = sortReports(s.reports)
	return s
}

// With returns the snapshot after one upstream's list was refreshed: the same as a full [Merge], at a cost in
// proportion to that list and the copy of a sorted slice. Entries that did not change are the same pointers as
// before, and a list that says nothing new returns the snapshot itself. See [Diff] for what changed.
func (s *Snapshot) With(source Source) *Snapshot {
	at := slices.IndexFunc(s.sources, func(old Source) bool { return old.Upstream == source.Upstream })
	if at < 0 {
		return Merge(append(slices.Clone(s.sources), source), s.opts)
	}
	old, sources := s.sources[at], slices.Clone(s.sources)
	sources[at] = source
	switch {
	case old.Team != source.Team || old.Prefix != source.Prefix || old.Place != source.Place:
		return Merge(sources, s.opts)
	case slices.EqualFunc(old.Prompts, source.Prompts, samePrompt):
		return s
	}
	return s.replace(at, sources)
}

// replace takes over everything that does not depend on the prompts of the source at the given position.
func (s *Snapshot) replace(at int, sources []Source) *Snapshot {
	next := &Snapshot{opts: s.opts, sources: sources, namespaces: s.namespaces}
	fresh, reports := next.claimsOf(at)
	slices.SortFunc(fresh, compareClaims)
	var stale []claim
	next.claims, stale = exchange(s.claims, at, fresh)

	names := newSet(slices.Concat(stale, fresh), func(c claim) string { return c.name })
	var changes []Change
	for _, name := range names.sorted() {
		entry, conflict := next.resolve(next.claimsOn(name))
		reports = append(reports, conflict...)
		if change := (Change{Before: s.Lookup(name), After: entry}); !change.nothing() {
			changes = append(changes, change)
		}
	}
	next.entries = splice(s.entries, changes, compareNames)

	slices.SortFunc(changes, func(a, b Change) int { return compareFolded(a.either(), b.either()) })
	next.folded = splice(s.folded, changes, compareFolded)
	folds := newSet(changes, func(c Change) string { return c.either().fold })
	for _, folded := range folds.sorted() {
		reports = append(reports, foldedReports(next.foldedTo(folded))...)
	}

	for _, r := range s.reports {
		if !r.dependsOn(s.sources[at].Upstream, names, folds) {
			reports = append(reports, r)
		}
	}
	next.reports = sortReports(reports)
	return next
}

// claimsOf returns the names that one source may have, in the order of its list, and reports those it may not.
func (s *Snapshot) claimsOf(at int) (claims []claim, reports []Report) {
	source := &s.sources[at]
	seen := make(map[string]bool, len(source.Prompts))
	claims = make([]claim, 0, len(source.Prompts))
	for i := range source.Prompts {
		prompt := &source.Prompts[i]
		name := cmp.Or(prompt.Exposed, ExposedName(source.Prefix, s.opts.Separator, prompt.Name))
		if len(name) > MaxName {
			reports = append(reports, nameTooLong(source, prompt, name))
			continue
		}
		if owner := s.namespaces.owner(name); owner.Team != source.Team && owner.Upstream != "" { // a new name may be nobody's
			reports = append(reports, foreignPrefix(source, prompt, name, &owner))
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

// resolve decides over one name: all of its claims go in, its entry, if it has one, comes out.
func (s *Snapshot) resolve(claims []claim) (*Entry, []Report) {
	if len(claims) == 0 {
		return nil, nil
	}
	agreed := slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { return !c.prompt.agrees(claims[0].prompt) })
	if len(agreed) == len(claims) {
		return s.newEntry(agreed), nil
	}
	reports := []Report{s.conflict(claims)}
	if s.opts.Conflict != First {
		return nil, reports
	}
	return s.newEntry(agreed), reports
}

// claimsOn returns the claims on one name.
func (s *Snapshot) claimsOn(name string) []claim {
	start, _ := slices.BinarySearchFunc(s.claims, claim{name: name}, compareClaims)
	end := start
	for end < len(s.claims) && s.claims[end].name == name {
		end++
	}
	return s.claims[start:end]
}

// foldedTo returns the entries whose names fold to the same.
func (s *Snapshot) foldedTo(folded string) []*Entry {
	start, _ := slices.BinarySearchFunc(s.folded, &Entry{fold: folded}, compareFolded)
	end := start
	for end < len(s.folded) && s.folded[end].fold == folded {
		end++
	}
	return s.folded[start:end]
}

// exchange returns claims with the fresh ones in the place of the stale ones, which are all of the source's.
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

func samePrompt(a, b Prompt) bool {
	return bytes.Equal(a.Definition, b.Definition) && a.Exposed == b.Exposed && a.Supplied.same(b.Supplied)
}

// agrees reports whether two prompts are one, whichever of their upstreams is asked.
func (p *Prompt) agrees(other *Prompt) bool {
	return p.Hash == other.Hash && p.Supplied.same(other.Supplied)
}
