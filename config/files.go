package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// maxPathPatterns bounds the patterns of one upstream, because each file is compared with all of them.
const maxPathPatterns = 64

// Files is the files attribute of an upstream: its prompt files, and the other files that they may
// include.
type Files struct {
	// Patterns match prompt files. They are relative to Folder, the folder of the team's file.
	Patterns []PathPattern
	Folder   string
	// Root is the folder below which all files must lie: Folder or, with allow blocks, the folder
	// of the configuration.
	Root string
	// Max bounds the memory for the files of all the team's upstreams, in bytes.
	Max int

	grants *grants
	// reserved contains files that the configuration reads as values, such as keys. Paths are absolute and
	// without links.
	reserved map[string]bool
	// configuration contains the configuration's own files, in the same form. It is nil if the upstream has no
	// skills.
	configuration map[string]bool
}

// Allow checks a path before any file system call.
func (f *Files) Allow(path string) error {
	return f.grants.AllowFile(path, f.text(path))
}

// AllowResolved checks the target of an allowed path's links.
func (f *Files) AllowResolved(path, resolved string) error {
	if f.reserved[hclread.Absolute(resolved)] {
		return errors.New("the configuration reads it as a value, and it may hold a secret; keep prompts and secrets in different files")
	}
	if f.configuration[hclread.Absolute(resolved)] {
		return fmt.Errorf("the file %s is configuration, which may hold secrets; keep it out of the folders of skills", filepath.Base(path))
	}
	return f.grants.AllowResolvedFile(resolved, f.text(path))
}

// text returns a path for messages, relative to Folder.
func (f *Files) text(path string) hclread.Text {
	if relative, err := filepath.Rel(f.Folder, path); err == nil {
		path = relative
	}
	return hclread.Text{Value: path}
}

func decodeFiles(b *hclread.Block, u *Upstream, r reach) {
	if !b.Has("files") {
		return
	}
	u.Transport = NoServer
	u.Files = &Files{Folder: b.ResolvePath(""), Root: b.ResolvePath(""), grants: r.grants}
	if r.grants != nil {
		u.Files.Root = r.root
	}
	before := b.Reported()
	u.Files.Patterns = hclread.List(b, "files", parsePathPattern)
	if len(u.Files.Patterns) == 0 && b.Reported() == before {
		b.Error(b.ValueRange("files"), "Invalid files", `The list is empty; write a pattern like "prompts/**/*.md".`)
	}
	if len(u.Files.Patterns) > maxPathPatterns {
		b.Error(b.ValueRange("files"), "Invalid files", "An upstream has at most %d patterns; use wildcards.", maxPathPatterns)
	}
}

// checkFiles reports attributes and blocks that need a server, and so have no effect with files.
func checkFiles(b *hclread.Block) {
	s := newUpstream().schema(nil, reach{})
	for _, name := range s.Names() {
		if s.Attribute(name).Files != filesToo && name != "url" && name != "command" { // checkOneWay reports these two
			refuse(b, name, "a server", "Prompts from files need no server, so "+name+" has no effect; remove it.")
		}
	}
}

// completeFiles sets the fields of all [Files] that depend on the whole configuration.
func completeFiles(r *hclread.Reader, cfg *Config, cursorKeys hclread.References) {
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
			// Only the folder of a skill may contain configuration. For an upstream without skills, configuration
			// stays nil, because each change of the set would replace the connector.
			if cfg.Teams[i].Upstreams[j].Skills != "" {
				files.configuration = configuration
			}
			if files.grants != nil {
				files.Max = cmp.Or(files.grants.ceilings["max_files"], files.Max)
			}
		}
	}
}

// SameSource reports whether two upstreams of a team have the same folder, bounds and grants, so that one pass
// over the folder can read the files of both.
func (f *Files) SameSource(other *Files) bool {
	a, b := *f, *other
	a.Patterns, b.Patterns = nil, nil
	a.configuration, b.configuration = nil, nil // nil for an upstream without skills
	return reflect.DeepEqual(a, b)
}

