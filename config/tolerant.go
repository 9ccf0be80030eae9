package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// TeamFiles are the texts of the files with team blocks in a folder, by their paths in it, with
// slashes. Their secrets are the references that a team wrote, such as env("TOKEN"), but nothing
// keeps a team from writing a literal.
type TeamFiles map[string]Secret

func newTeamFiles(r *hclread.Reader) TeamFiles {
	if !r.IsFolder() {
		return nil
	}
	files := TeamFiles{}
	for _, file := range r.SoundFiles() {
		if file.Declares("team") {
			files[r.InFolder(file.Path)] = NewSecret(string(file.Content))
		}
	}
	return files
}

// hashTexts returns 64 bits of a hash of the texts of all files and their paths in the folder.
func hashTexts(r *hclread.Reader) string {
	h := sha256.New()
	for _, file := range r.SoundFiles() {
		fmt.Fprintf(h, "%q %d\n%s", r.InFolder(file.Path), len(file.Content), file.Content)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Kept says what is in use in place of a team's file that has errors.
type Kept struct {
	// File is the path in the folder, with slashes.
	File string `json:"file"`
	// Teams are the teams that keep the previous text or are left out.
	Teams []string `json:"teams"`
	// Out is true if nothing is in use, because there is no previous text.
	Out bool `json:"out"`
}

// String says in a sentence what becomes of the file.
func (k Kept) String() string {
	became := "its previous text stays in use"
	if k.Out {
		became = "it is left out"
	}
	return k.Mistaken() + ": " + became + ", everything else takes effect."
}

// Mistaken begins a sentence about what becomes of the file.
func (k Kept) Mistaken() string {
	if len(k.Teams) == 0 {
		return fmt.Sprintf("%q has mistakes", k.File)
	}
	return fmt.Sprintf("%q (%s) has mistakes", k.File, strings.Join(k.Teams, ", "))
}

// LoadTolerant is [Load] for a gateway, which one team's error must not hold up. In place of a team's
// file that has errors it reads the previous text of the file, or nothing if there is none, as at a
// start: then the file's teams are left out. If the rest does not load with that, if nothing is
// left, or if an error is in a file of the platform, the Config is nil. It returns what became of the files with errors, and
// the Diagnostics of the files as they are.
//
// A team that is left out keeps what is its own. No other file can declare its label, even if the
// label is found in a file that does not parse, nor claim a prefix that is granted to it. What two
// files claim is an error in both, so neither has it at a start. A reference to such a team is a
// warning: nothing is granted or shown to anybody by it.
func LoadTolerant(path string, opts Options, previous TeamFiles) (*Config, []Kept, Diagnostics) {
	opts.previous = &previous
	cfg, d, diags := read(path, opts)
	if cfg != nil || !d.IsFolder() {
		return cfg, nil, diags
	}
	kept, areTeams := d.withErrors(diags)
	if !areTeams {
		return nil, nil, diags
	}
	opts.previous, opts.hasReplaced, opts.Texts = nil, true, map[string]Secret{}
	replaced := map[string]bool{}
	for _, k := range kept {
		opts.Texts[k.File] = previous[k.File] // empty without one
		replaced[filepath.Join(path, filepath.FromSlash(k.File))] = true
	}
	cfg, _, further := read(path, opts)
	if cfg == nil {
		return nil, nil, Diagnostics{diags.report.Merge(further.report.Without(hcl.DiagWarning, replaced))}
	}
	isOut := func(f File) bool {
		return slices.ContainsFunc(kept, func(k Kept) bool { return k.Out && k.File == f.Name })
	}
	if cfg.Files = slices.DeleteFunc(cfg.Files, isOut); len(cfg.Files) == 0 { // an empty gateway would help nobody
		return nil, nil, diags
	}
	errs := diags.report.Without(hcl.DiagWarning, nil)
	return cfg, kept, Diagnostics{errs.Merge(further.report.Without(hcl.DiagError, replaced))}
}

// withErrors returns the files with errors in order, with their teams; not ok if one is the
// platform's.
func (d *decoder) withErrors(diags Diagnostics) (kept []Kept, ok bool) {
	read := diags.report.Files()
	for _, path := range slices.Sorted(maps.Keys(diags.report.Mistakes())) {
		name := d.InFolder(path)
		text, wasInUse := (*d.previous)[name]
		if path == "" || !isTeams(read[path], wasInUse) {
			return nil, false
		}
		k := Kept{File: name, Teams: read[path].Labels("team"), Out: !wasInUse}
		if wasInUse {
			k.Teams = labelsIn(text.Reveal())
		}
		slices.Sort(k.Teams)
		k.Teams = slices.Compact(k.Teams)
		kept = append(kept, k)
	}
	return kept, true
}

// isTeams reports whether a file is a team's. If it has blocks of the platform as well, or could not
// be read, it is one only if it was one before.
func isTeams(file hclread.File, wasInUse bool) bool {
	hasTeam := file.Declares("team")
	isPlatforms := func(b hclread.BlockSchema) bool { return b.Type != "team" && file.Declares(b.Type) }
	if slices.ContainsFunc(rootSchema().Blocks, isPlatforms) {
		return hasTeam && wasInUse
	}
	return hasTeam || wasInUse
}

// labelsIn returns the labels of the team blocks in a text.
func labelsIn(text string) []string {
	r := hclread.New(rootSchema(), hclread.Options{})
	r.Parse("", []byte(text))
	return r.Labels("team")
}

// checkLabels reports a team whose label is also in a file that does not parse.
func (d *decoder) checkLabels() {
	broken := d.BrokenLabels("team")
	for _, b := range d.Blocks("team") {
		for _, path := range slices.Sorted(maps.Keys(broken)) {
			if path != b.Range().Filename && slices.Contains(broken[path], b.Label()) {
				d.Error(b.LabelRange(), hclread.SummaryDuplicate, "The team %q is also declared in %s, which does not parse; rename one.",
					b.Label(), path)
			}
		}
	}
}

// reserve reports the claims of prefixes that are granted to a team which is about to be left out.
// A grant of all prefixes reserves none.
func (d *decoder) reserve() {
	if d.previous == nil {
		return
	}
	texts := newTeamFiles(d.Reader)
	for path, labels := range d.LabelsByFile("team") {
		if _, wasInUse := (*d.previous)[d.InFolder(path)]; wasInUse || !d.HasErrorsIn(path) {
			continue
		}
		for _, label := range labels {
			for _, prefix := range slices.Sorted(maps.Keys(d.names.owners)) {
				c := d.names.owners[prefix]
				name := d.InFolder(c.at.Filename)
				isUnchanged := (*d.previous)[name] == texts[name] && (*d.previous)[name] != NewSecret("")
				if c.team != label && d.allowed.grants[label].reserves(prefix) && !isUnchanged {
					d.Error(c.at, summaryPrefixTaken, "%q is granted to team %q, whose file has errors and is left out; set prefix to "+
						"something else.", prefix, label)
				}
			}
		}
	}
}

// reserves reports whether a prefix is granted by a pattern that does not match all.
func (g *grants) reserves(prefix string) bool {
	return g != nil && prefix != "" && slices.ContainsFunc(g.patterns["prefixes"], func(p Pattern) bool {
		return p.String() != "*" && p.Match(prefix)
	})
}
