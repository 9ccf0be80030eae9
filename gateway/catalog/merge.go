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

// Source is the contribution of one upstream. Every configured upstream is a source, even if its
// list is unknown, because its prefix belongs to its team.
type Source struct {
	// Upstream is the label, which is unique in the configuration.
	Upstream string
	Team     string
	// Prefix stands before the separator in exposed names. If it is empty, the exposed name is the
	// prompt's own name.
	Prefix string
	// Skills is true if the upstream may have skills. If so, names that begin with "skill:" are
	// reserved for skills.
	Skills bool
	// Place is the location of the upstream's block, as PATH:LINE, for reports.
	Place string
	// Prompts is the last good list, in the upstream's order.
	Prompts []*Prompt

	declared *Declaration // shared by the source's owners in a catalog
}

// Options are the settings for names.
type Options struct {
	// Separator stands between an upstream's prefix and the prompt's name.
	Separator string
	// KeepFirst serves the first prompt, in configuration order, if prompts with different
	// definitions claim one exposed name. Otherwise all of them are left out. For replicas the
	// first definition is always served.
	KeepFirst bool
	// Decide returns the policy's decision about a new entry: one visibility if it is the same for
	// all owners, otherwise one per owner. It must be pure. If it is nil, no entry is visible.
	Decide func(*Entry) []*policy.Visibility
}

// claim is a prompt's claim to an exposed name. A catalog's claims are sorted by name, then source.
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
	// Clone: the catalog sets its own fields in the sources.
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

// With returns the catalog after a refresh of the list of one of its sources, given by label. The
// result equals a full [Merge]. The cost is proportional to the changes in that list, plus one
// comparison for each of its prompts and the copy of a sorted slice. Unchanged entries keep their
// pointers. If the list is unchanged, With returns the catalog itself. See [Diff] for the changes.
func (c *Catalog) With(upstream string, prompts []*Prompt) *Catalog {
	at := slices.IndexFunc(c.sources, func(s Source) bool { return s.Upstream == upstream })
	if slices.EqualFunc(c.sources[at].Prompts, prompts, samePrompt) {
		return c
	}
	sources := slices.Clone(c.sources)
	sources[at].Prompts = prompts
	return c.replace(at, sources)
}

// replace returns the catalog for sources, in which only the list of the source at the given position
// has changed. It reuses everything that does not depend on this list.
func (c *Catalog) replace(at int, sources []Source) *Catalog {
	next := &Catalog{opts: c.opts, sources: sources, namespaces: c.namespaces}
	fresh, reports := next.claimsOf(at)
	// Sort by name, because exchange merges two sorted lists.
	slices.SortFunc(fresh, compareClaims)
	var stale []claim
	next.claims, stale = exchange(c.claims, at, fresh)

	// An entry can change only under a name that the source claims with another prompt than before,
	// or no longer claims.
	names := changedNames(stale, fresh)
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		entry, conflict := next.resolve(next.claimsOn(name))
		reports = append(reports, conflict...)
		// An equal entry keeps its pointer, so that views without other changes stay the same.
		if change := (Change{Before: c.Lookup(name), After: entry}); !change.isEmpty() {
			changes = append(changes, change)
		}
	}
	next.entries = splice(c.entries, changes, compareNames)

	// c.folded can change only for the folded names of these changes.
	slices.SortFunc(changes, func(a, b Change) int { return compareFolded(a.either(), b.either()) })
	next.folded = splice(c.folded, changes, compareFolded)
	folds := map[string]bool{}
	for _, change := range changes {
		folds[change.either().fold] = true
	}
	for _, folded := range slices.Sorted(maps.Keys(folds)) {
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

// claimsOf returns the names that a source may claim, in the order of its list, and reports about
// the names that it may not claim.
func (c *Catalog) claimsOf(at int) (claims []claim, reports []Report) {
	source := &c.sources[at]
	seen := make(map[string]bool, len(source.Prompts))
	claims = make([]claim, 0, len(source.Prompts))
	for _, prompt := range source.Prompts {
		name := cmp.Or(prompt.Exposed, source.Exposed(c.opts.Separator, prompt.Name))
		owner := c.namespaces.owner(name)
		report, reserved := c.namespaces.reserved(source, prompt, name)
		switch {
		case len(name) > MaxName:
			reports = append(reports, nameTooLong(source, prompt, name))
		// A name from an override may be in no namespace. It then has no owner, and any team may use
		// it.
		case owner.Team != source.Team && owner.Upstream != "":
			reports = append(reports, foreignPrefix(source, prompt, name, &owner))
		case reserved:
			reports = append(reports, report)
		case seen[name]:
			reports = append(reports, duplicate(source, prompt, name))
		default:
			seen[name] = true
			claims = append(claims, claim{name: name, source: at, prompt: prompt})
		}
	}
	return claims, reports
}

// resolve returns the entry for the claims on one name, and reports about a conflict. The entry is
// nil if there are no claims, or if a conflict leaves all of them out.
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

// isReplica reports whether two claims are for the same prompt of replicas, which are upstreams
// that share a prefix. Without a prefix, equal names may be a coincidence.
func (c *Catalog) isReplica(a, b claim) bool {
	prefix := c.sources[a.source].Prefix
	return prefix != "" && prefix == c.sources[b.source].Prefix && a.prompt.Name == b.prompt.Name
}

// claimsOn returns the claims on one name.
func (c *Catalog) claimsOn(name string) []claim {
	// The key has the lowest source, 0, so the search finds the first claim on the name.
	start, _ := slices.BinarySearchFunc(c.claims, claim{name: name}, compareClaims)
	end := start
	for end < len(c.claims) && c.claims[end].name == name {
		end++
	}
	return c.claims[start:end]
}

// foldedTo returns the entries with the given folded name.
func (c *Catalog) foldedTo(folded string) []*Entry {
	// The key has an empty name, which sorts first, so the search finds the first such entry.
	start, _ := slices.BinarySearchFunc(c.folded, &Entry{fold: folded}, compareFolded)
	end := start
	for end < len(c.folded) && c.folded[end].fold == folded {
		end++
	}
	return c.folded[start:end]
}

// exchange returns the claims after one source's claims were replaced by fresh claims, and the
// replaced claims as stale.
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

// changedNames returns the names whose claims differ between stale and fresh, which are claims of one
// source. Each contains a name at most once.
func changedNames(stale, fresh []claim) map[string]bool {
	names, before := map[string]bool{}, make(map[string]*Prompt, len(stale))
	for _, c := range stale {
		before[c.name] = c.prompt
	}
	for _, c := range fresh {
		if old := before[c.name]; old == nil || !samePrompt(old, c.prompt) {
			names[c.name] = true
		}
		delete(before, c.name)
	}
	for name := range before {
		names[name] = true
	}
	return names
}

func samePrompt(a, b *Prompt) bool {
	return a == b || bytes.Equal(a.Definition, b.Definition) && a.Exposed == b.Exposed && a.Overrides.Equal(b.Overrides)
}

// agrees reports whether two prompts are interchangeable, so that a get may go to either upstream.
// Order and spelling in the definitions may differ.
func (p *Prompt) agrees(other *Prompt) bool {
	return p.Hash == other.Hash && p.Overrides.Equal(other.Overrides)
}

// runs yields each run of neighbours with the same key.
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

// splice returns the entries with the changes applied. Entries and changes are sorted by compare.
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
