package syncdir

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Target is a client, and the format of its files.
type Target struct {
	// Name is that of the flag, Title that of the product.
	Name, Title string
	// home is a folder of the user's home, unless the client's variable names another; within is the
	// folder beneath it, with slashes. Without home, that is beneath the folder of settings.
	home, within string
	variable     func() string
	// suffix makes a file's path in the folder of its name.
	suffix string
	// compose writes the file of a prompt whose text is rendered.
	compose func(p *Prompt, head, text string) string
	// place returns what stands for an argument, before a text that begins with next; nil where the
	// format has nothing. The name of an argument in ⟨⟩ is then in the text, beside which people type
	// its value.
	place func(p *Prompt, names []string, argument int, next string) string
	// escape makes a text literal, or is not ok where nothing does; nil where nothing is to be escaped.
	escape func(p *Prompt, names []string, text string) (escaped string, ok bool)
	// live is what the client would run, read or replace and has no way to write as text. In the text
	// that it is looked for, gapMark stands for each argument.
	live []live
}

// live is something in a text that a client does not take for text.
type live struct {
	find func(text string) bool
	does string
}

func matches(pattern string) func(string) bool { return regexp.MustCompile(pattern).MatchString }

// gapMark stands for an argument, which may turn out to be empty. No text has it.
const gapMark = "\x00"

// Targets are the clients in the order in which they are listed.
//
//nolint:gochecknoglobals // a constant table
var Targets = []Target{
	{
		// Read off Claude Code 2.1.330. It fills in arguments before it looks for commands, so that an
		// argument left out can complete one.
		Name: "claude", Title: "Claude Code", variable: func() string { return os.Getenv("CLAUDE_CONFIG_DIR") }, home: ".claude", within: "commands",
		suffix: ".md", compose: composeClaude,
		place: claudePlace, escape: claudeEscape,
		live: []live{
			{matches("(^|[^!-~])!\x00*[`\x00]|`\x00*`\x00*`\x00*[!\x00]"), "runs a command"},
			{matches("(^|[^!-~])@[^ \t\r\n]"), "reads a file"},
			{matches("\\$\x00*\\{\x00*CLAUDE_"), "fills in a value"},
			{matches("\\\\\x00|\x00\\[[0-9]"), "misreads an argument"},
		},
	},
	{
		// Read off Codex 0.169, which has skills in the place of the custom prompts of older ones, and
		// takes their text as it is.
		Name: "codex", Title: "Codex", variable: func() string { return os.Getenv("CODEX_HOME") }, home: ".codex", within: "skills",
		suffix: "/SKILL.md", compose: composeSkill,
	},
	{
		// By the source of FileCommandLoader and its processors in Gemini CLI 0.61.
		Name: "gemini", Title: "Gemini CLI", home: ".gemini", within: "commands",
		suffix: ".toml", compose: composeTOML, place: geminiPlace,
		live: []live{
			{matches("!\x00*[{\x00]"), "runs a command"},
			{matches("@\x00*[{\x00]"), "reads a file"},
			{matches(`\{\{args\}\}`), "inserts what people type"},
		},
	},
	{
		// By documentation: it has no placeholders.
		Name: "cursor", Title: "Cursor", home: ".cursor", within: "commands",
		suffix: ".md", compose: composeMarkdown,
		live: []live{{matches(`(^|[^!-~])@[^ \t\r\n]`), "reads a file"}},
	},
	{
		// By the source of promptFileParser.ts, and the documentation of its variables.
		Name: "vscode", Title: "VS Code", within: "Code/User/prompts",
		suffix: ".prompt.md", compose: composeMarkdown, place: vscodePlace,
		live: []live{
			{
				matches("\\$\x00*\\{\x00*(input:|file|selection|selectedText|workspaceFolder)"),
				"fills in a value",
			},
			{matches(`(?i)#(file|folder|tool|sym|codebase|selection|changes|fetch|githubRepo)\b`), "finds a file or tool"},
			{hasLocalLink, "reads a linked file"},
		},
	},
}

// Names returns the names of all targets.
func Names() (names []string) {
	for _, t := range Targets {
		names = append(names, t.Name)
	}
	return names
}

// folder returns the folder that exists or that the client makes, and the path beneath it.
func (t *Target) folder() (base, within string, err error) {
	if t.home == "" {
		base, err = os.UserConfigDir()
		return base, filepath.FromSlash(t.within), err
	}
	if t.variable != nil {
		if base = t.variable(); base != "" {
			return base, filepath.FromSlash(t.within), nil
		}
	}
	base, err = os.UserHomeDir()
	return base, filepath.Join(t.home, filepath.FromSlash(t.within)), err
}

// claudePlace is a word by its name, which is nothing where the word is left out, or all words where
// there is one argument.
func claudePlace(p *Prompt, names []string, argument int, next string) string {
	switch {
	case len(p.Arguments) == 1:
		return "$ARGUMENTS"
	// The name would run on into what follows.
	case next != "" && (next[0] == '[' || isWordByte(next[0])):
		return "$ARGUMENTS[" + strconv.Itoa(argument) + "]"
	}
	return "$" + names[argument]
}

// claudeEscape puts a backslash before what would be a placeholder. There is no way to write one that
// has a backslash before it.
func claudeEscape(p *Prompt, names []string, text string) (string, bool) {
	var escaped strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		escaped.WriteString(before)
		if !found {
			return escaped.String(), true
		}
		if isPlaceholder(p, names, rest) {
			if strings.HasSuffix(before, `\`) {
				return "", false
			}
			escaped.WriteByte('\\')
		}
		escaped.WriteByte('$')
		text = rest
	}
}

// isPlaceholder reports whether a text after a dollar sign makes both a placeholder of Claude Code.
func isPlaceholder(p *Prompt, names []string, rest string) bool {
	if strings.HasPrefix(rest, "ARGUMENTS") || rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return true
	}
	return len(p.Arguments) > 1 && slices.ContainsFunc(names, func(name string) bool {
		after, ok := strings.CutPrefix(rest, name)
		return ok && (after == "" || after[0] != '[' && !isWordByte(after[0]))
	})
}

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// geminiPlace is all that people type: the format knows no more.
func geminiPlace(p *Prompt, _ []string, _ int, _ string) string {
	if len(p.Arguments) != 1 {
		return ""
	}
	return "{{args}}"
}

// vscodePlace asks for a value.
func vscodePlace(p *Prompt, names []string, argument int, _ string) string {
	shown := strings.Trim(noShown.ReplaceAllString(p.Arguments[argument], " "), " ")
	if shown == "" || shown == names[argument] {
		return "${input:" + names[argument] + "}"
	}
	return "${input:" + names[argument] + ":" + shown + "}"
}

var (
	noShown = regexp.MustCompile(`[^\pL\pN ._-]+`)
	inLink  = regexp.MustCompile(`\]\(([^)\n]+)`)
)

// hasLocalLink reports whether a Markdown link leads to a file.
func hasLocalLink(text string) bool {
	for _, found := range inLink.FindAllStringSubmatch(text, -1) {
		target := strings.ToLower(found[1])
		if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") &&
			!strings.HasPrefix(target, "mailto:") && !strings.HasPrefix(target, "#") {
			return true
		}
	}
	return false
}
