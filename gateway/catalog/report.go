package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind says what a report is about. It is also a metric label.
type Kind string

// The kinds of report.
const (
	// Conflict is one exposed name with different prompts.
	Conflict Kind = "conflict"
	// Difference is a prompt that upstreams with one prefix define differently, as they do during a
	// rolling update. The first one's definition is served.
	Difference Kind = "difference"
	// Duplicate is one name twice in one upstream's own list.
	Duplicate Kind = "duplicate"
	// ForeignPrefix is a prompt that would land in another team's namespace.
	ForeignPrefix Kind = "foreign_prefix"
	// NameTooLong is an exposed name over [MaxName].
	NameTooLong Kind = "name_too_long"
	// InvisibleName is an exposed name with characters that people cannot see.
	InvisibleName Kind = "invisible_name"
	// FoldedNames is several names that some clients cannot tell apart. Nothing is left out because
	// of it.
	FoldedNames Kind = "folded_names"
	// Unreadable is an element of an upstream's list that is not a prompt, see [ParsePrompt]. This
	// kind and those below are reported by the code that admits definitions, not by this package.
	Unreadable Kind = "unreadable"
	// NullMembers is optional members that are null, which no schema allows. They count as absent:
	// nothing is left out.
	NullMembers Kind = "null_members"
	// Misfit is a prompt whose prompt block does not fit it.
	Misfit Kind = "misfit"
	// Unmatched is a prompt block for a prompt that no upstream offers.
	Unmatched Kind = "unmatched"
	// Screened is a definition in which a screen block found something.
	Screened Kind = "screened"
	// NoPrompts is an upstream whose server declares that it has no prompts.
	NoPrompts Kind = "no_prompts"
	// BrokenFile is a file of an upstream without a server that is not served as it is.
	BrokenFile Kind = "broken_file"
	// PartlyServed is files of other products' formats with parts that a prompt cannot have.
	PartlyServed Kind = "partly_served"
	// Drift is a definition that the lock file does not approve.
	Drift Kind = "drift"
)

// Report is a finding in the catalog that a person should fix.
type Report struct {
	Kind Kind
	// Name is the exposed name; the first of several.
	Name string
	// Owners are the upstreams concerned. If one is left out, it comes first; the owner of a
	// foreign prefix, who has no prompt here, comes second and without a name.
	Owners []Owner
	// Finding distinguishes several findings of one kind under one name; empty where there can be
	// only one. It is for comparison, not for reading.
	Finding string
	// Text is a sentence that says who, where, and what to do.
	Text string
	// Block is where the block or the file is that the report is about, as PATH:LINE or PATH; empty
	// if that is the first owner's.
	Block string
	// Several is the end of the sentence about several prompts of the upstream that have it in common;
	// empty where each has a report of its own.
	Several string
}

// Summarized returns reports with one in place of those that several prompts of an upstream have in
// common. It has all their owners and findings.
func Summarized(reports []Report) (all []Report) {
	first := map[[2]string]int{}
	for _, r := range reports {
		common := [2]string{r.Upstream(), r.Several}
		at, known := first[common]
		if r.Several == "" || !known {
			first[common] = len(all)
			all = append(all, r)
			continue
		}
		sum := &all[at]
		sum.Owners, sum.Finding = slices.Concat(sum.Owners, r.Owners), sum.Finding+" "+r.Finding
		sum.Text = fmt.Sprintf("%d prompts of upstream %q (%s) %s", len(sum.Owners), r.Upstream(), r.Owners[0].Place, r.Several)
	}
	return all
}

// Place returns where what the report is about is configured, as PATH:LINE or PATH; "" if that is
// not known.
func (r Report) Place() string {
	if r.Block != "" || len(r.Owners) == 0 {
		return r.Block
	}
	return r.Owners[0].Place
}

// Upstream returns the upstream that the report is about: the first of several, "" if it is about
// none.
func (r Report) Upstream() string {
	if len(r.Owners) == 0 {
		return ""
	}
	return r.Owners[0].Upstream
}

// Key is equal for two reports of the same finding, even if its block moved within a file, so that
// a log can tell new findings from old ones.
func (r Report) Key() string {
	var key strings.Builder
	key.WriteString(string(r.Kind))
	// Quoted, so that the blanks in a name cannot pass for those between names.
	key.WriteString(" " + strconv.Quote(r.Name))
	for _, o := range r.Owners {
		key.WriteString(" " + strconv.Quote(o.Upstream) + " " + strconv.Quote(o.Name))
	}
	key.WriteString(" " + strconv.Quote(r.Finding))
	return key.String()
}

