package files

import (
	"errors"
	"iter"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// custom is how a client other than Claude Code reads its custom commands, by that client's sources.
// People type a command line behind a command:
//
//	.codex/prompts       $1 to $9, $ARGUMENTS; or $NAME, each a required argument. Without any, the line has no effect
//	.opencode/command    $1 and on, $ARGUMENTS; the highest number gets the rest of the line
//	.cursor/commands     no placeholders
//	.gemini/commands     TOML; {{args}}
//
// In all but the first, the line follows a text without placeholders.
type custom struct {
	folder, ext string
	// separator stands between folders in a command's name.
	separator string
	// placeholder finds what gets a value: its first group is the number of a word, its second a
	// name. It is nil where there are none.
	placeholder func() *regexp.Regexp
	// shell and mention find what only the client can put in.
	shell, mention func() *regexp.Regexp
	// takesRest means that the highest number gets the rest of the line, and follows that the line
	// follows a text without placeholders.
	takesRest, follows bool
}

// maxTOML bounds a file of TOML, in bytes: its parser calls itself for each level of nesting.
const maxTOML = 64 << 10

var (
	// $$ is matched so that what follows it begins no placeholder: it is text.
	codexWord    = lazily(`\$\$|\$(?:([1-9])|([A-Z][A-Z0-9_]*))`)
	opencodeWord = lazily(`\$(?:(\d+)|(ARGUMENTS))`)
	// The first group matches nothing: Gemini CLI knows no numbers of words.
	geminiWord = lazily(`\{\{()?(args)\}\}`)
	// Each of these begins what may go on for lines.
	opencodeShell = lazily("!`[^`]")
	geminiShell   = lazily(`!\{`)
	geminiFile    = lazily(`@\{`)
	promptKey     = lazily(`(?m)^[ \t]*["']?prompt["']?[ \t]*=[ \t]*(?:(?:"""|''')\r?\n)?`)
)

// customs has the formats of custom commands.
var customs = []custom{ //nolint:gochecknoglobals // a constant table
	{
		folder: "/.codex/prompts/", ext: ".md", separator: "/",
		placeholder: codexWord, shell: shellLine, mention: fileMention,
	},
	{
		folder: "/.opencode/command/", ext: ".md", separator: "/",
		placeholder: opencodeWord, shell: opencodeShell, mention: fileMention, takesRest: true, follows: true,
	},
	{
		folder: "/.opencode/commands/", ext: ".md", separator: "/",
		placeholder: opencodeWord, shell: opencodeShell, mention: fileMention, takesRest: true, follows: true,
	},
	{folder: "/.cursor/commands/", ext: ".md", separator: "/", mention: fileMention, follows: true},
	{
		folder: "/.gemini/commands/", ext: ".toml", separator: ":",
		placeholder: geminiWord, shell: geminiShell, mention: geminiFile, follows: true,
	},
}

// customOf returns the format of a file by its path, nil for none.
func customOf(file string) *custom {
	for i := range customs {
		if c := &customs[i]; path.Ext(file) == c.ext && strings.Contains("/"+file, c.folder) {
			return c
		}
	}
	return nil
}

// custom reads a custom command.
func (p *parser) custom(d *document) error {
	c := customOf(p.path)
	_, below, _ := strings.Cut("/"+p.path, c.folder)
	p.name = strings.ReplaceAll(strings.TrimSuffix(below, c.ext), "/", c.separator)
	var hint string
	if c.ext == ".toml" {
		toml, err := p.toml(d)
		if err != nil {
			return err
		}
		d = toml
	} else {
		p.foreignFront(d.front, map[string]func(field) error{"description": setText(&p.description), "argument-hint": setHint(&hint)})
	}
	if p.description == "" {
		p.description = firstLine(d.text)
	}
	words := p.declareCustom(c, d.text, hint)
	foreignLines(d, func(text string, line int) { words.line(p, text, line) })
	if p.text.end(); len(p.text.messages) == 1 && c.follows && !words.any {
		last, before := &p.text.messages[0], "\n\n"
		if c.ext == ".toml" { // Gemini CLI adds all that was typed
			before += "/" + p.name + " "
		}
		last.pieces = append(last.pieces, piece{gap: gap{word: restOfLine, isSet: true, missing: before}})
	}
	return nil
}

// toml reads a file of TOML as the document that it stands for.
func (p *parser) toml(d *document) (*document, error) {
	if len(d.content) > maxTOML {
		return nil, wrong(0, "it is larger than %d bytes; shorten it", maxTOML)
	}
	var command struct {
		Prompt      any `toml:"prompt"`
		Description any `toml:"description"`
	}
	if err := toml.Unmarshal([]byte(d.content), &command); err != nil {
		line := 1
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ = at.Position()
		}
		return nil, wrong(line, "the file is not TOML: %v", err)
	}
	text, isText := command.Prompt.(string)
	description, isDescription := command.Description.(string)
	switch {
	case command.Prompt != nil && !isText:
		return nil, wrong(0, "prompt is not a string; write it like prompt = \"\"\"TEXT\"\"\"")
	case command.Description != nil && !isDescription:
		return nil, wrong(0, "description is not a string; write it like description = \"TEXT\"")
	case strings.TrimSpace(text) == "":
		return nil, wrong(0, "it has no text; write it like prompt = \"\"\"TEXT\"\"\"")
	}
	p.description = description
	read := &document{content: d.content, text: text, line: 1}
	if at := promptKey().FindStringIndex(d.content); at != nil {
		read.line += strings.Count(d.content[:at[1]], "\n")
	}
	return read, nil
}

