package files

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

const (
	// maxFirstLine bounds a description that is taken from a text, in bytes.
	maxFirstLine = 200
	// foreignScans is how often the text of another product's format is examined: once for each
	// expression.
	foreignScans = 6
)

var (
	// placeholder is all arguments of a command, one of them by an index, which is not served, or
	// one of them by its number.
	placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$ARGUMENTS(\[\d*\])?|\$[1-9]`) })
	indexed     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$ARGUMENTS\[\d*\]`) })
	shellLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("!`[^`\n]+`") })
	fileMention = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[\s(])@[\w~.-]*[/.][\w./-]+`) })
	hintWord    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[[^\]]*\]|<[^>]*>|[^\s\[<]+`) })
	// variable is ${input:name}, ${input:name:placeholder}, or what the editor would know.
	variable = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{(input:[^}\n]*|file|fileBasename|fileDirname|fileBasenameNoExtension|selection|selectedText|workspaceFolder|workspaceFolderBasename)\}`)
	})
	reference = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|\s)#(?:file|folder|sym|tool|codebase|selection|changes|fetch|githubRepo)\b[:\w./-]*`)
	})
	link = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\]\(([^()\s]+)\)`) })
)

// command reads a custom slash command of Claude Code: $ARGUMENTS is everything that people write
// after the command, and $1 the first word of it.
func (p *parser) command(d *document) error {
	_, below, _ := strings.Cut("/"+p.path, "/.claude/commands/")
	// As Claude Code shows it: the command fix in the folder git is git:fix.
	p.name = strings.ReplaceAll(strings.TrimSuffix(below, ".md"), "/", ":")
	var hint string
	p.foreignFront(d.front, map[string]func(field) error{
		"description": setText(&p.description), "argument-hint": setHint(&hint),
		// Only people choose prompts.
		"disable-model-invocation": func(field) error { return nil },
	})
	if p.description == "" {
		p.description = firstLine(d.text)
	}
	p.commandArguments(d.text, hint)
	return p.foreignLines(d, p.commandLine)
}

// commandArguments declares the arguments that a command mentions: one for each word or, if it
// mentions all of them at once, one whose words they are.
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
		p.arguments.declare(argument{name: "arguments"}, "", hint, nil)
		return
	case len(words) == 0 && hint != "":
		p.unserved(1, "the argument-hint has no effect, since the text has neither $ARGUMENTS nor $1")
	}
	slices.Sort(words)
	names := namesIn(hint)
	for _, at := range words {
		name := fmt.Sprintf("arg%d", at)
		if at <= len(names) && names[at-1] != "" && p.arguments.find(names[at-1]) < 0 {
			name = names[at-1]
		}
		p.arguments.declare(argument{name: name}, "", "", nil)
	}
	p.words = words
}

// mention is a placeholder in a text: of one word by its number, or of all arguments.
type mention struct{ start, end, word int }

// mentions finds the placeholders of a text. A digit after $1 makes it an amount of money, or the
// like.
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
		p.text.add(text[at:m.start])
		if at = m.end; len(p.words) > 0 {
			p.text.gap(slices.Index(p.words, m.word), 0)
		} else {
			p.text.gap(0, m.word)
		}
	}
	p.text.add(text[at:])
}

// foreignLines reads the text of another product's format.
func (p *parser) foreignLines(d *document, read func(text string, line int)) error {
	if err := p.reader.scan(foreignScans * len(d.content)); err != nil {
		return err
	}
	line := d.line
	for each := range strings.Lines(d.text) {
		read(each, line)
		line++
	}
	return nil
}

// foreignFront reads the front matter of another product's format. What has no setter is reported.
// Many such files have values that YAML wants in quotes, which those products forgive.
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

// namesIn returns the names of arguments that a hint such as "[number] <priority>" gives, "" for
// what is no name.
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

// vscodePrompt reads a prompt file of VS Code: ${input:name:placeholder} asks for a value.
func (p *parser) vscodePrompt(d *document) error {
	p.name = strings.TrimSuffix(path.Base(p.path), ".prompt.md")
	p.foreignFront(d.front, map[string]func(field) error{"name": setText(&p.name), "description": setText(&p.description)})
	return p.foreignLines(d, p.vscodeLine)
}

func (p *parser) vscodeLine(text string, line int) {
	if found := reference().FindString(text); found != "" {
		p.unserved(line, "%s means something only in VS Code: the text has its name", strings.TrimSpace(found))
	}
	at := 0
	for _, found := range variable().FindAllStringSubmatchIndex(text, -1) {
		inner := text[found[2]:found[3]]
		input, isInput := strings.CutPrefix(inner, "input:")
		name, description, _ := strings.Cut(input, ":")
		if name = strings.TrimSpace(name); !isInput || name == "" {
			p.unserved(line, "only the editor knows what ${%s} is: the text has its name", inner)
			continue
		}
		index := p.arguments.find(name)
		if index < 0 && len(p.arguments.list) == maxArguments {
			p.unserved(line, "a prompt has at most %d arguments: ${%s} is text", maxArguments, inner)
			continue
		}
		if index < 0 {
			index = p.arguments.declare(argument{name: name, required: true}, "", description, nil)
		}
		p.text.add(text[at:found[0]])
		p.text.gap(index, 0)
		at = found[1]
	}
	p.text.add(text[at:])
	p.reportLinks(text, line)
}

// reportLinks reports the links to other files of the same folder or project.
func (p *parser) reportLinks(text string, line int) {
	for _, found := range link().FindAllStringSubmatch(text, -1) {
		if target := found[1]; !hasScheme().MatchString(target) && !strings.HasPrefix(target, "#") && !strings.HasPrefix(target, "/") {
			p.unserved(line, "the linked file %s does not go along: people need it from elsewhere", clip(target))
		}
	}
}

// skillPrompt reads a SKILL.md of Agent Skills, whose text becomes one prompt without arguments.
func (p *parser) skillPrompt(d *document) error {
	if p.name = path.Base(path.Dir(p.path)); p.name == "." {
		p.name = "skill"
	}
	p.foreignFront(d.front, map[string]func(field) error{"name": setText(&p.name), "description": setText(&p.description)})
	return p.foreignLines(d, func(each string, line int) {
		p.text.add(each)
		if found := placeholder().FindString(each); strings.HasPrefix(found, "$ARGUMENTS") {
			p.unserved(line, "%s is text: a skill has no arguments", found)
		}
		p.reportLinks(each, line)
	})
}
