package catalog

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Catalog is the merge of all upstreams' lists at one moment. Make it with [Merge]; it is
// immutable.
type Catalog struct {
	opts       Options
	sources    []Source
	namespaces namespaces

	claims  []claim  // by name, then source
	entries []*Entry // by name
	folded  []*Entry // by folded name, then name
	reports []Report

	// decided is what policy decided about the entry that was made last. It is used while the
	// catalog is made.
	decided []*policy.Visibility
}

// Entries returns all entries, sorted by the bytes of the exposed name. The slice is shared: do not
// modify it.
func (c *Catalog) Entries() []*Entry { return c.entries }

// Lookup returns the entry under an exposed name, or nil.
func (c *Catalog) Lookup(name string) *Entry { return lookup(c.entries, name) }

// Reports returns the findings that whoever runs an upstream should fix, sorted by name. The slice
// is shared.
func (c *Catalog) Reports() []Report { return c.reports }

// Entry is a prompt or a skill in the catalog under its exposed name. It is immutable.
type Entry struct {
	// Name is the exposed name.
	Name string
	// Team is the one team that all owners belong to.
	Team string
	// Owners share the definition, in configuration order. There is at least one.
	Owners []Owner
	// JSON is the first owner's definition under the exposed name, on a single line.
	JSON jsontext.Value
	// Arguments are those that the definition declares, in its order.
	Arguments []Argument
	// Overrides are the arguments that the gateway adds to a get; nil without any.
	Overrides *ArgumentOverrides
	// Fingerprint covers the name and the meaning of the definition. Member order, white space and
	// escapes do not count, so a server that shuffles members from list to list does not look like
	// one whose prompts change.
	Fingerprint Fingerprint
	// Skill is nil for a prompt. Root is the URI of a skill's folder, as clients see it.
	Skill *Skill
	Root  string

	// decided is what policy decided, see [Options]. Most entries of a team share one slice.
	decided []*policy.Visibility
	fold    string
	// searched is what [Entry.Searched] returns, once somebody has searched.
	searched atomic.Pointer[string]
}

// maxSearched bounds the searched part of a name, title or description, in bytes: a search costs its
// caller, and the texts are others'.
const maxSearched = 1 << 10

// Searched returns what a search looks through: the name, the title and the description, in lower case
// and on a line each.
func (e *Entry) Searched() string {
	if kept := e.searched.Load(); kept != nil {
		return *kept
	}
	definition := wire.Members(e.JSON)
	title, _ := definition.Text("title")
	description, _ := definition.Text("description")
	var all strings.Builder
	for _, text := range []string{e.Name, title, description} {
		all.WriteString(strings.ToLower(text[:min(len(text), maxSearched)]) + "\n")
	}
	text := all.String()
	e.searched.Store(&text)
	return text
}

// VisibleTo reports whether an audience may see the entry: by any of its owners. This is the one
// decision behind list, get, completion and notifications.
func (e *Entry) VisibleTo(audience *policy.Audience) bool {
	return slices.ContainsFunc(e.decided, audience.Sees)
}

// VisibilityTo returns what policy decided about an entry that an audience sees: about the first
// owner by which it does.
func (e *Entry) VisibilityTo(audience *policy.Audience) *policy.Visibility {
	for _, v := range e.decided {
		if audience.Sees(v) {
			return v
		}
	}
	return nil
}

// HiddenBy returns the hide block that keeps an entry from an audience which does not see it, nil
// where none does; see [policy.Audience.HiddenBy].
func (e *Entry) HiddenBy(audience *policy.Audience) *policy.Rule {
	for _, v := range e.decided {
		if rule := audience.HiddenBy(v); rule != nil {
			return rule
		}
	}
	return nil
}

// OwnersFor returns the owners that may serve an entry to an audience that sees it. The slice is
// shared: do not modify it.
func (e *Entry) OwnersFor(audience *policy.Audience) []Owner {
	if len(e.decided) < 2 { // all are alike
		return e.Owners
	}
	var owners []Owner
	for i, v := range e.decided {
		if audience.Sees(v) {
			owners = append(owners, e.Owners[i])
		}
	}
	return owners
}

