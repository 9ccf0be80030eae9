package config

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// evaluated is what the files of teams became in one load, so that a later one need not evaluate
// those again that did not change. It never changes, and configurations share it.
type evaluated struct {
	separator string
	listeners listeners
	teams     teamNames
	allowed   allowed
	files     map[string]*evaluatedFile
	// sensitive are the texts of attributes that must not be shown, see [Config.Shown]. Files that
	// are not evaluated again have none, since they use nothing from outside.
	sensitive []Secret
}

// evaluatedFile is what became of one file. It depends on the text, on what evaluated has beside
// it, and on nothing else.
type evaluatedFile struct {
	text  Secret
	teams []Team
	// What the file uses of what all files share.
	names     []hclread.Name
	claims    []claim
	overrides overrides
}

// reuse reports whether a file need not be evaluated, and remembers what it became earlier.
func (d *decoder) reuse(path string, content []byte) bool {
	if d.earlier == nil {
		return false
	}
	file := d.earlier.files[path]
	if file == nil || file.text.Reveal() != string(content) {
		return false
	}
	d.reused[path] = file
	return true
}

// reusedTeams returns the labels of the teams in files that are not evaluated.
func (d *decoder) reusedTeams() (labels []string) {
	for _, path := range d.Paths() {
		if file := d.reused[path]; file != nil {
			for i := range file.teams {
				labels = append(labels, file.teams[i].Name)
			}
		}
	}
	return labels
}

// allTeams returns the teams of all files, in order.
func (d *decoder) allTeams() (teams []Team) {
	blocks := map[string][]*hclread.Block{}
	for _, b := range d.Blocks("team") {
		path := b.Range().Filename
		blocks[path] = append(blocks[path], b)
	}
	d.claimLabels()
	files := map[string]*evaluatedFile{}
	for _, path := range d.byStanding(d.Paths()) {
		files[path] = d.reused[path]
		if files[path] != nil {
			d.repeat(files[path])
		} else {
			files[path] = d.teamFile(path, blocks[path])
		}
	}
	for _, path := range d.Paths() {
		teams = append(teams, files[path].teams...)
	}
	return teams
}

// claimLabels gives the labels of teams to the texts that stand in for files which have them
// already, see [LoadLastGood].
func (d *decoder) claimLabels() {
	if d.inUse == nil {
		return
	}
	for _, b := range d.Blocks("team") {
		name := d.InFolder(b.Range().Filename)
		if _, standsIn := d.standIns[name]; standsIn && slices.Contains(labelsIn(d.inUse.Texts[name].Reveal()), b.Label()) {
			d.Unique("team", b.Label(), b.LabelRange())
		}
	}
}

// byStanding returns files in the order in which their claims count: that of the paths, but where
// texts may stand in for files, first those that are in use as they are, then those that have
// changed, of these last those that claim what another one had, and then the texts that stand in. A
// claim that was refused would else win as soon as the file that it conflicts with is edited.
func (d *decoder) byStanding(paths []string) []string {
	if d.inUse == nil {
		return paths
	}
	const unchanged, changed, claiming, stoodIn = 0, 1, 2, 3
	standing, had := map[string]int{}, map[string]string{}
	for _, path := range paths {
		if standing[path] = changed; d.reused[path] != nil {
			standing[path] = unchanged
		} else if _, ok := d.standIns[d.InFolder(path)]; ok {
			standing[path] = stoodIn
		}
	}
	var files []hclread.File // that have changed
	for _, file := range d.SoundFiles() {
		text, wasInUse := d.inUse.Texts[d.InFolder(file.Path)]
		switch {
		case standing[file.Path] != changed:
			continue
		case wasInUse && text.Reveal() == string(file.Content):
			standing[file.Path] = unchanged
			continue
		case wasInUse:
			for _, claim := range claimsIn(text.Reveal()) {
				had[claim] = file.Path
			}
		}
		files = append(files, file)
	}
	for _, file := range files {
		isAnothers := func(claim string) bool { return had[claim] != "" && had[claim] != file.Path }
		if slices.ContainsFunc(claimsIn(string(file.Content)), isAnothers) {
			standing[file.Path] = claiming
		}
	}
	return slices.SortedStableFunc(slices.Values(paths), func(a, b string) int { return cmp.Compare(standing[a], standing[b]) })
}

// repeat uses what a file that is not evaluated uses of what all files share. A mistake in that is
// reported again once it is.
func (d *decoder) repeat(file *evaluatedFile) {
	for _, n := range file.names {
		d.Unique(n.Kind, n.Name, n.At)
	}
	for _, c := range file.claims {
		d.names.claim(d.Reader, c)
	}
	d.overrides = append(d.overrides, file.overrides...)
}

// teamFile evaluates the team blocks of a file.
func (d *decoder) teamFile(path string, blocks []*hclread.Block) *evaluatedFile {
	names, claims, overrides, outside := len(d.Names()), len(d.names.claims), len(d.overrides), d.UsedOutside()
	file := &evaluatedFile{}
	for _, b := range blocks {
		file.teams = append(file.teams, d.team(b))
	}
	file.names = slices.Clone(d.Names()[names:])
	file.claims = slices.Clone(d.names.claims[claims:])
	file.overrides = slices.Clone(d.overrides[overrides:])
	// In a folder, such a file has nothing else.
	if d.IsFolder() && len(blocks) > 0 && d.UsedOutside() == outside && !slices.ContainsFunc(file.teams, hasFiles) {
		d.fresh[path] = file
	}
	return file
}

// hasFiles reports whether a team has prompts in files. Which these may be depends on the rest of
// the configuration.
func hasFiles(t Team) bool {
	return slices.ContainsFunc(t.Upstreams, func(u Upstream) bool { return u.Files != nil })
}

// mayReuse reports whether the load would have come out the same if all files had been evaluated.
func (d *decoder) mayReuse(diags Diagnostics) bool {
	if len(d.reused) == 0 {
		return true
	}
	// Mistakes are told exactly, and their lines quoted, which takes parsing the files.
	isUnparsed := func(diag *hcl.Diagnostic) bool { return diag.Subject != nil && d.reused[diag.Subject.Filename] != nil }
	if diags.HasErrors() || slices.ContainsFunc(diags.report.Diagnostics, isUnparsed) {
		return false
	}
	if d.names.separator != d.earlier.separator || !slices.Equal(d.listeners, d.earlier.listeners) {
		return false
	}
	declared := map[string]bool{}
	for _, team := range d.teams {
		declared[team] = true
	}
	for _, team := range d.earlier.teams { // others may have come: blocks name those that are there
		if !declared[team] || !d.allowed.team(team).same(d.earlier.allowed.team(team)) {
			return false
		}
	}
	return true
}

// evaluated returns what a later load may use.
func (d *decoder) evaluated(diags Diagnostics) *evaluated {
	files := maps.Clone(d.reused)
	content := diags.report.Files()
	for path, file := range d.fresh {
		file.text = NewSecret(string(content[path].Content))
		files[path] = file
	}
	for _, diag := range diags.report.Diagnostics {
		if diag.Subject != nil {
			delete(files, diag.Subject.Filename) // so that its warnings come again
		}
	}
	var sensitive []Secret
	for _, text := range d.Sensitive() {
		sensitive = append(sensitive, NewSecret(text))
	}
	return &evaluated{d.names.separator, d.listeners, d.teams, d.allowed, files, sensitive}
}
