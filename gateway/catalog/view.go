package catalog

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/skills"
)

// Fingerprint is a hash that is equal for equal content on every replica.
type Fingerprint [16]byte

// toggle adds an element to the fingerprint of a set, or removes it if the set contains it.
func (f *Fingerprint) toggle(element Fingerprint) { subtle.XORBytes(f[:], f[:], element[:]) }

// toggleEntry is toggle for an entry. Skills are left out, because no notification is about skills.
func (f *Fingerprint) toggleEntry(e *Entry) {
	if e.Skill == nil {
		f.toggle(e.Fingerprint)
	}
}

// fingerprint returns the fingerprint of the prompt under a name.
func (p *Prompt) fingerprint(name string) Fingerprint {
	sum := sha256.Sum256(append(p.Hash[:], name...))
	return Fingerprint(sum[:len(Fingerprint{})])
}

// View is the part of a catalog that one audience sees. It is immutable. The zero value is empty.
type View struct {
	// made is the slice of entries. make builds it at the first use, because most views need only
	// their fingerprint. A view that has neither is empty. making guards make.
	made   atomic.Pointer[[]*Entry]
	making sync.Mutex
	make   func() []*Entry

	length      int
	fingerprint Fingerprint
	kinds       atomic.Pointer[[2]*View] // the results of Kind: prompts, skills
	first       atomic.Pointer[weak.Pointer[FirstPage]]
}

// View returns the view of an audience. It calls visible once per entry.
func (c *Catalog) View(visible func(*Entry) bool) *View {
	entries := c.visible(visible, 0)
	v := newView(entries)
	for _, e := range entries {
		v.fingerprint.toggleEntry(e)
	}
	return v
}

func (c *Catalog) visible(visible func(*Entry) bool, length int) []*Entry {
	entries := make([]*Entry, 0, length)
	for _, e := range c.entries {
		if visible(e) {
			entries = append(entries, e)
		}
	}
	return entries
}

// With returns the view of a later catalog, whose [Diff] to this view's catalog is changes. The result
// equals a new view, at a cost proportional to the changes. If no change is visible, With returns the
// view itself. visible must decide as for this view. The first call of Entries on the new view copies
// a slice, or filters the whole catalog if this view's entries were never used.
func (v *View) With(later *Catalog, changes []Change, visible func(*Entry) bool) *View {
	next := &View{length: v.length, fingerprint: v.fingerprint}
	var seen []Change
	for _, c := range changes {
		var mine Change
		if c.Before != nil && visible(c.Before) {
			mine.Before = c.Before
			next.length--
			next.fingerprint.toggleEntry(c.Before)
		}
		if c.After != nil && visible(c.After) {
			mine.After = c.After
			next.length++
			next.fingerprint.toggleEntry(c.After)
		}
		if !mine.isEmpty() {
			seen = append(seen, mine)
		}
	}
	if len(seen) == 0 {
		return v
	}
	// Refer to the slice and not to v: v.make may refer to an older catalog, and keep it in memory.
	if before := v.made.Load(); before != nil {
		next.make = func() []*Entry { return splice(*before, seen, compareNames) }
	} else {
		next.make = func() []*Entry { return later.visible(visible, next.length) }
	}
	return next
}

// Len returns the number of entries.
func (v *View) Len() int { return v.length }

// Fingerprint returns a hash of all names and definitions. It covers the order too, which follows
// from the names.
func (v *View) Fingerprint() Fingerprint { return v.fingerprint }

// Entries returns all entries, sorted by the bytes of the exposed name. The slice is shared; do not
// modify it.
func (v *View) Entries() []*Entry {
	if made := v.made.Load(); made != nil {
		return *made
	}
	// Not a sync.Once, because the next call must make the entries after a panic.
	v.making.Lock()
	defer v.making.Unlock()
	if made := v.made.Load(); made != nil {
		return *made
	}
	var entries []*Entry
	if v.make != nil {
		entries = v.make()
	}
	v.make = nil // release the catalog that make refers to
	v.made.Store(&entries)
	return entries
}

// Lookup returns the entry under an exposed name, or nil if there is none in this view.
func (v *View) Lookup(name string) *Entry { return lookup(v.Entries(), name) }

