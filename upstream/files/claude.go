package files

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxWords bounds the word number in a placeholder such as $3, so that a price such as $200 is not
// a placeholder.
const maxWords = 100

// maxHint bounds, in bytes, a hint whose words become arguments.
const maxHint = 1000

var (
	shellLine   = lazily("!`[^`\n]+`")
	fileMention = lazily(`(?:^|[\s(])@([\w~.-]*[/.][\w./-]+)(\()?`)
	clientValue = lazily(`\$\{CLAUDE_\w+\}`)
	hintWord    = lazily(`\[[^\]]*\]|<[^>]*>|[^\s\[<]+`)
	// byPosition matches $ARGUMENTS, $ARGUMENTS[0] or $0, without the dollar sign.
	byPosition = lazily(`^(?:ARGUMENTS(?:\[(\d+)\])?|(\d+)\b)`)
)

// command reads a custom slash command of Claude Code.
func (p *parser) command(d *document) error {
	// Claude Code shows the command fix.md in the folder git as git:fix.
	p.name = strings.ReplaceAll(strings.TrimSuffix(p.sign.name, ".md"), "/", ":")
	return (&claude{prompt: p}).read(d, map[string]func(field) error{})
}

// skillPrompt reads a SKILL.md of Agent Skills, which is also a command in Claude Code. The prompt
// has the name of the skill's folder.
func (p *parser) skillPrompt(d *document) error {
	p.name = cmp.Or(strings.TrimSuffix(path.Base(p.sign.name), ".md"), "skill")
	if err := (&claude{prompt: p}).read(d, map[string]func(field) error{"name": setText(&p.title)}); err != nil {
		return err
	}
	if p.title == p.name {
		p.title = ""
	}
	return nil
}

// claude reads a command or a skill as Claude Code 2.1 does, according to its documentation (code.claude.com/docs/en/skills) and to
// experiments:
//
//	$ARGUMENTS                 the text after the command, as people type it
//	$ARGUMENTS[0], $0, $1 …    a word of that text, counted from 0; the placeholder stays if the word is missing
//	$issue                     a word by a name from the field arguments; empty if the word is missing
//	\$1                        $1 as text
//
// If no placeholder receives a part of the command line, the line follows the text.
type claude struct {
	prompt *parser
	// names are the names that the front matter gives to the words of the command line. Each name
	// is an argument. If isLine is true, the whole line is one argument instead, and the names are
	// only for placeholders in the text.
	names  []string
	isLine bool
}

// read reads a file. setters are for fields of the front matter that only commands or only skills
// have.
func (c *claude) read(d *document, setters map[string]func(field) error) error {
	p := c.prompt
	var hint, whenToUse string
	isInvocable := true
	setters["when_to_use"], setters["user-invocable"] = setText(&whenToUse), setBool(&isInvocable)
	setters["description"], setters["argument-hint"] = setText(&p.description), setHint(&hint)
	setters["arguments"] = setWords(&c.names)
	// This field has no effect in a prompt, because only people choose prompts.
	setters["disable-model-invocation"] = func(field) error { return nil }
	p.foreignFront(d.front, setters)
	if p.isWithheld = !isInvocable; p.description == "" {
		p.description = firstLine(d.text)
	}
	if whenToUse != "" {
		p.description += " - " + whenToUse
	}
	c.checkNames()
	all := c.declareWords(d, hint)
	p.foreignLines(d, c.line)
	if !all {
		p.follow(gap{word: restOfLine})
	}
	return nil
}

// checkNames removes the names after the first maxWords, and sets isLine if a name cannot be an
// argument.
func (c *claude) checkNames() {
	if len(c.names) > maxWords {
		c.prompt.unserved(1, "arguments: names after the first %d have no effect", maxWords)
		c.names = c.names[:maxWords]
	}
	for i, name := range c.names {
		if !isArgumentName(name) || slices.Contains(c.names[:i], name) {
			c.prompt.unserved(1, "arguments: %q cannot name an argument, so the whole line is one: write "+
				"unique names of letters, digits, - and _, with blanks between them", wire.Clip(name, maxQuoted))
			c.isLine = true
			return
		}
	}
}

func isArgumentName(name string) bool {
	return name != "" && strings.Trim(name, "0123456789") != "" && name == wordOf(name)
}

// declareWords declares an argument for each named word. The names come from the front matter, or
// otherwise from the hint, if the hint covers all words that the text uses. Without names, it
// declares one argument for the whole line. It reports whether the text contains the whole line.
func (c *claude) declareWords(d *document, hint string) (all bool) {
	p, names := c.prompt, c.names
	first, last, lines := maxWords, -1, 0
	for _, m := range placeholders(d.text, names) {
		switch index := m.word - 1; {
		case m.word == allWords:
			all = true
		case m.word > 0 && !m.isName:
			if last = max(last, index); index < first {
				first, lines = index, strings.Count(d.text[:m.start], "\n")
			}
		}
	}
	if len(names) == 0 && last >= first && first > 0 {
		p.report.doubtful(p.path, d.line+lines, "Word by its number", "$%d is word number %d: Claude Code counts from $0, where it used to "+
			"count from $1; write $0 for the first word, or \\$%d if text is meant", first, first+1, first)
	}
	if named := namesIn(hint); len(names) == 0 && !all && last >= 0 && last < len(named) {
		names = named
	}
	for _, name := range names {
		if !c.isLine {
			p.arguments.declare(argument{name: name}, "", "", nil)
		}
	}
	if len(names) == 0 || c.isLine {
		p.arguments.declare(argument{name: "arguments"}, "", hint, nil)
		p.isLine = true
	}
	return all
}

