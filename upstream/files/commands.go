package files

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// maxFirstLine bounds a description that is taken from a text, in bytes.
const maxFirstLine = 200

var (
	// placeholder is all arguments of a command, one of them by an index, which is not served, or one of them by its number.
	placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$ARGUMENTS(\[\d*\])?|\$[1-9]`) })
	indexed     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$ARGUMENTS\[\d*\]`) })
	shellLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("!`[^`\n]+`") })
	fileMention = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[\s(])@[\w~.-]*[/.][\w./-]+`) })
	hintWord    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[[^\]]*\]|<[^>]*>|[^\s\[<]+`) })
)

// command reads a custom slash command of Claude Code: $ARGUMENTS is everything that people write after the command, and $1 the
// first word of it.
func (p *parser) command(front, text string, line int) error {
	_, below, _ := strings.Cut("/"+p.path, "/.claude/commands/")
	// As Claude Code shows it: the command fix in the folder git is git:fix.
	p.name = strings.ReplaceAll(strings.TrimSuffix(below, ".md"), "/", ":")
	var hint string
	p.foreignFront(front, map[string]func(field) error{
		"description": setText(&p.description), "argument-hint": setHint(&hint),
		// Only people choose prompts.
		"disable-model-invocation": func(field) error { return nil },
	})
	if p.description == "" {
		p.description = firstLine(text)
	}
	p.commandArguments(text, hint)
	for each := range strings.Lines(text) {
		p.commandLine(each, line)
		line++
	}
	return nil
}

// commandArguments declares the arguments that a command mentions: one for each word or, if it mentions all of them at once, one
// whose words they are.
func (p *parser) commandArguments(text, hint string) {
	var words []int
	all := false
	for _, mention := range mentions(text) {
		switch at := mention.word; {
		case at == 0:
			all = true
		case !slices.Contains(words, at):
			words = append(words, at)
		}
	}
	switch {
	case all:
		p.declare(argument{name: "arguments"}, "", hint, nil)
		return
	case len(words) == 0 && hint != "":
		p.unserved(1, "the argument-hint has no effect, since the text has neither $ARGUMENTS nor $1")
	}
	slices.Sort(words)
	names := namesIn(hint)
	for _, at := range words {
		name := fmt.Sprintf("arg%d", at)
		if at <= len(names) && names[at-1] != "" && p.declared(names[at-1]) < 0 {
			name = names[at-1]
		}
		p.declare(argument{name: name}, "", "", nil)
	}
	p.words = words
}

// mention is a placeholder in a text: of one word by its number, or of all arguments.
type mention struct{ start, end, word int }

// mentions finds the placeholders of a text. A digit after $1 makes it an amount of money, or the like.
func mentions(text string) (found []mention) {
	for _, at := range placeholder().FindAllStringIndex(text, -1) {
		m := mention{start: at[0], end: at[1]}
		isIndexed := text[m.end-1] == ']'
		if m.end-m.start == len("$1") {
			m.word = int(text[m.start+1] - '0')
		}
		if isMoney := m.word > 0 && m.end < len(text) && text[m.end] >= '0' && text[m.end] <= '9'; !isMoney && !isIndexed {
			found = append(found, m)
		}
	}
	return found
}

// commandLine reads the placeholders of a line.
func (p *parser) commandLine(text string, line int) {
	if shellLine().MatchString(text) {
		p.unserved(line, "a prompt runs no commands: the text has the command instead of its output")
	}
	if fileMention().MatchString(text) {
		p.unserved(line, "a prompt brings no files along: the text has the name instead of the content")
	}
	if found := indexed().FindString(text); found != "" {
		p.unserved(line, "%s is text; write $1 for the first word", found)
	}
	at := 0
	for _, m := range mentions(text) {
		p.text(text[at:m.start])
		if at = m.end; len(p.words) > 0 {
			p.gap(slices.Index(p.words, m.word), 0)
		} else {
			p.gap(0, m.word)
		}
	}
	p.text(text[at:])
}

// foreignFront reads the front matter of another product's format. What has no setter is reported. Many such files have values
// that YAML wants in quotes, which those products forgive.
func (p *parser) foreignFront(front string, setters map[string]func(field) error) {
	fields, err := parseFrontMatter(front)
	if err != nil {
		quoted, again := parseFrontMatter(quoteValues(front))
		if again != nil {
			p.unserved(1, "nothing of the front matter counts, since %v", err)
			return
		}
		fields = quoted
	}
	for _, f := range fields {
		err := decode([]field{f}, setters, func(f field) error {
			return wrong(f.line, "%q of the front matter has no place in a prompt", f.name)
		})
		if err != nil {
			p.unserved(f.line, "%v", err)
		}
	}
}

var plainValue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^([A-Za-z][\w-]*):[ \t]+([^"'|>\s].*?)[ \t\r]*$`)
})

// quoteValues puts the values at the top level that have no quotes into quotes.
func quoteValues(front string) string {
	return plainValue().ReplaceAllStringFunc(front, func(line string) string {
		parts := plainValue().FindStringSubmatch(line)
		return parts[1] + `: "` + string(content(parts[2])) + `"`
	})
}

// setHint sets an argument-hint, which looks like a list to YAML.
func setHint(dst *string) func(field) error {
	return func(f field) error {
		if f.value.Kind != yaml.SequenceNode {
			return setText(dst)(f)
		}
		var words []string
		if err := setTexts(&words)(f); err != nil {
			return err
		}
		*dst = "[" + strings.Join(words, ", ") + "]"
		return nil
	}
}

// namesIn returns the names of arguments that a hint such as "[number] <priority>" gives, "" for what is no name.
func namesIn(hint string) (names []string) {
	if strings.Contains(hint, "|") { // alternatives, not arguments
		return nil
	}
	for _, word := range hintWord().FindAllString(hint, -1) {
		name := strings.Join(strings.FieldsFunc(word, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}), "-")
		names = append(names, strings.Trim(name, "-"))
	}
	return names
}

// firstLine returns the first line of a text, without the marks of a heading.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(strings.TrimLeft(line, "# \t")); line != "" {
			if len(line) > maxFirstLine {
				line = strings.ToValidUTF8(line[:maxFirstLine], "") + "…"
			}
			return line
		}
	}
	return ""
}