// Kind returns a view of only the skills, or of only the prompts. Without skills in the view, the
// view of the prompts is v itself.
func (v *View) Kind(skills bool) *View {
	kinds := v.kinds.Load()
	if kinds == nil { // two goroutines may both build it, with the same result
		// Names are sorted, so skills, which share a prefix, are neighbours.
		kinds = &[2]*View{v, {}}
		all := v.Entries()
		start, _ := slices.BinarySearchFunc(all, config.SkillPrefix, compareName)
		end := start
		for end < len(all) && all[end].Skill != nil { // reserved keeps prompts out of this range of names
			end++
		}
		if end > start {
			kinds[0], kinds[1] = newView(slices.Concat(all[:start], all[end:])), newView(all[start:end:end])
		}
		v.kinds.Store(kinds)
	}
	if skills {
		return kinds[1]
	}
	return kinds[0]
}

// newView returns a view of the given entries without a fingerprint.
func newView(entries []*Entry) *View {
	v := &View{length: len(entries)}
	v.made.Store(&entries)
	return v
}

// maxPage bounds the definitions of one page, in bytes, so that clients accept the message. A
// larger definition has a page of its own.
const maxPage = 4 << 20

// Page returns up to size entries after an exposed name, which need not exist; "" starts at the
// first entry. It returns fewer entries, but at least one, if their definitions exceed 4 MiB. If
// more is true, the next page begins after next. A page continues after a name and not at an
// offset: if the catalog changes between two pages, the client still receives each remaining entry
// exactly once, and reaches an end.
func (v *View) Page(after string, size int) (entries []*Entry, next string, more bool) {
	all := v.Entries()
	start, found := slices.BinarySearchFunc(all, after, compareName)
	if found {
		start++
	}
	end := start + PageLength(all[start:], size)
	if more = end < len(all); more {
		next = all[end-1].Name
	}
	return all[start:end:end], next, more
}

// FirstPage is the first page of a view as JSON. Many responses share it; do not modify it.
type FirstPage struct {
	// Prompts is the member that AppendPrompts appends.
	Prompts []byte
	// Next is the name after which the second page begins. It is empty if there is no second page.
	Next string

	size int
}

// FirstPage returns the first page of up to size entries, see [View.Page]. The view caches it by a
// weak pointer, so that the pages of many audiences do not fill the memory: after a garbage
// collection, the next call renders the page again.
func (v *View) FirstPage(size int) *FirstPage {
	if cached := v.first.Load(); cached != nil {
		if page := cached.Value(); page != nil && page.size == size {
			return page
		}
	}
	entries, next, _ := v.Page("", size)
	length := len(`"prompts":[]`)
	for _, e := range entries {
		length += len(e.JSON) + len(",")
	}
	page := &FirstPage{AppendPrompts(make([]byte, 0, length), entries), next, size}
	v.first.Store(new(weak.Make(page)))
	return page
}

// PageLength returns the number of entries, at most size, on the next page: see [View.Page].
func PageLength(entries []*Entry, size int) int {
	// Return at least one entry, so that a client that follows the cursor reaches an end.
	length := min(max(size, 1), len(entries))
	bytes := 0
	for i, e := range entries[:length] {
		if bytes += len(e.JSON); bytes > maxPage && i > 0 {
			return i
		}
	}
	return length
}

// Pages returns the number of entries on each page, with at most size per page. Some clients read
// only the first page.
func (v *View) Pages(size int) (lengths []int) {
	for rest := v.Entries(); len(rest) > 0; {
		length := PageLength(rest, size)
		lengths, rest = append(lengths, length), rest[length:]
	}
	return lengths
}

// AppendPrompts appends the member "prompts" of a prompts/list result to dst, with the entries'
// JSON unchanged.
func AppendPrompts(dst []byte, entries []*Entry) []byte {
	return appendEntries(append(dst, `"prompts":[`...), entries, func(dst []byte, e *Entry) []byte { return append(dst, e.JSON...) })
}

// AppendSkills is AppendPrompts for a skills/list result. meta returns the additional bytes for
// each entry.
func AppendSkills(dst []byte, entries []*Entry, meta func(*Entry) []byte) []byte {
	return appendEntries(append(dst, `"skills":[`...), entries, func(dst []byte, e *Entry) []byte { return skills.Append(dst, e.JSON, meta(e)) })
}

func appendEntries(dst []byte, entries []*Entry, add func([]byte, *Entry) []byte) []byte {
	for i, e := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = add(dst, e)
	}
	return append(dst, ']')
}