// dependsOn reports whether the refresh of an upstream that touched these names and folded names
// can change a report of the catalog.
func (c *Catalog) dependsOn(r *Report, upstream string, names, folds set) bool {
	switch r.Kind {
	case Conflict, Difference:
		return names.has(r.Name)
	case FoldedNames:
		return folds.has(c.Lookup(r.Name).fold) // not what the name folds to: a skill's has another
	default:
		return r.Owners[0].Upstream == upstream
	}
}

// sortReports sorts the reports and drops duplicates.
func sortReports(reports []Report) []Report {
	slices.SortFunc(reports, func(a, b Report) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Text, b.Text))
	})
	// A list that has a name three times is reported twice, in the same words.
	return slices.CompactFunc(reports, func(a, b Report) bool { return a.Kind == b.Kind && a.Text == b.Text })
}

func (c *Catalog) conflict(claims []claim) Report {
	name, owners := claims[0].name, c.owners(claims)
	outcome := "all are left out"
	if c.opts.KeepFirst {
		outcome = "that of " + who(owners[0]) + " is used"
	}
	return Report{
		Kind: Conflict, Name: name, Owners: owners,
		Text: fmt.Sprintf("prompt %q has different definitions in %s: %s; rename the prompt in one of them, "+
			"or set a different prefix on one of the upstreams", name, list(owners), outcome),
	}
}

// difference reports the claims of others on a prompt that is served as agreed.
func (c *Catalog) difference(agreed, others []claim) Report {
	name, serving, left := agreed[0].name, c.owners(agreed), c.owners(others)
	return Report{
		Kind: Difference, Name: name, Owners: append(left, serving...),
		Text: fmt.Sprintf("prompt %q is defined differently by %s: gets go to %s only until the definitions are equal; "+
			"update the servers, or set a different prefix on one of the upstreams", name, list(left), list(serving)),
	}
}

func duplicate(source *Source, prompt *Prompt, name string) Report {
	o := source.Owner(prompt.Name)
	return Report{
		Kind: Duplicate, Name: name, Owners: []Owner{o},
		Text: fmt.Sprintf("%s lists prompt %q more than once: the first is used; remove the others from its server",
			who(o), o.Name),
	}
}

func foreignPrefix(source *Source, prompt *Prompt, name string, of *Source) Report {
	o, other := source.Owner(prompt.Name), of.Owner("")
	return Report{
		Kind: ForeignPrefix, Name: name, Owners: []Owner{o, other},
		Text: fmt.Sprintf("prompt %q of %s lies inside the prefix %q, which belongs to team %q, %s: it is left out; "+
			"set a prefix on upstream %q, or rename the prompt", name, who(o), of.Prefix, of.Team, who(other), o.Upstream),
	}
}

func nameTooLong(source *Source, prompt *Prompt, name string) Report {
	o := source.Owner(clip(prompt.Name))
	return Report{
		Kind: NameTooLong, Name: clip(name), Owners: []Owner{o},
		Text: fmt.Sprintf("prompt %q of %s has an exposed name of %d bytes, more than %d: it is left out; "+
			"shorten its name or the upstream's prefix", clip(name), who(o), len(name), MaxName),
	}
}

// foldedReports reports entries whose names fold to the same, if there are several.
func foldedReports(entries []*Entry) []Report {
	if len(entries) < 2 {
		return nil
	}
	var owners []Owner
	var names []string
	for _, e := range entries {
		owners = append(owners, e.Owners...)
		names = append(names, fmt.Sprintf("%q of %s", e.Name, list(e.Owners)))
	}
	return []Report{{
		Kind: FoldedNames, Name: entries[0].Name, Owners: owners,
		Text: "some clients cannot tell these prompts apart, because they turn each into " +
			strconv.Quote(entries[0].fold) + ": " + enumerate(names) + "; rename all but one of them",
	}}
}

func who(o Owner) string { return fmt.Sprintf("upstream %q (%s)", o.Upstream, o.Place) }

func list(owners []Owner) string {
	names := make([]string, len(owners))
	for i, o := range owners {
		names[i] = who(o)
	}
	return enumerate(names)
}

// maxNamed bounds the items that a sentence enumerates.
const maxNamed = 8

func enumerate(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		names = append(slices.Clone(names[:maxNamed]), strconv.Itoa(more)+" more")
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