// Decide evaluates what [Entry.VisibleTo] and [Entry.OwnersFor] depend on, within a budget. The
// error is [policy.ErrBudget].
func (e *Entry) Decide(audience *policy.Audience, b *policy.Budget) error {
	for _, v := range e.decided {
		if err := audience.Decide(v, b); err != nil {
			return err
		}
	}
	return nil
}

// Owner is an upstream that offers an entry's prompt.
type Owner struct {
	*Declaration // shared by all prompts of the upstream: each entry of a large catalog has an owner

	// Name is the upstream's own name for the prompt.
	Name string
}

// Declaration is what is configured of an upstream.
type Declaration struct {
	// Upstream is its label, unique in the configuration.
	Upstream string
	// Place is where it is configured, as PATH:LINE.
	Place string
}

func (o Owner) same(other Owner) bool {
	return *o.Declaration == *other.Declaration && o.Name == other.Name
}

// Facts is the definition as conditions read it. That of a skill has the description and, as meta,
// the members of its frontmatter; its manifest is none.
func (e *Entry) Facts() jsontext.Value { return e.Skill.factsOr(e.JSON) }

// Facts is [Entry.Facts] before there is an entry.
func (p *Prompt) Facts() jsontext.Value { return p.Skill.factsOr(p.Definition) }

func (s *Skill) factsOr(definition jsontext.Value) jsontext.Value {
	if s == nil {
		return definition
	}
	return s.Facts
}

// newEntry returns the entry of claims that agree.
func (c *Catalog) newEntry(claims []claim) *Entry {
	name, prompt := claims[0].name, claims[0].prompt
	e := &Entry{
		Name:        name,
		Team:        c.sources[claims[0].source].Team,
		Owners:      c.owners(claims),
		Arguments:   prompt.Arguments,
		Overrides:   prompt.Overrides,
		Fingerprint: prompt.fingerprint(name),
		fold:        fold(name),
	}
	// Clients look for a skill by the name in its frontmatter, and no prompt's folded name has a
	// colon: the two never share one.
	if e.Skill = prompt.Skill; e.Skill == nil {
		e.JSON = prompt.under(name)
	} else {
		e.Root = prompt.root(c.sources[claims[0].source].Prefix)
		e.JSON, e.fold = prompt.underRoot(e.Root), config.SkillPrefix+e.Skill.Name
	}
	if c.opts.Decide != nil {
		if decided := c.opts.Decide(e); !slices.EqualFunc(c.decided, decided, (*policy.Visibility).Equal) {
			c.decided = decided
		}
		e.decided = c.decided
	}
	return e
}

func (c *Catalog) owners(claims []claim) []Owner {
	owners := make([]Owner, len(claims))
	for i, claim := range claims {
		owners[i] = c.sources[claim.source].Owner(claim.prompt.Name)
	}
	return owners
}

// Owner returns the source's upstream as the owner of its prompt of a name.
func (s *Source) Owner(name string) Owner {
	declared := s.declared
	if declared == nil {
		declared = &Declaration{s.Upstream, s.Place}
	}
	return Owner{Declaration: declared, Name: name}
}

// same reports whether the two entries under one name are indistinguishable.
func (e *Entry) same(other *Entry) bool {
	return e == other || e.Team == other.Team &&
		slices.EqualFunc(e.Owners, other.Owners, Owner.same) && bytes.Equal(e.JSON, other.JSON) && e.Overrides.Equal(other.Overrides)
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

// Change is the difference between two catalogs under one exposed name.
type Change struct {
	// Before is nil for a new entry, After for one that is gone. Both are set where the definition
	// or the owners changed; if only owners or spelling did, the fingerprints are equal and no
	// client needs to be told.
	Before, After *Entry
}

// Name returns the exposed name.
func (c Change) Name() string { return c.either().Name }

// either returns an entry with the name that the change is about.
func (c Change) either() *Entry { return cmp.Or(c.After, c.Before) }

func (c Change) nothing() bool {
	if c.Before == nil || c.After == nil {
		return c.Before == c.After
	}
	return c.Before.same(c.After)
}

// Diff returns the changes between two catalogs, sorted by name.
func Diff(before, after *Catalog) []Change {
	var changes []Change
	a, b := before.entries, after.entries
	for len(a) > 0 || len(b) > 0 {
		var c Change
		switch {
		// Most entries are the same pointer on both sides, which spares comparing their names.
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
