package catalog

import (
	"crypto/subtle"
	"slices"
)

// Fingerprint is equal where the content is. It is the same on every replica.
type Fingerprint [16]byte

// toggle adds an element to the fingerprint of a set, or takes it out again.
func (f *Fingerprint) toggle(element Fingerprint) { subtle.XORBytes(f[:], f[:], element[:]) }

// View is the part of a snapshot that one audience sees. It is immutable; the zero value sees nothing.
type View struct {
	entries     []*Entry
	fingerprint Fingerprint
}

// View returns the view of an audience, asking once for each entry whether it is visible.
func (s *Snapshot) View(visible func(*Entry) bool) *View {
	v := &View{}
	for _, e := range s.entries {
		if visible(e) {
			v.entries = append(v.entries, e)
			v.fingerprint.toggle(e.Fingerprint)
		}
	}
	return v
}

// With returns the view after changes, see [Diff]: the same as a new view of the later snapshot, at a cost in
// proportion to the changes and, where one is visible, the copy of a slice. If none is, it is the view itself.
func (v *View) With(changes []Change, visible func(*Entry) bool) *View {
	var seen []Change
	fingerprint := v.fingerprint
	for _, c := range changes {
		mine := Change{Before: v.Lookup(c.Name())}
		if c.After != nil && visible(c.After) {
			mine.After = c.After
		}
		if mine.Before != nil {
			fingerprint.toggle(mine.Before.Fingerprint)
		}
		if mine.After != nil {
			fingerprint.toggle(mine.After.Fingerprint)
		}
		if !mine.nothing() {
			seen = append(seen, mine)
		}
	}
	if len(seen) == 0 {
		return v
	}
	return &View{entries: splice(v.entries, seen, compareNames), fingerprint: fingerprint}
}

// Len returns how many entries there are.
func (v *View) Len() int { return len(v.entries) }

// Fingerprint returns that of the names and definitions. Their order follows from the names.
func (v *View) Fingerprint() Fingerprint { return v.fingerprint }

// Entries returns all entries, sorted by the bytes of the exposed name. The slice is shared: it must not be changed.
func (v *View) Entries() []*Entry { return v.entries }

// Lookup returns the entry under an exposed name, or nil if there is none in this view.
func (v *View) Lookup(name string) *Entry { return lookup(v.entries, name) }

// Page returns up to size entries, at least one, that stand after an exposed name, which need not exist (any more);
// "" is before all. With more set, the next page is the one after next. A page names the last entry seen rather than
// an offset: whoever follows pages while the catalog changes meets each entry that stays exactly once, and ends.
func (v *View) Page(after string, size int) (entries []*Entry, next string, more bool) {
	start, found := slices.BinarySearchFunc(v.entries, after, compareName)
	if found {
		start++
	}
	end := start + min(max(size, 1), len(v.entries)-start)
	if more = end < len(v.entries); more {
		next = v.entries[end-1].Name
	}
	return v.entries[start:end:end], next, more
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
