package config

import (
	"cmp"
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

// TeamFiles maps the path of each file with team blocks to its text. Paths are relative to the
// folder, with slashes. The texts are Secrets, because a team may write a secret into its file.
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

// Kept describes the fallback for a team's file with errors.
type Kept struct {
	// File is the path in the folder, with slashes.
	File string `json:"file"`
	// Teams are the teams of the previous text or, if there is no such text, of the file with errors.
	Teams []string `json:"teams"`
	// Out is true if there is no previous text, so the teams are left out.
	Out bool `json:"out"`
}

// String describes the fallback in a sentence.
func (k Kept) String() string {
	became := "its previous text stays in use"
	if k.Out {
		became = "it is left out"
	}
	return k.Mistaken() + ": " + became + ", everything else takes effect."
}

// Mistaken returns the beginning of the sentence: the file, its teams, and "has mistakes".
func (k Kept) Mistaken() string {
	if len(k.Teams) == 0 {
		return fmt.Sprintf("%q has mistakes", k.File)
	}
	return fmt.Sprintf("%q (%s) has mistakes", k.File, strings.Join(k.Teams, ", "))
}

// LoadTolerant is [Load] for a running gateway: an error in one team's file does not stop the other changes. It
// loads the previous text of a team's file with errors. If there is no previous text, as at a start, it leaves out the
// file's teams. It returns these fallbacks, and the Diagnostics of the files as they are.
//
// The Config is nil if a platform file has an error, if the other files do not load with the fallbacks, or if no
// file remains.
//
// A team that is left out keeps its label and the prefixes that are granted to it: no other file may
// use them, even if the label is in a file that does not parse. If two files claim the same label or
// prefix, the error counts for both, so at a start neither of them gets it. A reference to a team that is
// left out causes a warning, because the reference grants and shows nothing.
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
		opts.Texts[k.File] = previous[k.File] // empty if there is no previous text
		replaced[filepath.Join(path, filepath.FromSlash(k.File))] = true
	}
	cfg, _, further := read(path, opts)
	if cfg == nil {
		return nil, nil, Diagnostics{diags.report.Merge(further.report.Without(hcl.DiagWarning, replaced))}
	}
	isOut := func(f File) bool {
		return slices.ContainsFunc(kept, func(k Kept) bool { return k.Out && k.File == f.Name })
	}
	if cfg.Files = slices.DeleteFunc(cfg.Files, isOut); len(cfg.Files) == 0 { // an empty gateway is useless
		return nil, nil, diags
	}
	errs := diags.report.Without(hcl.DiagWarning, nil)
	return cfg, kept, Diagnostics{errs.Merge(further.report.Without(hcl.DiagError, replaced))}
}

// withErrors returns a fallback for each file with errors, sorted by path. ok is false if an error is outside
// the files of teams.
func (d *decoder) withErrors(diags Diagnostics) (kept []Kept, ok bool) {
	read := map[string]*hclread.File{}
	for _, file := range d.Files() {
		read[file.Path] = file
	}
	for _, path := range diags.report.WithErrors() {
		name := d.InFolder(path)
		file := cmp.Or(read[path], new(hclread.File)) // an unreadable file has no blocks
		text, wasInUse := (*d.options.previous)[name]
		if path == "" || !isTeams(file, wasInUse) {
			return nil, false
		}
		k := Kept{File: name, Teams: file.Labels("team"), Out: !wasInUse}
		if wasInUse {
			previous := hclread.New(rootSchema(), hclread.Options{})
			previous.Parse("", []byte(text.Reveal()))
			k.Teams = previous.Labels("team")
		}
		slices.Sort(k.Teams)
		k.Teams = slices.Compact(k.Teams)
		kept = append(kept, k)
	}
	return kept, true
}

// isTeams reports whether a file belongs to a team. A file that cannot be read, or that also has blocks
// of the platform, belongs to a team only if its previous text did.
func isTeams(file *hclread.File, wasInUse bool) bool {
	hasTeam := file.Declares("team")
	isPlatforms := func(b hclread.BlockSchema) bool { return b.Type != "team" && file.Declares(b.Type) }
	if slices.ContainsFunc(rootSchema().Blocks, isPlatforms) {
		return hasTeam && wasInUse
	}
	return hasTeam || wasInUse
}

// checkLabels reports a team whose label is also in a file that does not parse.
func (d *decoder) checkLabels() {
	for _, b := range d.Blocks("team") {
		for _, file := range d.Files() {
			if file.IsBroken && file.Path != b.Range().Filename && slices.Contains(file.Labels("team"), b.Label()) {
				d.Error(b.LabelRange(), hclread.SummaryDuplicate, "The team %q is also declared in %s, which does not parse; rename one.",
					b.Label(), file.Path)
			}
		}
	}
}

// reserve reports other teams' claims of the prefixes that are granted to a team without a previous text, which
// will be left out. A grant of "*" reserves no prefix. A claim in an unchanged file stays valid.
func (d *decoder) reserve() {
	if d.options.previous == nil {
		return
	}
	texts := newTeamFiles(d.Reader)
	for _, file := range d.Files() {
		if _, wasInUse := (*d.options.previous)[d.InFolder(file.Path)]; wasInUse || !d.HasErrorsIn(file.Path) {
			continue
		}
		for _, label := range file.Labels("team") {
			for _, prefix := range slices.Sorted(maps.Keys(d.names.owners)) {
				c := d.names.owners[prefix]
				name := d.InFolder(c.at.Filename)
				isUnchanged := (*d.options.previous)[name] == texts[name] && (*d.options.previous)[name] != NewSecret("")
				if c.team != label && d.allowed.grants[label].reserves(prefix) && !isUnchanged {
					d.Error(c.at, summaryPrefixTaken,
						"%q is granted to team %q, whose file has errors and is left out; set prefix to something else.", prefix, label)
				}
			}
		}
	}
}

// reserves reports whether a pattern other than "*" grants a prefix.
func (g *grants) reserves(prefix string) bool {
	return g != nil && prefix != "" && slices.ContainsFunc(g.patterns["prefixes"], func(p Pattern) bool {
		return p.String() != "*" && p.Match(prefix)
	})
}
