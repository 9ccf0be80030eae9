package files

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// sign is the format of a file, and the part of its path from which the name of its command or
// skill is made.
type sign struct {
	// format is empty until the file's content is known, if the path does not determine it.
	format config.FileFormat
	name   string
}

// codexPrompts is the format of Codex's custom prompts, which Codex no longer reads.
const codexPrompts config.FileFormat = "codex"

// clientFolders contains the folders in which clients look for commands, in a project or the home
// folder.
var clientFolders = []struct { //nolint:gochecknoglobals // a constant table
	folder string
	format config.FileFormat
}{
	{"/.claude/commands/", config.FormatClaude},
	{"/.codex/prompts/", codexPrompts},
	{"/.cursor/commands/", config.FormatCursor},
	{"/.gemini/commands/", config.FormatGemini},
	{"/.opencode/command/", config.FormatOpenCode},
	{"/.opencode/commands/", config.FormatOpenCode},
	{"/.config/opencode/command/", config.FormatOpenCode},
	{"/.config/opencode/commands/", config.FormatOpenCode},
}

// manifestFiles contains the files and folders that identify the client of a folder of commands.
// They are beside that folder or above it.
var manifestFiles = []struct { //nolint:gochecknoglobals // a constant table
	file   string
	format config.FileFormat
}{
	{".claude-plugin", config.FormatClaude},
	{".cursor-plugin", config.FormatCursor},
	{"opencode.json", config.FormatOpenCode},
	{"opencode.jsonc", config.FormatOpenCode},
}

// signOf returns the sign of a file. SKILL.md is always a skill. For other files, the first of
// these decides: the upstream's format, the extension .toml, a client's folder, a manifest, and the
// ending .prompt.md. file is an absolute path, because a client's folder may be above the root.
// below is the name if the path contains no folder of commands. manifest returns the format of a
// folder with a manifest.
func signOf(file, below string, explicit config.FileFormat, manifest func(folder string) config.FileFormat) (s sign) {
	isTOML := path.Ext(file) == ".toml"
	if path.Base(file) == wire.SkillFile { // in any format
		return sign{config.FormatSkill, strings.Trim(path.Base(path.Dir(file)), "/.")}
	}
	s.name = below
	if at := max(strings.LastIndex(file, "/commands/"), strings.LastIndex(file, "/command/")); at >= 0 {
		_, s.name, _ = strings.Cut(file[at+1:], "/")
		s.format = manifest(path.Dir(file[:at+1]))
	}
	for _, f := range clientFolders {
		if at := strings.LastIndex(file, f.folder); at >= 0 && isTOML == (f.format == config.FormatGemini) {
			s = sign{f.format, file[at+len(f.folder):]}
		}
	}
	switch {
	case explicit != "":
		s.format = explicit
	case isTOML:
		s.format = config.FormatGemini
	case s.format == "" && strings.HasSuffix(file, ".prompt.md"):
		s.format = config.FormatVSCode
	}
	return s
}

var (
	claudeKey   = lazily(`(?m)^(?:allowed-tools|argument-hint|disable-model-invocation|user-invocable|when_to_use)[ \t]*:`)
	opencodeKey = lazily(`(?m)^subtask[ \t]*:`)
	vscodeKey   = lazily(`(?m)^(?:mode|applyTo)[ \t]*:`)
	nativeKey   = lazily(`(?m)^(?:icons|_meta)[ \t]*:|^arguments[ \t]*:\s*\[?\s*(?:\{|-[ \t]+\w+[ \t]*:)`)
	titleKey    = lazily(`(?m)^title[ \t]*:`)
	nativeText  = lazily(`(?m)^## (?:user|assistant)[ \t\r]*$|\{\{[ \t]*>`)
	claudeText  = lazily(`\$ARGUMENTS\b`)
	vscodeText  = lazily(`\$\{input:`)
)

// formatIn returns the format of a document, judging by keys and placeholders that belong to only
// one format. Without such a key or placeholder, it is this project's format.
func formatIn(d *document) config.FileFormat {
	switch {
	case nativeKey().MatchString(d.front) || nativeText().MatchString(d.text):
		return config.FormatNative
	case claudeKey().MatchString(d.front):
		return config.FormatClaude
	case opencodeKey().MatchString(d.front):
		return config.FormatOpenCode
	case vscodeKey().MatchString(d.front) || vscodeText().MatchString(d.text):
		return config.FormatVSCode
	case claudeText().MatchString(d.text) && !titleKey().MatchString(d.front):
		return config.FormatClaude
	}
	return config.FormatNative
}

// isForeign reports whether the format is the format of a client, rather than this project's.
func (s sign) isForeign() bool { return s.format != "" && s.format != config.FormatNative }

// rename returns a remedy that says how to give the prompt another name.
func (s sign) rename() string {
	switch s.format {
	case config.FormatSkill:
		return "rename its folder"
	case config.FormatNative, config.FormatVSCode, config.FormatOpenCode:
		return "set another name in the front matter"
	}
	return "rename the file"
}

func noManifest(string) config.FileFormat { return "" }

// key returns the key of a file in a block.
func (p *pass) key(b *block, file string) entryKey {
	below := path.Base(file)
	if b.upstream.Format != "" {
		within, folder := belowPattern(b.upstream.Files, file)
		below = strings.TrimPrefix(within, folder+"/")
	}
	root := filepath.ToSlash(p.root)
	return entryKey{file, b.upstream.Texts, signOf(path.Join(root, file), below, b.upstream.Format, func(folder string) config.FileFormat {
		for ; folder == root || strings.HasPrefix(folder, root+"/"); folder = path.Dir(folder) {
			if format := p.manifest(strings.TrimPrefix(folder[len(root):], "/")); format != "" {
				return format
			}
		}
		return ""
	})}
}

// manifest returns the format of the manifest in a folder, or "" if the folder has no manifest.
func (p *pass) manifest(folder string) config.FileFormat {
	format, known := p.manifests[folder]
	for i := 0; !known && i < len(manifestFiles); i++ {
		if _, err := p.opener.within.Stat(filepath.Join(filepath.FromSlash(folder), manifestFiles[i].file)); err == nil {
			format, known = manifestFiles[i].format, true
		}
	}
	p.manifests[folder] = format
	return format
}
