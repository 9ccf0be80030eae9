package catalog

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Snapshot is the whole catalog at one moment. Make it with [Merge]; it is immutable.
type Snapshot struct {
	opts       Options
	sources    []Source
	namespaces namespaces

	claims  []claim  // by name, then source
	entries []*Entry // by name
	folded  []*Entry // by folded name, then name
	reports []Report
}

// Entries returns all entries, sorted by the bytes of the exposed name. The slice is shared: it must not be changed.
func (s *Snapshot) Entries() []*Entry { return s.entries }

// Lookup returns the entry under an exposed name, or nil.
func (s *Snapshot) Lookup(name string) *Entry { return lookup(s.entries, name) }

// Reports returns what the people who run upstreams should know, sorted by name. The slice is shared.
func (s *Snapshot) Reports() []Report { return s.reports }

// Entry is a prompt in the catalog under its exposed name. It is immutable.
type Entry struct {
	// Name is the exposed one.
	Name string
	// Team is the one team that all owners belong to.
	Team string
	// Owners have the same definition; they are in configuration order. There is always one.
	Owners []Owner
	// JSON is the first owner's definition under the exposed name, on a single line.
	JSON jsontext.Value
	// Arguments are those that the definition declares, in its order.
	Arguments []Argument
	// Supplied is what a get needs beside what the client sends.
	Supplied Supplied
	// Fingerprint is that of the name and of what the definition says. The order of members, spacing and spelling do
	// not count, so that a server that shuffles its members on each list does not look like one that changes.
	Fingerprint Fingerprint
	// Tag is what [Options.Tag] made of the entry.
	Tag any

	fold string
}

// Owner is an upstream that has an entry's prompt.
type Owner struct {
	Upstream string
	// Name is what the upstream itself calls the prompt.
	Name string
	// Place is where the upstream is configured.
	Place string
}

// Title returns the definition's title, or "".
func (e *Entry) Title() string { return e.text("title") }

// Description returns the definition's description, or "".
func (e *Entry) Description() string { return e.text("description") }

func (e *Entry) text(member string) string {
	object, err := wire.ParseObject(e.JSON)
	if err != nil {
		return ""
	}
	text, _ := object.Text(member)
	return text
}

// newEntry makes the entry of claims that agree.
func (s *Snapshot) newEntry(claims []claim) *Entry {
	name, prompt := claims[0].name, claims[0].prompt
	sum := sha256.Sum256(append(prompt.Hash[:], name...))
	e := &Entry{
		Name:        name,
		Team:        s.sources[claims[0].source].Team,
		Owners:      s.owners(claims),
		JSON:        prompt.under(name),
		Arguments:   prompt.Arguments,
		Supplied:    prompt.Supplied,
		Fingerprint: Fingerprint(sum[:len(Fingerprint{})]),
		fold:        fold(name),
	}
	if s.opts.Tag != nil {
		e.Tag = s.opts.Tag(e)
	}
	return e
}

func (s *Snapshot) owners(claims []claim) []Owner {
	owners := make([]Owner, len(claims))
	for i, c := range claims {
		owners[i] = owner(&s.sources[c.source], c.prompt.Name)
	}
	return owners
}

func owner(source *Source, name string) Owner {
	return Owner{Upstream: source.Upstream, Name: name, Place: source.Place}
}

// same reports whether nobody could tell the entries apart.
func (e *Entry) same(other *Entry) bool {
	return e == other || e.Name == other.Name && e.Team == other.Team &&
		slices.Equal(e.Owners, other.Owners) && bytes.Equal(e.JSON, other.JSON) && e.Supplied.same(other.Supplied)
}

func lookup(entries []*Entry, name string) *Entry {
	at, found := slices.BinarySearchFunc(entries, name, compareName)
	if !found {
		return nil
	}
	return entries[at]
}

func compareName(e *Entry, name string) int { return strings.Compare(e.Name, name) }

func compareNames(a, b *Entry) int { return strings.Compare(a.Name, b.Name) }

func compareFolded(a, b *Entry) int {
	return cmp.Or(strings.Compare(a.fold, b.fold), strings.Compare(a.Name, b.Name))
}

// Change is one exposed name's difference between two snapshots.
type Change struct {
	// Before is nil where the entry is new, After where it is gone. Both are set where its definition or its owners
	// changed; if only the owners did, or spelling, the fingerprints are equal and no client needs to know.
	Before, After *Entry
}

// Name returns the exposed name.
func (c Change) Name() string { return c.either().Name }

// either returns an entry that has the name that the change is about.
func (c Change) either() *Entry { return cmp.Or(c.After, c.Before) }

func (c Change) nothing() bool {
	if c.Before == nil || c.After == nil {
		return c.Before == c.After
	}
	return c.Before.same(c.After)
}

// Diff returns what is different in a later snapshot, sorted by name.
func Diff(before, after *Snapshot) []Change {
	var changes []Change
	a, b := before.entries, after.entries
	for len(a) > 0 || len(b) > 0 {
		var c Change
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] != b[0] && a[0].Name < b[0].Name:
			c.Before, a = a[0], a[1:]
		case len(a) == 0 || a[0] != b[0] && a[0].Name > b[0].Name:
			c.After, b = b[0], b[1:]
		default:
			c, a, b = Change{Before: a[0], After: b[0]}, a[1:], b[1:]
		}
		if !c.nothing() {
			changes = append(changes, c)
		}
	}
	return changes
}
