package syncdir

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.mau.fi/util/exslices"
)

// Target is a client, with the folder and the format of its files.
type Target struct {
	// Name is the value of the flag --to, Title the name for people.
	Name, Title string
	// home is the client's folder below the user's home folder. If variable is not nil and returns a path,
	// that path replaces the folder. If home is empty, the folder is [os.UserConfigDir]. within is the path
	// of the prompts below the client's folder, with slashes.
	home, within string
	variable     func() string
	// suffix follows the prompt's name in the path of its file. If it begins with a slash, each prompt has a
	// folder.
	suffix string
	// compose returns the content of a prompt's file. head is the header comment, text the rendered text.
	compose func(p *Prompt, head, text string) string
	// place returns the placeholder of an argument; next is the text after it. If place is nil or returns "",
	// the file contains the argument's name in ⟨⟩, and people type the value after the command.
	place func(p *Prompt, names []string, argument int, next string) string
	// escape escapes placeholders in a text; ok is false if the format cannot escape one of them. It is nil
	// for formats that need no escapes.
	escape func(p *Prompt, names []string, text string) (escaped string, ok bool)
	// live is the syntax that the format cannot escape. In the searched text, gapMark stands for each
	// argument.
	live []live
}

// live is syntax in a text that a client interprets. find reports whether a text has it. does is the effect,
// to follow the client's title in messages.
type live struct {
	find func(text string) bool
	does string
}

func matches(pattern string) func(string) bool { return regexp.MustCompile(pattern).MatchString }

// gapMark stands for an argument, whose value may be empty. render refuses texts that contain it.
const gapMark = "\x00"

// Targets are the supported clients, in the order in which messages list them.
//
//nolint:gochecknoglobals // a constant table
var Targets = []Target{
	{
		// As observed in Claude Code 2.1.330: it fills in arguments before it looks for commands, so the text
		// around an empty argument may become a command.
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
		// As observed in Codex 0.169: skills have replaced custom prompts, and their text is
		// literal.
		Name: "codex", Title: "Codex", variable: func() string { return os.Getenv("CODEX_HOME") }, home: ".codex", within: "skills",
		suffix: "/SKILL.md", compose: composeSkill,
	},
	{
		// From the source of FileCommandLoader and its processors in Gemini CLI 0.61.
		Name: "gemini", Title: "Gemini CLI", home: ".gemini", within: "commands",
		suffix: ".toml", compose: composeTOML, place: geminiPlace,
		live: []live{
			{matches("!\x00*[{\x00]"), "runs a command"},
			{matches("@\x00*[{\x00]"), "reads a file"},
			{matches(`\{\{args\}\}`), "inserts what people type"},
		},
	},
	{
		// From the documentation: Cursor has no placeholders.
		Name: "cursor", Title: "Cursor", home: ".cursor", within: "commands",
		suffix: ".md", compose: composeMarkdown,
		live: []live{{matches(`(^|[^!-~])@[^ \t\r\n]`), "reads a file"}},
	},
	{
		// From the source of promptFileParser.ts and the documentation of variables.
		Name: "vscode", Title: "VS Code", within: "Code/User/prompts",
		suffix: ".prompt.md", compose: composeMarkdown, place: vscodePlace,
		live: []live{
			{matches("\\$\x00*\\{\x00*(input:|file|selection|selectedText|workspaceFolder)"), "fills in a value"},
			{matches(`(?i)#(file|folder|tool|sym|codebase|selection|changes|fetch|githubRepo)\b`), "finds a file or tool"},
			{hasLocalLink, "reads a linked file"},
		},
	},
}

// Names returns the names of all targets.
func Names() []string {
	return exslices.CastFunc(Targets, func(t Target) string { return t.Name })
}

// folder returns the client's base folder, and the path of the prompts below it. Only the base folder may be
// or contain links, see openFolder.
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

// claudePlace returns the placeholder of one word, by the argument's name. Claude Code replaces a name by
// nothing if people omit the word. If the prompt has a single argument, claudePlace returns the placeholder of
// all words.
func claudePlace(p *Prompt, names []string, argument int, next string) string {
	switch {
	case len(p.Arguments) == 1:
		return "$ARGUMENTS"
	// Use the number: the following text would become a part of the name.
	case next != "" && (next[0] == '[' || isWordByte(next[0])):
		return "$ARGUMENTS[" + strconv.Itoa(argument) + "]"
	}
	return "$" + names[argument]
}

// claudeEscape puts a backslash before text that looks like a placeholder. If the text already has
// a backslash there, it cannot be escaped.
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

// isPlaceholder reports whether a text after a dollar sign begins like a placeholder of Claude Code.
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

// geminiPlace returns Gemini CLI's only placeholder, which stands for all that people type after the command.
// It returns "" unless the prompt has exactly one argument.
func geminiPlace(p *Prompt, _ []string, _ int, _ string) string {
	if len(p.Arguments) != 1 {
		return ""
	}
	return "{{args}}"
}

// vscodePlace returns a placeholder for which VS Code asks people for a value.
func vscodePlace(p *Prompt, names []string, argument int, _ string) string {
	label := strings.Trim(notInLabel.ReplaceAllString(p.Arguments[argument], " "), " ")
	if label == "" || label == names[argument] {
		return "${input:" + names[argument] + "}"
	}
	return "${input:" + names[argument] + ":" + label + "}"
}

var (
	notInLabel = regexp.MustCompile(`[^\pL\pN ._-]+`)
	inLink     = regexp.MustCompile(`\]\(([^)\n]+)`)
	isRemote   = regexp.MustCompile(`^(?i:https?://|mailto:|#)`)
)

// hasLocalLink reports whether a text has a Markdown link to something other than an http, https or mailto
// URL or an anchor.
func hasLocalLink(text string) bool {
	return slices.ContainsFunc(inLink.FindAllStringSubmatch(text, -1), func(found []string) bool { return !isRemote.MatchString(found[1]) })
}
