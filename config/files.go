package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"

	"github.com/promptweir/promptweir/config/internal/hclread"
	"github.com/promptweir/promptweir/config/regular"
)

// maxPathPatterns bounds the patterns of one upstream: each file is compared with all of them.
const maxPathPatterns = 64

// Files is the files attribute of an upstream: the files that hold its prompts, and what else they
// may bring in.
type Files struct {
	// Patterns match the files of prompts, relative to Folder, the folder of the team's file.
	Patterns []PathPattern
	Folder   string
	// Root is the folder beneath which everything that is read must lie: Folder or, where allow
	// blocks say what else a team may read, the folder of the configuration.
	Root string
	// Max bounds what all files of the team hold in memory, in bytes.
	Max int

	grants *grants
	// reserved are the files that the configuration reads as values, such as keys; resolved and
	// absolute.
	reserved map[string]bool
	// configuration are the files of the configuration itself, resolved and absolute. They may lie in
	// the folder of a skill.
	configuration map[string]bool
}

// Allow decides on a path before anything is looked up on disk.
func (f *Files) Allow(path string) error {
	return f.grants.AllowFile(path, f.text(path))
}

// AllowResolved decides on the path that the links of an allowed path lead to.
func (f *Files) AllowResolved(path, resolved string) error {
	if f.reserved[hclread.Absolute(resolved)] {
		return errors.New("the configuration reads it as a value, and it may hold a secret; " +
			"keep prompts and secrets in different files")
	}
	if f.configuration[hclread.Absolute(resolved)] {
		return fmt.Errorf("the file %s is configuration, which may hold secrets; keep it out of "+
			"the folders of skills", filepath.Base(path))
	}
	return f.grants.AllowResolvedFile(resolved, f.text(path))
}

// text is a path as messages show it.
func (f *Files) text(path string) hclread.Text {
	if relative, err := filepath.Rel(f.Folder, path); err == nil {
		path = relative
	}
	return hclread.Text{Value: path}
}

// decodeFiles decodes files, format and texts.
func decodeFiles(b *hclread.Block, u *Upstream, r reach) {
	u.Files = &Files{Folder: b.ResolvePath(""), Root: b.ResolvePath(""), grants: r.grants}
	if r.grants != nil {
		u.Files.Root = r.root
	}
	hclread.Bool(b, "texts", &u.Texts)
	hclread.Set(b, "format", &u.Format, hclread.OneOf(FormatClaude, FormatCursor, FormatGemini, FormatOpenCode, FormatVSCode, FormatSkill, FormatNative))
	u.Files.Patterns = hclread.NonEmptyList(b, "files", parsePathPattern,
		`The list is empty; write a pattern like "prompts/**/*.md".`)
	if len(u.Files.Patterns) > maxPathPatterns {
		b.Error(b.ValueRange("files"), "Invalid files", "An upstream has at most %d patterns; "+
			"use wildcards.", maxPathPatterns)
	}
}

// checkFiles reports what only an upstream with a server can have.
func checkFiles(b *hclread.Block) {
	for _, name := range upstreamSchema().Names() {
		if !slices.Contains([]string{"files", "format", "texts", "skills", "prefix", "max_prompts", "url", "command"}, name) {
			refuse(b, name, "a server", "Prompts from files need no server, so "+name+" has no effect; remove it.")
		}
	}
}

// completeFiles fills in what follows from the whole configuration: how much a team's files may
// hold, and the files that the configuration reads as values, which no prompt may contain.
func completeFiles(r *hclread.Reader, cfg *Config, cursorKeys hclread.Uses) {
	reserved := maps.Clone(r.ValueFiles())
	maps.Copy(reserved, cursorKeys.Files)
	configuration := map[string]bool{}
	for _, file := range r.SoundFiles() {
		if actual, err := filepath.EvalSymlinks(hclread.Absolute(file.Path)); err == nil {
			configuration[actual] = true
		}
	}
	for i := range cfg.Teams {
		for j := range cfg.Teams[i].Upstreams {
			files := cfg.Teams[i].Upstreams[j].Files
			if files == nil {
				continue
			}
			files.reserved, files.Max = reserved, cfg.Gateway.MaxFiles
			if cfg.Teams[i].Upstreams[j].Skills != "" { // no other upstream is new where the set changes
				files.configuration = configuration
			}
			if files.grants != nil {
				files.Max = cmp.Or(files.grants.most["max_files"], files.Max)
			}
		}
	}
}

// SameSource reports whether files are found and granted alike for two blocks of a team, so that
// they can share what was read.
func (f *Files) SameSource(other *Files) bool {
	return f.Folder == other.Folder && f.Root == other.Root && f.Max == other.Max && f.grants.same(other.grants) &&
		(maps.Equal(f.reserved, other.reserved) || maps.Equal(f.withheld(), other.withheld()))
}

// withheld returns the reserved files that could be read otherwise. Where another team begins to
// read a file as a value, that is no reason to read everything again.
func (f *Files) withheld() map[string]bool {
	root, err := filepath.EvalSymlinks(hclread.Absolute(f.Root))
	if err != nil {
		return f.reserved
	}
	withheld := maps.Clone(f.reserved)
	maps.DeleteFunc(withheld, func(path string, _ bool) bool {
		if f.grants != nil {
			return !f.grants.matchesPath("files", root, path)
		}
		return !regular.IsBeneath(root, path)
	})
	return withheld
}

