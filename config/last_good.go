package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// TeamFiles are the files of a folder with team blocks, and so nothing else, as they were written.
// Their secrets are the references that a team wrote, such as env("TOKEN"), but nothing keeps a
// team from writing a literal.
type TeamFiles struct {
	// Root is the absolute path of the folder; empty for a configuration that is a single file.
	Root string
	// Texts are by the files' paths in the folder, with slashes. Of a file that is out, the text has
	// the teams whose labels stay with it, and nothing else.
	Texts map[string]Secret
	// Platform are the paths of the other files, in order; nil if they are not known.
	Platform []string
}

// Equal reports whether both are the same files with the same texts.
func (f TeamFiles) Equal(other TeamFiles) bool {
	return f.Root == other.Root && maps.Equal(f.Texts, other.Texts) && slices.Equal(f.Platform, other.Platform)
}

func newTeamFiles(r *hclread.Reader, diags Diagnostics) TeamFiles {
	root, err := filepath.Abs(r.Root())
	if err != nil || !r.IsFolder() {
		return TeamFiles{}
	}
	files := TeamFiles{Root: root, Texts: map[string]Secret{}, Platform: []string{}}
	for path, file := range diags.report.Files() {
		if file.Declares("team") {
			files.Texts[r.InFolder(path)] = NewSecret(string(file.Content))
		} else {
			files.Platform = append(files.Platform, r.InFolder(path))
		}
	}
	slices.Sort(files.Platform)
	return files
}