// mention is a placeholder in a text. A backslash may escape it.
type mention struct {
	start, end int
	// text is the placeholder without the escape. word has the meaning of [gap.word], or is 0 if
	// the placeholder is escaped.
	text   string
	word   int
	isName bool
}

// addGaps adds a text to the prompt, with gaps in place of the found placeholders.
func (p *parser) addGaps(text string, found []mention, gapOf func(mention) gap) {
	at := 0
	for _, m := range found {
		p.text.add(text[at:m.start])
		if at = m.end; m.word == 0 {
			p.text.add(m.text)
		} else {
			p.text.gap(gapOf(m))
		}
	}
	p.text.add(text[at:])
}

// placeholders finds the placeholders of a text.
func placeholders(text string, names []string) (found []mention) {
	for start := 0; ; start++ {
		next := strings.IndexByte(text[start:], '$')
		if next < 0 {
			return found
		}
		start += next
		size, word, isName := placeholder(text[start+1:], names)
		if size == 0 {
			continue
		}
		m := mention{start, start + 1 + size, text[start : start+1+size], word, isName}
		// One backslash escapes the placeholder. Two backslashes are text before the placeholder's
		// value.
		if before := text[:start]; strings.HasSuffix(before, `\`) && !strings.HasSuffix(before, `\\`) {
			m.start, m.word = start-1, 0
		}
		found, start = append(found, m), m.end-1
	}
}

// placeholder returns the length of the placeholder at the beginning of a text, without its dollar
// sign, and its word. The length is 0 if there is no placeholder. isName is true for a placeholder
// by name.
func placeholder(text string, names []string) (size, word int, isName bool) {
	for i, name := range names {
		rest, ok := strings.CutPrefix(text, name)
		if ok && len(name) > size && !strings.Contains(name, "$") && (rest == "" || rest[0] != '[' && !isWordByte(rest[0])) {
			size, word = len(name), i+1
		}
	}
	if size > 0 || text == "" || !isWordByte(text[0]) {
		return size, word, size > 0
	}
	// Search only in the length of the longest placeholder: otherwise a line of dollar signs would
	// take quadratic time.
	found := byPosition().FindStringSubmatch(text[:min(len(text), maxPlaceholder)])
	if found == nil {
		return 0, 0, false
	}
	number := found[1] + found[2]
	if number == "" {
		return len("ARGUMENTS"), allWords, false
	}
	index, err := strconv.Atoi(number)
	if err != nil || index >= maxWords {
		return 0, 0, false
	}
	return len(found[0]), index + 1, false
}

// maxPlaceholder bounds the length of ARGUMENTS with any valid index, in bytes.
const maxPlaceholder = 64

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// line adds a line with gaps for its placeholders, and reports syntax that only Claude Code can
// replace.
func (c *claude) line(text string, number int) {
	p := c.prompt
	p.addGaps(text, placeholders(text, c.names), func(m mention) gap {
		switch {
		case m.word == allWords && p.isLine:
			return gap{}
		case m.word != allWords && !m.isName:
			return gap{word: int16(m.word), missing: strings.Clone(m.text)} //nolint:gosec // at most maxWords
		}
		return gap{word: int16(m.word)} //nolint:gosec // at most maxWords
	})
	p.reportForeign(text, number, shellLine, nil)
	if found := clientValue().FindString(text); found != "" {
		p.unserved(number, "only Claude Code has a value for %s: the text keeps the name", found)
	}
}

// setHint returns a setter for an argument-hint, which YAML may read as a list or a map.
func setHint(dst *string) func(field) error {
	return func(f field) error {
		if f.value.Kind == yaml.ScalarNode {
			return setText(dst)(f)
		}
		var words []string
		if err := setTexts(&words)(f); err == nil {
			*dst = "[" + strings.Join(words, ", ") + "]"
		}
		return nil
	}
}

// setWords returns a setter for a list of words, or for one text of words. Numbers and maps are
// ignored, as in Claude Code.
func setWords(dst *[]string) func(field) error {
	return func(f field) error {
		words := strings.Fields(f.value.Value)
		for _, element := range f.value.Content {
			if f.value.Kind == yaml.SequenceNode {
				words = append(words, element.Value)
			}
		}
		for _, word := range words {
			if strings.Trim(word, "0123456789 ") != "" {
				*dst = append(*dst, word)
			}
		}
		return nil
	}
}

// namesIn returns the argument names in a hint such as "[number] <priority>". It returns nil unless
// the hint gives each argument a different name.
func namesIn(hint string) (names []string) {
	// A hint with alternatives, such as "a|b", names no arguments. A long hint would take quadratic
	// time, because the search for the end of each bracket may read the whole hint.
	if strings.Contains(hint, "|") || len(hint) > maxHint {
		return nil
	}
	for _, word := range hintWord().FindAllString(hint, maxWords) {
		name := wordOf(word)
		if name == "" || slices.Contains(names, name) {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// wordOf returns a word as an argument name: it replaces each run of characters other than letters,
// digits, - and _ by a hyphen, except at both ends.
func wordOf(word string) string {
	parts := strings.FieldsFunc(word, func(r rune) bool { return r != '-' && (r > 127 || !isWordByte(byte(r))) })
	return strings.Trim(strings.Join(parts, "-"), "-")
}