// Raise says who raises [Files.Max], and how.
func (f *Files) Raise() string {
	if f.grants != nil {
		return fmt.Sprintf("the platform team can raise max_files in allow %q", f.grants.team)
	}
	return "raise max_files in the gateway block"
}

// shownPatterns returns the patterns in one line.
func (f *Files) shownPatterns() string {
	texts := make([]string, len(f.Patterns))
	for i, p := range f.Patterns {
		texts[i] = p.String()
	}
	return strings.Join(texts, " ")
}

// FileFormat is how files of prompts are written.
type FileFormat string

// The values of the format attribute; for the zero value, signs tell the format of each file.
const (
	FormatClaude   FileFormat = "claude"
	FormatCursor   FileFormat = "cursor"
	FormatGemini   FileFormat = "gemini"
	FormatOpenCode FileFormat = "opencode"
	FormatVSCode   FileFormat = "vscode"
	FormatSkill    FileFormat = "skill"
	FormatNative   FileFormat = "promptweir"
)

// PathPattern is a glob over the path of a Markdown file, relative to a folder and with slashes.
// [doublestar.Match] says what the wildcards mean. The zero PathPattern matches nothing.
//
// A name that starts with "." or "_" only matches where the pattern has a name for it, so that
// neither the folders of tools nor partials become prompts by accident.
type PathPattern struct{ text string }

// Match reports whether the pattern matches the path of a file, as it is or in Unicode's composed
// form: see [Pattern].
func (p PathPattern) Match(file string) bool {
	for _, file := range []string{file, norm.NFC.String(file)} {
		if p.text != "" && doublestar.MatchUnvalidated(p.text, file) && p.hasReserved(file) {
			return true
		}
	}
	return false
}

// MatchHidden reports whether the pattern matches the path of a file whose own name may start with
// "." or "_", as clients list such files.
func (p PathPattern) MatchHidden(file string) bool {
	folder := file[:max(strings.LastIndexByte(file, '/'), 0)]
	return p.text != "" && doublestar.MatchUnvalidated(p.text, norm.NFC.String(file)) && p.hasReserved(folder)
}

// Enters reports whether the pattern can match a file beneath a folder.
func (p PathPattern) Enters(folder string) bool {
	if folder == "." {
		return true
	}
	names, depth := strings.Split(p.text, "/"), 1+strings.Count(folder, "/")
	start := names[:len(names)-1]
	switch i := slices.Index(start, "**"); {
	case i >= 0 && i < depth:
		start = start[:i+1]
	case len(start) < depth:
		return false
	default:
		start = start[:depth]
	}
	return PathPattern{strings.Join(start, "/")}.Match(folder)
}

// hasReserved reports whether the pattern has a name for each reserved name of a path.
func (p PathPattern) hasReserved(file string) bool {
	for name := range strings.SplitSeq(file, "/") {
		has := func(part string) bool { return part[0] == name[0] && doublestar.MatchUnvalidated(part, name) }
		if isReserved(name) && !slices.ContainsFunc(strings.Split(p.text, "/"), has) {
			return false
		}
	}
	return true
}

// Folder returns the folder that all matches are in, as far as the pattern spells it out; "." for
// none.
func (p PathPattern) Folder() string {
	folder, _ := doublestar.SplitPattern(p.text)
	return folder
}

// String returns the pattern as it was written.
func (p PathPattern) String() string { return p.text }

// isReserved reports whether a name stands for itself only.
func isReserved(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// IsPromptFile reports whether a pattern can match a file of this name: Markdown, or a command of
// Gemini CLI.
func IsPromptFile(name string) bool {
	return strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".toml")
}

// parsePathPattern leaves the pattern out of its errors.
func parsePathPattern(s string) (PathPattern, error) {
	names := strings.Split(s, "/")
	switch {
	case s == "":
		return PathPattern{}, errors.New(`is empty; write it like "prompts/**/*.md"`)
	case names[0] == "":
		return PathPattern{}, errors.New(`starts with a slash; write it relative to the folder ` +
			`of this file, like "prompts/**/*.md"`)
	case slices.Contains(names, "..") || slices.Contains(names, "."):
		return PathPattern{}, errors.New(`contains "." or ".."; prompts lie beneath the folder ` +
			`of this file: move them there`)
	case !IsPromptFile(s):
		return PathPattern{}, errors.New(`does not end in ".md"; prompts are Markdown files: ` +
			`write it like "prompts/**/*.md"`)
	case strings.HasSuffix(s, ".toml") && !strings.Contains("/"+s, "/commands/"):
		return PathPattern{}, errors.New(`ends in ".toml" for files that are not Gemini CLI's ` +
			`commands; write it like ".gemini/commands/**/*.toml"`)
	}
	for _, name := range names {
		switch {
		case name == "**":
		case strings.Contains(name, "**"):
			return PathPattern{}, errors.New(`has "**" beside other characters; it stands for ` +
				`whole folders: write it like "prompts/**/*.md"`)
		case name == "":
			return PathPattern{}, errors.New("has two slashes in a row; remove one")
		case !doublestar.ValidatePattern(name):
			return PathPattern{}, fmt.Errorf("has a class, an alternative or a \\ without an end at %q; complete it", name)
		}
	}
	return PathPattern{s}, nil
}
