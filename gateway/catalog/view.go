package catalog

import (
	"crypto/subtle"
	"slices"
	"sync"
)

// Fingerprint is equal where the content is. It is the same on every replica.
type Fingerprint [16]byte

// toggle adds an element to the fingerprint of a set, or takes it out again.
func (f *Fingerprint) toggle(element Fingerprint) { subtle.XORBytes(f[:], f[:], element[:]) }

// View is the part of a snapshot that one audience sees. It is immutable; the zero value sees nothing.
type View struct {
	// entries makes the slice when it is first asked for: many views are only asked for their fingerprint. Nil sees
	// nothing.
	entries     func() []*Entry
	length      int
	fingerprint Fingerprint
	// pending is how many views before this one have not made their slice yet, at most.
	pending int
}

// maxPending bounds the changes that are kept until somebody asks for a view's entries.
const maxPending = 16

// View returns the view of an audience, asking once for each entry whether it is visible.
func (s *Snapshot) View(visible func(*Entry) bool) *View {
	v := &View{}
	var entries []*Entry
	for _, e := range s.entries {
		if visible(e) {
			entries = append(entries, e)
			v.fingerprint.toggle(e.Fingerprint)
		}
	}
	v.entries, v.length = func() []*Entry { return entries }, len(entries)
	return v
}

// With returns the view after changes, which are the [Diff] of the view's snapshot and a later one: the same as a new
// view of that, at a cost in proportion to the changes, and the copy of a slice once somebody asks for its entries. If
// no change is visible, it is the view itself. What is visible must be decided as it was for the view.
func (v *View) With(changes []Change, visible func(*Entry) bool) *View {
	next := &View{length: v.length, fingerprint: v.fingerprint, pending: v.pending + 1}
	var seen []Change
	for _, c := range changes {
		var mine Change
		if c.Before != nil && visible(c.Before) {
			mine.Before = c.Before
			next.length--
			next.fingerprint.toggle(c.Before.Fingerprint)
		}
		if c.After != nil && visible(c.After) {
			mine.After = c.After
			next.length++
			next.fingerprint.toggle(c.After.Fingerprint)
		}
		if !mine.nothing() {
			seen = append(seen, mine)
		}
	}
	if len(seen) == 0 {
		return v
	}
	next.entries = sync.OnceValue(func() []*Entry { return splice(v.Entries(), seen, compareNames) })
	if next.pending > maxPending {
		next.entries()
		next.pending = 0
	}
	return next
}

// Len returns how many entries there are.
func (v *View) Len() int { return v.length }

// Fingerprint returns that of the names and definitions. Their order follows from the names.
func (v *View) Fingerprint() Fingerprint { return v.fingerprint }

// Entries returns all entries, sorted by the bytes of the exposed name. The slice is shared: it must not be changed.
func (v *View) Entries() []*Entry {
	if v.entries == nil {
		return nil
	}
	return v.entries()
}

// Lookup returns the entry under an exposed name, or nil if there is none in this view.
func (v *View) Lookup(name string) *Entry { return lookup(v.Entries(), name) }

// Page returns up to size entries, at least one, that stand after an exposed name, which need not exist (any more);
// "" is before all. With more set, the next page is the one after next. A page names the last entry seen rather than
// an offset: whoever follows pages while the catalog changes meets each entry that stays exactly once, and ends.
func (v *View) Page(after string, size int) (entries []*Entry, next string, more bool) {
	all := v.Entries()
	start, found := slices.BinarySearchFunc(all, after, compareName)
	if found {
		start++
	}
	end := start + min(max(size, 1), len(all)-start)
	if more = end < len(all); more {
		next = all[end-1].Name
	}
	return all[start:end:end], next, more
}

// AppendPrompts appends the member "prompts" of a prompts/list result to dst: the entries' bytes as they are.
func AppendPrompts(dst []byte, entries []*Entry) []byte {
	dst = append(dst, `"prompts":[`...)
	for i, e := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e.JSON...)
	}
	return append(dst, ']')
}