// Raise returns the remedy for files that exceed [Files.Max], without a period.
func (f *Files) Raise() string {
	if f.grants != nil {
		return fmt.Sprintf("the platform team can raise max_files in allow %q", f.grants.team)
	}
	return "raise max_files in the gateway block"
}

// FileFormat is the format of prompt files.
type FileFormat string

// The values of the format attribute. With the zero value, the format of each file is detected.
const (
	FormatClaude   FileFormat = "claude"
	FormatCursor   FileFormat = "cursor"
	FormatGemini   FileFormat = "gemini"
	FormatOpenCode FileFormat = "opencode"
	FormatVSCode   FileFormat = "vscode"
	FormatSkill    FileFormat = "skill"
	FormatNative   FileFormat = "promptweir"
)

// PathPattern is a glob over the path of a prompt file, relative to a folder and with slashes.
// [doublestar.Match] defines the wildcards. The zero PathPattern matches nothing.
//
// A name that starts with "." or "_", or is README.md, matches only if the pattern spells out its first character. So the
// folders of tools, partials, and descriptions of folders do not become prompts by accident.
type PathPattern struct{ text string }

// Match reports whether the pattern matches the path of a file, as it is or in Unicode's composed form. See
// [Pattern].
func (p PathPattern) Match(file string) bool {
	return slices.ContainsFunc([]string{file, norm.NFC.String(file)}, func(file string) bool {
		return p.text != "" && doublestar.MatchUnvalidated(p.text, file) && p.hasReserved(file)
	})
}

// MatchHidden is Match, but lets "*" match every file name, as in the folders of clients. Folder names must still be
// spelled out.
func (p PathPattern) MatchHidden(file string) bool {
	folder := file[:max(strings.LastIndexByte(file, '/'), 0)]
	return p.text != "" && doublestar.MatchUnvalidated(p.text, norm.NFC.String(file)) && p.hasReserved(folder)
}

// Enters reports whether the pattern can match a file below a folder.
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

// hasReserved reports whether the pattern spells out the first character of each reserved name in a path. README.md is
// reserved, because it usually describes the prompts in its folder.
func (p PathPattern) hasReserved(file string) bool {
	for name := range strings.SplitSeq(file, "/") {
		has := func(part string) bool { return part[0] == name[0] && doublestar.MatchUnvalidated(part, name) }
		isReserved := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || strings.EqualFold(name, "README.md")
		if isReserved && !slices.ContainsFunc(strings.Split(p.text, "/"), has) {
			return false
		}
	}
	return true
}

// Folder returns the longest folder that the pattern spells out, or "." if it spells out none.
func (p PathPattern) Folder() string {
	folder, _ := doublestar.SplitPattern(p.text)
	return folder
}

// String returns the pattern as it was written.
func (p PathPattern) String() string { return p.text }

// IsPromptFile reports whether a file with this name can be a prompt: Markdown, or a command of Gemini CLI.
func IsPromptFile(name string) bool {
	return strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".toml")
}

// parsePathPattern checks a pattern of files. Its errors quote at most one name of the pattern.
func parsePathPattern(s string) (PathPattern, error) {
	names := strings.Split(s, "/")
	switch {
	case s == "":
		return PathPattern{}, errors.New(`is empty; write it like "prompts/**/*.md"`)
	case names[0] == "":
		return PathPattern{}, errors.New(`starts with a slash; write it relative to the folder of this file, like "prompts/**/*.md"`)
	case slices.Contains(names, "..") || slices.Contains(names, "."):
		return PathPattern{}, errors.New(`contains "." or ".."; write a path relative to the folder of this file without them, and move prompts from other folders into it`)
	case !IsPromptFile(s):
		return PathPattern{}, errors.New(`does not end in ".md"; prompts are Markdown files: write it like "prompts/**/*.md"`)
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