// hashTexts returns 64 bits of a hash of the texts of all files and their paths in the folder.
func hashTexts(r *hclread.Reader, diags Diagnostics) string {
	h, files := sha256.New(), diags.report.Files()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		name := filepath.Base(path)
		if r.IsFolder() {
			name = r.InFolder(path)
		}
		fmt.Fprintf(h, "%q %d\n%s", name, len(files[path].Content), files[path].Content)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// LastGood is the inUse of [LoadLastGood] for a reload of a configuration in use.
func (c *Config) LastGood(string) TeamFiles { return c.TeamFiles }

// Kept says what is in use in place of a team's file that has a mistake.
type Kept struct {
	// File is the path in the folder, with slashes: of the file, or of a folder that cannot be
	// read.
	File string `json:"file"`
	// Teams are the teams of the file, as far as they are known, but for those that another file
	// has.
	Teams []string `json:"teams"`
	// Out means that nothing is: no earlier text is in use, or it no longer fits the other files.
	Out bool `json:"out"`
}

// String says in a sentence what becomes of the file.
func (k Kept) String() string {
	became := "the text in use is kept"
	if k.Out {
		became = "nothing of it is in use"
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

// LoadLastGood is [Load] for what one team's mistake must not prevent. In place of a team's file
// with a mistake it reads the text that inUse returns for it, under the platform's files and the
// other teams' as they are now. A text that no longer fits these leaves with all that is in it,
// since the file that is right wins, but for the label of a team: that belongs to the file that has
// it as long as that is there, or else the author of one team's file could take over another team's
// grants while its file is broken. A file that has no text in use leaves, too. It returns what
// became of each such file, and the Diagnostics of the files as they are.
//
// A mistake in a file of the platform is not passed over: the Config is nil then. What is new and
// cannot be read, be it a file or a folder, concerns only itself, except for a file beside one of
// the platform's. The name of a team that nobody declares is passed over: the team may have gone,
// and nothing is granted or shown to anybody by it. A text belongs to its file and teams: a file
// that is gone, or that is about other teams now, keeps nothing. InUse is called only if it is
// needed, with the state_dir; a Root that is empty keeps nothing and passes nothing over.
func LoadLastGood(
	path string, opts Options, inUse func(stateDir string) TeamFiles,
) (*Config, []Kept, Diagnostics) {
	cfg, diags := Load(path, opts)
	if cfg != nil {
		return cfg, nil, diags
	}
	d := newDecoder(path, opts)
	if !d.IsFolder() {
		return nil, nil, diags
	}
	stateDir := d.config().Gateway.StateDir // mistakes do not matter: the next Load finds them
	k := &keeper{folder: path, opts: opts, inUse: inUse(stateDir), standIns: map[string]*standIn{}}
	if k.inUse.Root == "" {
		return nil, nil, diags
	}
	if cfg = k.load(); cfg == nil {
		return nil, nil, diags
	}
	kept, further := k.report(cfg, diags)
	return cfg, kept, further
}

// keeper finds texts that can stand in for the files with mistakes. Each round loads the folder and
// takes the next of these for each file that does not fit: the file, the text in use, an empty
// block for each of its teams, nothing.
type keeper struct {
	folder   string
	opts     Options
	inUse    TeamFiles
	standIns map[string]*standIn // by path in the folder
}

// standIn is what is read in place of a file.
type standIn struct {
	Kept

	text string
	// mistakes are those of the file in the first round in which it had any.
	mistakes hclread.Report
	// mayReturn means that all of them are about what others have, too, and need not have been its
	// own.
	mayReturn bool
}

func (k *keeper) load() *Config {
	for {
		// It ends: each round gives some file its next text, of which each has three at most.
		cfg, diags := k.try()
		if cfg != nil {
			return k.restore(cfg)
		}
		if !k.fallBack(diags) {
			return nil
		}
	}
}

func (k *keeper) try() (*Config, Diagnostics) {
	k.opts.Texts, k.opts.inUse = map[string]Secret{}, &k.inUse
	for name, s := range k.standIns {
		k.opts.Texts[name] = NewSecret(s.text)
	}
	return Load(k.folder, k.opts)
}

// restore reads files as they are again whose mistakes came from others, which have been replaced
// since.
func (k *keeper) restore(cfg *Config) *Config {
	for _, name := range slices.Sorted(maps.Keys(k.standIns)) {
		s := k.standIns[name]
		if !s.mayReturn {
			continue
		}
		delete(k.standIns, name)
		if next, _ := k.try(); next != nil {
			cfg = next
		} else {
			k.standIns[name] = s
		}
	}
	return cfg
}

// fallBack takes the next text for each file with a mistake. It reports false if a mistake is not
// in a team's file.
func (k *keeper) fallBack(diags Diagnostics) bool {
	read, mistakes := diags.report.Files(), diags.report.Mistakes()
	var names []string
	for path := range mistakes {
		name, err := filepath.Rel(k.folder, path)
		name = filepath.ToSlash(name)
		file, isRead := read[path]
		switch {
		case path == "" || err != nil || name == "." || isRead && !k.isTeams(name, file) || !isRead && !k.mayPassOver(name):
			return false
		case !isRead:
			names = append(names, k.beneath(name)...)
		}
		names = append(names, name)
	}
	slices.Sort(names) // a folder and one inside it have the same files beneath
	names = slices.Compact(names)
	for _, name := range k.blamed(names, read, mistakes) {
		path := k.path(name)
		if s := k.standIns[name]; s == nil {
			s = k.first(name, read[path])
			s.mistakes, s.mayReturn = diags.report.In(path), areAll(mistakes[path], conflicts())
			k.standIns[name] = s
		} else if !s.next() {
			return false
		}
	}
	return true
}

// blamed returns the files that give way in this round. Texts that stand in claim what they need
// last, so they come last here, too.
func (k *keeper) blamed(names []string, read map[string]hclread.File, mistakes map[string][]string) []string {
	isStandIn := func(name string) bool { return k.standIns[name] != nil }
	isFirst := !slices.ContainsFunc(names, isStandIn)
	isBlamed := func(name string) bool {
		text, wasGood := k.inUse.Texts[name]
		at := k.path(name)
		// A file that is in use as it is had first what it has in common with another one.
		hadFirst := wasGood && text.Reveal() == string(read[at].Content) && areAll(mistakes[at], conflicts())
		// A prefix that looks like another is reported at both.
		givesWay := !isFirst && areAll(mistakes[at], []string{summaryLookalike})
		return !isStandIn(name) && !hadFirst && !givesWay
	}
	for _, choice := range []func(string) bool{isBlamed, isStandIn} {
		if slices.ContainsFunc(names, choice) {
			return slices.DeleteFunc(names, func(name string) bool { return !choice(name) })
		}
	}
	return names
}

// conflicts are the summaries of mistakes about two files, either of which may be to blame.
func conflicts() []string {
	return []string{hclread.SummaryDuplicate, summaryPrefixTaken, summaryLookalike}
}

// areAll reports whether there are mistakes, all with one of some summaries.
func areAll(mistakes, summaries []string) bool {
	isOther := func(summary string) bool { return !slices.Contains(summaries, summary) }
	return len(mistakes) > 0 && !slices.ContainsFunc(mistakes, isOther)
}

// path returns where a file is whose path in the folder is known.
func (k *keeper) path(name string) string { return filepath.Join(k.folder, filepath.FromSlash(name)) }

// isTeams reports whether a file that was read is one of a team. One that does not say so is, if it
// was one and does not say that it is the platform's now.
func (k *keeper) isTeams(name string, file hclread.File) bool {
	isFound := func(b hclread.BlockSchema) bool { return file.Declares(b.Type) }
	return file.Declares("team") || k.wasTeams(name) && !slices.ContainsFunc(rootSchema().Blocks, isFound)
}

func (k *keeper) wasTeams(name string) bool {
	_, isInUse := k.inUse.Texts[name]
	return isInUse || k.standIns[name] != nil
}

// mayPassOver reports whether a file or a folder that cannot be read is certainly none of the
// platform's. A new one beside a file of the platform may be its own: who may add it may change
// that.
func (k *keeper) mayPassOver(name string) bool {
	isPlatforms := func(file string) bool {
		return file == name || strings.HasPrefix(file, name+"/") ||
			strings.HasSuffix(name, ".hcl") && path.Dir(file) == path.Dir(name)
	}
	return k.wasTeams(name) || k.inUse.Platform != nil && !slices.ContainsFunc(k.inUse.Platform, isPlatforms)
}

// beneath returns the files in use that are still there in a folder that cannot be read.
func (k *keeper) beneath(folder string) (names []string) {
	for name := range k.inUse.Texts {
		if _, err := os.Lstat(k.path(name)); err == nil && strings.HasPrefix(name, folder+"/") {
			names = append(names, name)
		}
	}
	return names
}

// first returns the text in use for a file, if that is about the same teams, else what stands for
// none.
func (k *keeper) first(name string, file hclread.File) *standIn {
	declared := file.Labels("team")
	text := k.inUse.Texts[name]
	teams := labelsIn(text.Reveal())
	isGone := func(team string) bool { return len(declared) > 0 && !slices.Contains(declared, team) }
	if len(teams) > 0 && text.Reveal() != string(file.Content) && !slices.ContainsFunc(teams, isGone) {
		return &standIn{Kept: Kept{File: name, Teams: teams, Out: text.Reveal() == emptyTeams(teams)}, text: text.Reveal()}
	}
	s := &standIn{Kept: Kept{File: name, Teams: slices.Compact(slices.Sorted(slices.Values(declared)))}}
	s.next()
	return s
}

// next takes what follows the present text, and reports false if nothing does.
func (s *standIn) next() bool {
	if s.Out && s.text == "" {
		return false
	}
	if s.text = ""; !s.Out { // others may name the team, such as in to
		s.text = emptyTeams(s.Teams)
	}
	s.Out = true
	return true
}

// emptyTeams returns a text with teams that have nothing.
func emptyTeams(labels []string) string {
	var text strings.Builder
	for _, label := range labels {
		if isName(label) {
			fmt.Fprintf(&text, "team %q {}\n", label)
		}
	}
	return text.String()
}

// report returns what became of the files, and the mistakes: besides those of the files as they
// are, what makes a mistake of a file only because another one keeps its text. Of a file that is
// out, nothing is kept later but the labels that it had: it stays a team's file, whatever is in it,
// and holds up nothing.
func (k *keeper) report(cfg *Config, diags Diagnostics) (kept []Kept, all Diagnostics) {
	mistakes := diags.report.Mistakes()
	for _, name := range slices.Sorted(maps.Keys(k.standIns)) {
		s := k.standIns[name]
		s.Teams = slices.DeleteFunc(s.Teams, func(team string) bool {
			return slices.ContainsFunc(cfg.Teams, func(t Team) bool { return t.Name == team && t.Place.File != k.path(name) })
		})
		if kept = append(kept, s.Kept); s.Out {
			had := labelsIn(k.inUse.Texts[name].Reveal())
			isNew := func(team string) bool { return !slices.Contains(had, team) }
			stays := slices.DeleteFunc(slices.Clone(s.Teams), isNew)
			cfg.TeamFiles.Texts[name] = NewSecret(emptyTeams(stays))
		}
		// What stands for nothing has no team, and is not the platform's.
		isName := func(other string) bool { return other == name }
		cfg.TeamFiles.Platform = slices.DeleteFunc(cfg.TeamFiles.Platform, isName)
		if len(mistakes[k.path(name)]) == 0 {
			diags.report = diags.report.Merge(s.mistakes)
		}
	}
	return kept, diags
}

// claimLabels gives the labels of teams to the texts that stand in for files which have them
// already, see [LoadLastGood].
func (d *decoder) claimLabels() {
	if d.inUse == nil {
		return
	}
	for _, b := range d.Blocks("team") {
		name := d.InFolder(b.Range().Filename)
		if d.standsIn(b.Range().Filename) && slices.Contains(labelsIn(d.inUse.Texts[name].Reveal()), b.Label()) {
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
		if standing[path] = changed; d.standsIn(path) {
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

// standsIn reports whether a text is read in place of a file.
func (d *decoder) standsIn(path string) bool {
	_, ok := d.standIns[d.InFolder(path)]
	return ok
}

// labelsIn returns the labels of the team blocks in a text.
func labelsIn(text string) []string {
	r := hclread.New(rootSchema(), hclread.Options{})
	r.Parse("", []byte(text))
	return r.Labels("team")
}

// claimsIn returns what a text has of what only one file can have: teams, upstreams and prefixes.
func claimsIn(text string) (claims []string) {
	r := hclread.New(rootSchema(), hclread.Options{})
	r.Parse("", []byte(text))
	for _, team := range r.Blocks("team") {
		team.Restrict(&grants{}) // nothing outside of the text is read
		claims = append(claims, "team "+team.Label())
		for _, u := range team.Inner("upstream") {
			prefix := u.Label()
			hclread.Set(u, "prefix", &prefix, hclread.AnyText)
			claims = append(claims, "upstream "+u.Label(), "prefix "+prefix)
		}
	}
	return claims
}
