package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mau.fi/util/exslices"
)

// Kind is the kind of a report. It is also a metric label.
type Kind string

// The kinds of report.
const (
	// Conflict is an exposed name that different prompts claim.
	Conflict Kind = "conflict"
	// Difference is a prompt with different definitions at upstreams that share a prefix, as during
	// a rolling update. The first definition is served.
	Difference Kind = "difference"
	// Duplicate is a name that occurs more than once in one upstream's list.
	Duplicate Kind = "duplicate"
	// ForeignPrefix is a prompt with a name in another team's namespace.
	ForeignPrefix Kind = "foreign_prefix"
	// NameTooLong is an exposed name over [MaxName].
	NameTooLong Kind = "name_too_long"
	// InvisibleName is an exposed name with invisible characters.
	InvisibleName Kind = "invisible_name"
	// FoldedNames are several names that some clients cannot distinguish. They are all served.
	FoldedNames Kind = "folded_names"
	// Unreadable is an element of an upstream's list that is not a prompt, see [ParsePrompt]. The
	// code that admits definitions, not this package, reports this kind and the kinds below.
	Unreadable Kind = "unreadable"
	// Misfit is a prompt whose prompt block does not fit it.
	Misfit Kind = "misfit"
	// Unmatched is a prompt block for a prompt that no upstream offers.
	Unmatched Kind = "unmatched"
	// Screened is a definition in which a screen block found something.
	Screened Kind = "screened"
	// NoPrompts is an upstream whose server declares no prompts.
	NoPrompts Kind = "no_prompts"
	// BrokenFile is a prompt file that cannot be served in its current form.
	BrokenFile Kind = "broken_file"
	// PartlyServed are files in the formats of other products that contain parts that a prompt cannot
	// have.
	PartlyServed Kind = "partly_served"
	// Drift is a definition that the lock file does not approve.
	Drift Kind = "drift"
)

// Report is a finding in the catalog that a person should fix.
type Report struct {
	Kind Kind
	// Name is the exposed name, or the first exposed name if the report is about several.
	Name string
	// Owners are the upstreams that the report is about. An upstream whose prompt is left out comes
	// first. The owner of a foreign prefix comes second, with an empty Name.
	Owners []Owner
	// Finding distinguishes several findings of one kind and name. It is empty if there can be only
	// one finding. It is for comparison only; people read Text.
	Finding string
	// Text is a sentence with the upstream, its location, the problem and the remedy.
	Text string
	// Block is the location of the block or file, as PATH:LINE or PATH. It is empty if that is the
	// location of the first owner.
	Block string
	// Several is the end of a sentence about several prompts of the upstream with this finding. It is
	// empty if each prompt has its own report.
	Several string
}

// Summarized merges the reports that several prompts of an upstream share. A merged report lists
// all their owners and findings.
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

// Place returns the location of the report's block or file, as PATH:LINE or PATH, or "" if the report
// has neither a block nor an owner.
func (r Report) Place() string {
	if r.Block != "" || len(r.Owners) == 0 {
		return r.Block
	}
	return r.Owners[0].Place
}

// Upstream returns the label of the report's first owner, or "" if the report has no owners.
func (r Report) Upstream() string {
	if len(r.Owners) == 0 {
		return ""
	}
	return r.Owners[0].Upstream
}

// Key returns a key by which a log distinguishes new findings. It is equal for reports of the same
// finding, even if its block moved within a file.
func (r Report) Key() string {
	// Quote the names, because blanks separate the parts of the key.
	key := fmt.Appendf(nil, "%s %q %q", r.Kind, r.Name, r.Finding)
	for _, o := range r.Owners {
		key = fmt.Appendf(key, " %q %q", o.Upstream, o.Name)
	}
	return string(key)
}

// dependsOn reports whether a report can change after a refresh of an upstream. names and folds are
// the exposed and folded names that the refresh has changed.
func (c *Catalog) dependsOn(r *Report, upstream string, names, folds map[string]bool) bool {
	switch r.Kind {
	case Conflict, Difference:
		return names[r.Name]
	case FoldedNames:
		return folds[c.Lookup(r.Name).fold] // not fold(r.Name), which is wrong for a skill
	default:
		return r.Owners[0].Upstream == upstream
	}
}

// sortReports sorts the reports and drops duplicates.
func sortReports(reports []Report) []Report {
	slices.SortFunc(reports, func(a, b Report) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Text, b.Text))
	})
	// A name that occurs three times in a list is reported twice with equal text.
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

// difference returns the report about claims whose definitions differ from the agreed claims, which
// are served.
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

// foldedReports returns a report if there are several entries. All of them have the same folded name.
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
	return enumerate(exslices.CastFunc(owners, who))
}

// maxNamed bounds the items of an enumeration.
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
