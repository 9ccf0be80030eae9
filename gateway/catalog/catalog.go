package catalog

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/skills"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Catalog is the merge of all upstreams' lists at one moment. Make it with [Merge]. It is
// immutable.
type Catalog struct {
	opts       Options
	sources    []Source
	namespaces namespaces

	claims  []claim  // sorted by name, then source
	entries []*Entry // sorted by name
	folded  []*Entry // sorted by folded name, then name
	reports []Report
}

// Entries returns all entries, sorted by the bytes of the exposed name. The slice is shared; do not
// modify it.
func (c *Catalog) Entries() []*Entry { return c.entries }

// Lookup returns the entry under an exposed name, or nil if there is none in this catalog.
func (c *Catalog) Lookup(name string) *Entry { return lookup(c.entries, name) }

// Reports returns the findings, sorted by name, that the operators of upstreams should fix. The
// slice is shared; do not modify it.
func (c *Catalog) Reports() []Report { return c.reports }

// Entry is a prompt or a skill in the catalog under its exposed name. It is immutable.
type Entry struct {
	// Name is the exposed name.
	Name string
	// Team is the team of all owners.
	Team string
	// Owners share the definition, in configuration order. There is at least one.
	Owners []Owner
	// JSON is the first owner's definition under the exposed name, on a single line.
	JSON jsontext.Value
	// Arguments are the declared arguments in the order of the definition.
	Arguments []Argument
	// Overrides are the arguments that the gateway adds to a get. It is nil if the gateway adds none.
	Overrides *ArgumentOverrides
	// Fingerprint is a hash of the name and the meaning of the definition. It ignores the order of
	// members, white space and escapes, so that a server that shuffles members does not appear to
	// change its prompts.
	Fingerprint Fingerprint
	// Skill is nil for a prompt. Root is the URI of a skill's folder for clients.
	Skill *skills.Skill
	Root  string

	// decided is the policy's decision, see [Options].
	decided []*policy.Visibility
	fold    string
	// searched is the result of [Entry.Searched], or nil before the first search.
	searched atomic.Pointer[string]
}

// maxSearched bounds the searched part of a name, title or description, in bytes. It keeps a search
// cheap even if a server's texts are long.
const maxSearched = 1 << 10

// Searched returns the text for a search: the name, title and description in lower case, one per
// line.
func (e *Entry) Searched() string {
	if text := e.searched.Load(); text != nil {
		return *text
	}
	definition := wire.Members(e.Facts())
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

// VisibleTo reports whether an audience may see the entry through at least one of its owners.
// Lists, gets, completions and notifications all use this decision.
func (e *Entry) VisibleTo(audience *policy.Audience) bool {
	return slices.ContainsFunc(e.decided, audience.Sees)
}

// VisibilityTo returns the policy's decision for the first owner through which an audience sees the
// entry, or nil if the audience does not see the entry.
func (e *Entry) VisibilityTo(audience *policy.Audience) *policy.Visibility {
	for _, v := range e.decided {
		if audience.Sees(v) {
			return v
		}
	}
	return nil
}

// HiddenBy returns the hide block that withholds an entry from an audience, or nil if no block does.
// See [policy.Audience.HiddenBy].
func (e *Entry) HiddenBy(audience *policy.Audience) *policy.Rule {
	for _, v := range e.decided {
		if rule := audience.HiddenBy(v); rule != nil {
			return rule
		}
	}
	return nil
}

// OwnersFor returns the owners that may serve an entry to an audience that sees it. The slice is
// shared; do not modify it.
func (e *Entry) OwnersFor(audience *policy.Audience) []Owner {
	if len(e.decided) < 2 { // the decision is the same for all owners
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

// Decide evaluates the conditions of all owners ahead of [Entry.VisibleTo] and [Entry.OwnersFor],
// which then use the cached decisions. If the deadline of ctx passes, the error is [policy.ErrBudget].
func (e *Entry) Decide(ctx context.Context, audience *policy.Audience) error {
	for _, v := range e.decided {
		if err := audience.Decide(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// Owner is an upstream that offers an entry's prompt.
type Owner struct {
	*Declaration // shared by all prompts of the upstream, to save memory

	// Name is the upstream's own name for the prompt.
	Name string
}

// Declaration is the label and the location of an upstream's block.
type Declaration struct {
	// Upstream is the label, which is unique in the configuration.
	Upstream string
	// Place is the location of the block, as PATH:LINE.
	Place string
}

func (o Owner) same(other Owner) bool {
	return *o.Declaration == *other.Declaration && o.Name == other.Name
}

// Facts returns the definition that conditions read. For a skill it contains the description and,
// as meta, the members of the front matter, but not the manifest.
func (e *Entry) Facts() jsontext.Value { return factsOf(e.Skill, e.JSON) }

// Facts is [Entry.Facts] for a prompt without an entry.
func (p *Prompt) Facts() jsontext.Value { return factsOf(p.Skill, p.Definition) }

func factsOf(skill *skills.Skill, definition jsontext.Value) jsontext.Value {
	if skill == nil {
		return definition
	}
	return skill.Facts
}

// newEntry returns the entry for claims on one name whose prompts agree.
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
	// Clients look for a skill by the name in its front matter. The folded name of a prompt has no
	// colon, so the two never collide.
	if e.Skill = prompt.Skill; e.Skill == nil {
		e.JSON = prompt.under(name)
	} else {
		e.Root = e.Skill.RootUnder(c.sources[claims[0].source].Prefix)
		e.JSON, e.fold = e.Skill.Under(e.Root), config.SkillPrefix+e.Skill.Name
	}
	if c.opts.Decide != nil {
		e.decided = c.opts.Decide(e)
	}
	return e
}

func (c *Catalog) owners(claims []claim) []Owner {
	return exslices.CastFunc(claims, func(claim claim) Owner { return c.sources[claim.source].Owner(claim.prompt.Name) })
}

// Owner returns the source's upstream as the owner of a prompt with this name.
func (s *Source) Owner(name string) Owner {
	declared := s.declared
	if declared == nil {
		declared = &Declaration{s.Upstream, s.Place}
	}
	return Owner{Declaration: declared, Name: name}
}

// same reports whether two entries with equal names differ in nothing that clients or routing could
// notice.
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

// Change is the difference between two catalogs for one exposed name.
type Change struct {
	// Before is nil for a new entry, and After is nil for a removed entry. Otherwise the definition
	// or the owners changed. If only owners or spelling changed, the fingerprints are equal and
	// clients need no notification.
	Before, After *Entry
}

// Name returns the exposed name.
func (c Change) Name() string { return c.either().Name }

// either returns After, or Before for a removed entry. Both have the name of the change.
func (c Change) either() *Entry { return cmp.Or(c.After, c.Before) }

// isEmpty reports whether the change changes nothing.
func (c Change) isEmpty() bool {
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
		// Compare pointers first: most entries are the same pointer in both catalogs.
		case len(b) == 0 || len(a) > 0 && a[0] != b[0] && a[0].Name < b[0].Name:
			c.Before, a = a[0], a[1:]
		case len(a) == 0 || a[0] != b[0] && a[0].Name > b[0].Name:
			c.After, b = b[0], b[1:]
		default:
			c, a, b = Change{Before: a[0], After: b[0]}, a[1:], b[1:]
		}
		if !c.isEmpty() {
			changes = append(changes, c)
		}
	}
	return changes
}