// customWords is what the placeholders of a text stand for.
type customWords struct {
	*custom

	// named means that each name is an argument of its own, and any that there are placeholders.
	named, any bool
	highest    int
}

// declareCustom declares the arguments of a text: its names, else one for each word that the hint
// names where these are all that it needs, else one for the whole line.
func (p *parser) declareCustom(c *custom, text, hint string) customWords {
	words, all := customWords{custom: c}, false
	for found := range c.placeholders(text) {
		switch name := found.name; {
		case name == "ARGUMENTS" || name == "args":
			all = true
		case name != "":
			words.named = true
			if p.arguments.find(name) < 0 && len(p.arguments.list) < maxArguments {
				p.arguments.declare(argument{name: name, required: true}, "", "", nil)
			}
		default:
			words.highest = max(words.highest, found.word)
		}
	}
	words.any = all || words.named || words.highest > 0
	switch named := namesIn(hint); {
	// Names are declared by now, and a line that nothing gets needs no argument.
	case words.named || !words.any && !c.follows:
	case !all && words.highest > 0 && words.highest <= len(named):
		for _, name := range named {
			p.arguments.declare(argument{name: name}, "", "", nil)
		}
	default:
		p.arguments.declare(argument{name: "arguments"}, "", hint, nil)
		p.isLine = true
	}
	return words
}

// line reads the placeholders of a line, and reports what only the client can put in.
func (w customWords) line(p *parser, text string, number int) {
	at := 0
	for m := range w.placeholders(text) {
		g, ok := w.gap(p, m)
		if !ok {
			continue
		}
		p.text.add(text[at:m.start])
		p.text.gap(g)
		at = m.end
	}
	p.text.add(text[at:])
	p.reportForeign(text, number, w.shell, w.mention)
}

// gap returns the gap of a placeholder; it is not ok for text.
func (w customWords) gap(p *parser, found customMention) (g gap, ok bool) {
	switch index := p.arguments.find(found.name); {
	case w.named && found.name != "" && index >= 0:
		return gap{argument: int16(index)}, true //nolint:gosec // at most maxArguments
	case w.named:
		return gap{}, false
	case found.name != "":
		return gap{word: allWords}, true
	}
	return gap{word: int16(found.word), takesRest: w.takesRest && found.word == w.highest}, found.word > 0 //nolint:gosec // at most maxWords
}

// customMention is a placeholder in a text: a name, or the number of a word; without either it is
// text.
type customMention struct {
	start, end int
	name       string
	word       int
}

// placeholders yields the placeholders of a text. They are not collected, since each would take many
// times the memory of its text.
func (c *custom) placeholders(text string) iter.Seq[customMention] {
	return func(yield func(customMention) bool) {
		if c.placeholder == nil {
			return
		}
		for at := 0; ; {
			found := c.placeholder().FindStringSubmatchIndex(text[at:])
			if found == nil {
				return
			}
			m := customMention{start: at + found[0], end: at + found[1]}
			if found[2] >= 0 {
				if number, err := strconv.Atoi(text[at+found[2] : at+found[3]]); err == nil && number <= maxWords {
					m.word = number
				}
			}
			if found[4] >= 0 {
				m.name = text[at+found[4] : at+found[5]]
			}
			if at = m.end; !yield(m) {
				return
			}
		}
	}
}
