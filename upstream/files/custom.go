package files

import (
	"crypto/sha256"
	"errors"
	"iter"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/promptweir/promptweir/config"
)

// custom is how a client other than Claude Code reads its custom commands, by that client's sources.
// People type a command line behind a command:
//
//	OpenCode      $1 and on, $ARGUMENTS; the highest number gets the rest of the line
//	Cursor        no placeholders
//	Gemini CLI    TOML; {{args}}
//
// The line follows a text without placeholders.
type custom struct {
	// separator stands between folders in a command's name.
	separator string
	// placeholder finds what gets a value: its first group is the number of a word, its second
	// the whole line. It is nil where there are none.
	placeholder func() *regexp.Regexp
	// shell and mention find what only the client can put in; without mention, that is @FILE.
	shell, mention func() *regexp.Regexp
	// takesRest means that the highest number gets the rest of the line.
	takesRest bool
}

// maxTOML bounds a file of TOML, in bytes: its parser calls itself for each level of nesting.
const maxTOML = 64 << 10

var (
	opencodeWord = lazily(`\$(?:(\d+)|(ARGUMENTS))`)
	// The first group matches nothing: Gemini CLI knows no numbers of words.
	geminiWord = lazily(`\{\{()?(args)\}\}`)
	// Each of these begins what may go on for lines.
	opencodeShell = lazily("!`[^`]")
	geminiShell   = lazily(`!\{`)
	geminiFile    = lazily(`@\{`)
	promptKey     = lazily(`(?m)^[ \t]*["']?prompt["']?[ \t]*=[ \t]*(?:(?:"""|''')\r?\n)?`)
)

// customs are the formats of custom commands.
var customs = map[config.FileFormat]*custom{ //nolint:gochecknoglobals // a constant table
	config.FormatOpenCode: {separator: "/", placeholder: opencodeWord, shell: opencodeShell, takesRest: true},
	config.FormatCursor:   {separator: "/"},
	config.FormatGemini:   {separator: ":", placeholder: geminiWord, shell: geminiShell, mention: geminiFile},
}

// custom reads a custom command.
func (p *parser) custom(d *document) error {
	c, isTOML := customs[p.sign.format], p.sign.format == config.FormatGemini
	p.name = strings.ReplaceAll(strings.TrimSuffix(p.sign.name, path.Ext(p.path)), "/", c.separator)
	var hint string
	if isTOML {
		toml, err := p.toml(d)
		if err != nil {
			return err
		}
		d, p.body = toml, sha256.Sum256([]byte(strings.TrimSpace(toml.text)))
	} else {
		setters := map[string]func(field) error{"description": setText(&p.description), "argument-hint": setHint(&hint)}
		if p.sign.format == config.FormatOpenCode {
			setters["name"] = setText(&p.name)
		}
		p.foreignFront(d.front, setters)
	}
	if p.description == "" {
		p.description = firstLine(d.text)
	}
	words := p.declareCustom(c, d.text, hint)
	p.foreignLines(d, func(text string, line int) { words.line(p, text, line) })
	if !words.any {
		before := "\n\n"
		if isTOML { // Gemini CLI adds all that was typed
			before += "/" + p.name + " "
		}
		p.follow(gap{word: restOfLine, missing: before})
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

	any     bool // there are placeholders
	highest int
}

// declareCustom declares the arguments of a text: one for each word that the hint names if these are
// all that it needs, otherwise one for the whole line.
func (p *parser) declareCustom(c *custom, text, hint string) customWords {
	words, all := customWords{custom: c}, false
	for found := range c.placeholders(text) {
		all, words.highest = all || found.isLine, max(words.highest, found.word)
	}
	words.any = all || words.highest > 0
	if named := namesIn(hint); !all && words.highest > 0 && words.highest <= len(named) {
		for _, name := range named {
			p.arguments.declare(argument{name: name}, "", "", nil)
		}
		return words
	}
	p.arguments.declare(argument{name: "arguments"}, "", hint, nil)
	p.isLine = true
	return words
}

// line reads the placeholders of a line, and reports what only the client can put in.
func (w customWords) line(p *parser, text string, number int) {
	at := 0
	for m := range w.placeholders(text) {
		g := gap{word: allWords}
		if !m.isLine {
			g = gap{word: int16(m.word), takesRest: w.takesRest && m.word == w.highest} //nolint:gosec // at most maxWords
		}
		if g.word != 0 {
			p.text.add(text[at:m.start])
			p.text.gap(g)
			at = m.end
		}
	}
	p.text.add(text[at:])
	p.reportForeign(text, number, w.shell, w.mention)
}

// customMention is a placeholder in a text: the whole line, or the number of a word; without either
// it is text.
type customMention struct {
	start, end int
	isLine     bool
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
			m := customMention{start: at + found[0], end: at + found[1], isLine: found[4] >= 0}
			if found[2] >= 0 {
				if number, err := strconv.Atoi(text[at+found[2] : at+found[3]]); err == nil && number <= maxWords {
					m.word = number
				}
			}
			if at = m.end; !yield(m) {
				return
			}
		}
	}
}
