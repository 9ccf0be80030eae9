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

// maxWords bounds the words of a command line that a text can name: a price such as $200 is none.
const maxWords = 100

// maxHint bounds a hint whose words are names of arguments, in bytes.
const maxHint = 1000

var (
	shellLine   = lazily("!`[^`\n]+`")
	fileMention = lazily(`(?:^|[\s(])@([\w~.-]*[/.][\w./-]+)(\()?`)
	clientValue = lazily(`\$\{CLAUDE_\w+\}`)
	hintWord    = lazily(`\[[^\]]*\]|<[^>]*>|[^\s\[<]+`)
	// byPosition is $ARGUMENTS, $ARGUMENTS[0] or $0, without the dollar sign.
	byPosition = lazily(`^(?:ARGUMENTS(?:\[(\d+)\])?|(\d+)\b)`)
)

// command reads a custom slash command of Claude Code.
func (p *parser) command(d *document) error {
	// As Claude Code shows it: the command fix in the folder git is git:fix.
	p.name = strings.ReplaceAll(strings.TrimSuffix(p.sign.name, ".md"), "/", ":")
	return (&claude{prompt: p}).read(d, map[string]func(field) error{})
}

// skillPrompt reads a SKILL.md of Agent Skills, which in Claude Code is a command as well. Its name is
// the folder's.
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

// claude reads a command or a skill as Claude Code 2.1 does (code.claude.com/docs/en/skills, and runs
// of it):
//
//	$ARGUMENTS                 all that people write after the command, as it is typed
//	$ARGUMENTS[0], $0, $1 …    a word of that, counted from 0; without such a word, the placeholder stays
//	$issue                     a word by a name in the front matter's arguments; without such a word, nothing
//	\$1                        $1 as text
//
// Where no placeholder gets anything, the command line follows the text.
type claude struct {
	prompt *parser
	// names are those that the front matter gives to the words of the command line. Each is an
	// argument, unless isLine is set: then the line is one, and the names are for the text only.
	names  []string
	isLine bool
}

// read reads a file; setters are for what only one of the two has in its front matter.
func (c *claude) read(d *document, setters map[string]func(field) error) error {
	p := c.prompt
	var hint, whenToUse string
	isInvocable := true
	setters["when_to_use"], setters["user-invocable"] = setText(&whenToUse), setBool(&isInvocable)
	setters["description"], setters["argument-hint"] = setText(&p.description), setHint(&hint)
	setters["arguments"] = setWords(&c.names)
	// Only people choose prompts.
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

// checkNames finds out whether each name can be an argument.
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

// declareWords declares an argument for each word that has a name. Names of a hint count where they
// are all that the text needs. Otherwise there is one argument for the whole line, which follows a
// text without placeholders. It reports whether the text has the whole line.
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

// mention is a placeholder in a text, or one that a backslash makes text.
type mention struct {
	start, end int
	// text is the placeholder, and word what it stands for, see [gap]; 0 where it is text.
	text   string
	word   int
	isName bool
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
		// Only one backslash makes it text: two are two, before a value.
		if before := text[:start]; strings.HasSuffix(before, `\`) && !strings.HasSuffix(before, `\\`) {
			m.start, m.word = start-1, 0
		}
		found, start = append(found, m), m.end-1
	}
}

// placeholder returns how long the placeholder is with which a text begins, without its dollar sign,
// and its word; 0 for none.
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
	// It looks no further than the longest placeholder, or a line of dollar signs is quadratic.
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

// maxPlaceholder is more than the bytes of $ARGUMENTS with any index that there can be.
const maxPlaceholder = 64

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// line reads the placeholders of a line, and reports what only Claude Code can put in.
func (c *claude) line(text string, number int) {
	p, at := c.prompt, 0
	for _, m := range placeholders(text, c.names) {
		p.text.add(text[at:m.start])
		at = m.end
		switch {
		case m.word == 0:
			p.text.add(m.text)
		case m.word != allWords && !m.isName:
			p.text.gap(gap{word: int16(m.word), missing: strings.Clone(m.text)}) //nolint:gosec // at most maxWords
		case m.word == allWords && p.isLine:
			p.text.gap(gap{})
		default:
			p.text.gap(gap{word: int16(m.word)}) //nolint:gosec // at most maxWords
		}
	}
	p.text.add(text[at:])
	p.reportForeign(text, number, shellLine, nil)
	if found := clientValue().FindString(text); found != "" {
		p.unserved(number, "only Claude Code has a value for %s: the text keeps the name", found)
	}
}

// setHint sets an argument-hint, which may look like a list or a map to YAML.
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

// setWords sets a list of words, which may be written as one text. Numbers and maps are no words, as
// in Claude Code.
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

// namesIn returns the names of arguments that a hint such as "[number] <priority>" gives, nil where
// it gives none that could be told apart.
func namesIn(hint string) (names []string) {
	// Alternatives are no arguments, and from each bracket all the rest is looked through for its end.
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

// wordOf makes a name of a word.
func wordOf(word string) string {
	parts := strings.FieldsFunc(word, func(r rune) bool { return r != '-' && (r > 127 || !isWordByte(byte(r))) })
	return strings.Trim(strings.Join(parts, "-"), "-")
}
