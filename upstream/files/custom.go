package files

import (
	"crypto/sha256"
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/promptweir/promptweir/config"
)

// custom describes how a client other than Claude Code reads its custom commands, according to the
// client's source. People type a command line after the command's name:
//
//	OpenCode      $1 and on, $ARGUMENTS; the highest number gets the rest of the line
//	Cursor        no placeholders
//	Gemini CLI    TOML; {{args}}
//
// If the text has no placeholders, the line follows the text.
type custom struct {
	// separator stands between folders in a command's name.
	separator string
	// placeholder matches placeholders. Its first group is the number of a word, its second group the whole line. It is nil for a client
	// without placeholders.
	placeholder func() *regexp.Regexp
	// shell and mention match syntax for commands and files that only the client can replace. If
	// shell is nil, the client runs no commands. If mention is nil, references to files are written
	// @FILE.
	shell, mention func() *regexp.Regexp
	// takesRest is true if the highest number gets the rest of the line.
	takesRest bool
}

// maxTOML bounds a TOML file, in bytes, because the parser recurses at each level of nesting.
const maxTOML = 64 << 10

var (
	opencodeWord = lazily(`\$(?:(\d+)|(ARGUMENTS))`)
	// The first group matches nothing, because Gemini CLI has no numbered words.
	geminiWord = lazily(`\{\{()?(args)\}\}`)
	// These expressions match only the beginning of their syntax, because the syntax may span
	// lines.
	opencodeShell = lazily("!`[^`]")
	geminiShell   = lazily(`!\{`)
	geminiFile    = lazily(`@\{`)
	promptKey     = lazily(`(?m)^[ \t]*["']?prompt["']?[ \t]*=[ \t]*(?:(?:"""|''')\r?\n)?`)
)

// customs contains the formats of custom commands.
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
		if isTOML { // Gemini CLI appends the whole line
			before += "/" + p.name + " "
		}
		p.follow(gap{word: restOfLine, missing: before})
	}
	return nil
}

// toml reads a TOML file. It returns the prompt's text as a document, and sets the prompt's
// description.
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
		return nil, wrong(line, "the file is not TOML, as Gemini CLI's commands are: %v", err)
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

// customWords are the placeholders of a text.
type customWords struct {
	*custom

	any     bool // true if the text has placeholders
	highest int  // the highest word number, or 0 if no placeholder has a number
}

// declareCustom declares the arguments of a text: one for each name in the hint if the hint covers
// all words of the text, otherwise one for the whole line.
func (p *parser) declareCustom(c *custom, text, hint string) customWords {
	words, all := customWords{custom: c}, false
	for _, m := range c.placeholders(text) {
		all, words.highest = all || m.word == allWords, max(words.highest, m.word)
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

// line adds a line with gaps for its placeholders, and reports syntax that only the client can
// replace.
func (w customWords) line(p *parser, text string, number int) {
	p.addGaps(text, w.placeholders(text), func(m mention) gap {
		return gap{word: int16(m.word), takesRest: w.takesRest && m.word == w.highest} //nolint:gosec // at most maxWords
	})
	p.reportForeign(text, number, w.shell, w.mention)
}

// placeholders finds the placeholders of a text. It leaves out numbers below 1 or above maxWords,
// which are text.
func (c *custom) placeholders(text string) (found []mention) {
	if c.placeholder == nil {
		return nil
	}
	for _, at := range c.placeholder().FindAllStringSubmatchIndex(text, -1) {
		m := mention{start: at[0], end: at[1], word: allWords}
		if isLine := at[4] >= 0; !isLine {
			number, err := strconv.Atoi(text[at[2]:at[3]])
			if m.word = number; err != nil || number < 1 || number > maxWords {
				continue
			}
		}
		found = append(found, m)
	}
	return found
}
