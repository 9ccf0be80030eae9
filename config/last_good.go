package config

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// TeamFiles are the files of a folder with team blocks, and so nothing else, as they were written. Their secrets are the
// references that a team wrote, such as env("TOKEN"), but nothing keeps a team from writing a literal.
type TeamFiles struct {
	// Root is the absolute path of the folder; empty for a configuration that is a single file.
	Root string
	// Texts are by the files' paths in the folder, with slashes.
	Texts map[string]Secret
}

// Equal reports whether both are the same files with the same texts.
func (f TeamFiles) Equal(other TeamFiles) bool {
	return f.Root == other.Root && maps.Equal(f.Texts, other.Texts)
}

func newTeamFiles(r *hclread.Reader, diags Diagnostics) TeamFiles {
	root, err := filepath.Abs(r.Root())
	if err != nil || !r.IsFolder() {
		return TeamFiles{}
	}
	files := TeamFiles{Root: root, Texts: map[string]Secret{}}
	for path, file := range diags.report.Files() {
		if file.IsSkipped() || file.TopLevel()["team"] {
			files.Texts[r.InFolder(path)] = NewSecret(string(file.Content))
		}
	}
	return files
}

// LoadLastGood is [Load] for a start that one team's mistake must not prevent. It reads the last good text of a team's file in
// place of one with a mistake. Where that is not enough, since what changed in one file may be a mistake in another, it reads
// them in place of all that changed. It returns those files' paths in the folder, sorted, and the Diagnostics of the files as
// they are. A mistake in a file of the platform is never passed over, nor one in a file that was never good. LastGood returns the last good files that are kept in a state_dir; it is called only if they are needed.
func LoadLastGood(
	path string, opts Options, lastGood func(stateDir string) TeamFiles,
) (cfg *Config, replaced []string, diags Diagnostics) {
	cfg, diags = Load(path, opts)
	if cfg != nil {
		return cfg, nil, diags
	}
	stateDir := newDecoder(path, opts).config().Gateway.StateDir // mistakes do not matter: the next Load finds them
	if stateDir == "" {
		return nil, nil, diags
	}
	kept := lastGood(stateDir)
	all := map[string]bool{}
	for file := range diags.report.Files() {
		all[file] = true
	}
	for _, files := range []map[string]bool{diags.report.Mistaken(), all} {
		opts.Texts = diags.lastGood(path, files, kept)
		if len(opts.Texts) == 0 {
			continue
		}
		if cfg, _ = Load(path, opts); cfg != nil {
			return cfg, slices.Sorted(maps.Keys(opts.Texts)), diags
		}
	}
	return nil, nil, diags
}

// lastGood returns the last good texts, by path in the folder, of those files that changed since and are still a team's.
func (d Diagnostics) lastGood(folder string, files map[string]bool, kept TeamFiles) map[string]Secret {
	texts, read := map[string]Secret{}, d.report.Files()
	for path := range files {
		name, err := filepath.Rel(folder, path)
		name = filepath.ToSlash(name)
		text, wasGood := kept.Texts[name]
		file, isRead := read[path]
		if err == nil && wasGood && (!isRead || !isPlatforms(file) && string(file.Content) != text.Reveal()) {
			texts[name] = text
		}
	}
	return texts
}

// isPlatforms reports whether a file is one of the platform team, which may have taken the path of a team's.
func isPlatforms(file hclread.File) bool {
	found := file.TopLevel()
	isFound := func(b hclread.BlockSchema) bool { return found[b.Type] }
	return !found["team"] && slices.ContainsFunc(rootSchema().Blocks, isFound)
}
