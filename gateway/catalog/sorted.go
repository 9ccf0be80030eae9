package catalog

import (
	"iter"
	"maps"
	"slices"
)

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
