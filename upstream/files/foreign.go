package files

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxFirstLine bounds, in bytes, a description that is taken from the text.
const maxFirstLine = 200

var (
	// variable matches ${input:name}, ${input:name:placeholder}, and variables of the editor such
	// as ${file}.
	variable  = lazily(`\$\{(input:[^}\n]*|file|fileBasename|fileDirname|fileBasenameNoExtension|selection|selectedText|workspaceFolder|workspaceFolderBasename)\}`)
	reference = lazily(`(?:^|\s)#(?:file|folder|sym|tool|codebase|selection|changes|fetch|githubRepo)\b[:\w./-]*`)
	link      = lazily(`\]\(([^()\s]+)\)`)
)

// foreignLines calls read for each line of a text in a client's format. It tracks whether a line is
// in a code block.
func (p *parser) foreignLines(d *document, read func(text string, line int)) {
	line := d.line
	for each := range strings.Lines(d.text) {
		if start := strings.TrimLeft(each, " \t"); strings.HasPrefix(start, "```") || strings.HasPrefix(start, "~~~") {
			p.inFence = !p.inFence
		}
		read(each, line)
		line++
	}
}

// keysWithEffect contains the keys that change how the client handles a prompt.
// [parser.foreignFront] reports them as not served.
var keysWithEffect = []string{"agent", "allowed-tools", "context", "hooks", "model"} //nolint:gochecknoglobals // a constant table

// foreignFront reads the front matter of a client's format. It reports invalid fields and fields
// without a setter, and still reads the other fields.
func (p *parser) foreignFront(front string, setters map[string]func(field) error) {
	for _, f := range p.foreignFields(front) {
		if f.value.Tag == "!!null" {
			continue
		}
		err := decode([]field{f}, setters, func(f field) error {
			if !slices.Contains(keysWithEffect, f.name) {
				p.report.harmless(p.path, f.line, f.name)
				return nil
			}
			return wrong(f.line, "%q in the front matter has no effect in a prompt", f.name)
		})
		if err != nil {
			p.unserved(f.line, "%v", err)
		}
	}
}

// foreignFields returns the fields of front matter. If the front matter is not YAML, it reads each
// field separately: many files have tabs, or values without the quotes that YAML requires, and the
// clients accept them.
func (p *parser) foreignFields(front string) []field {
	fields, err := parseFrontMatter(front)
	keys := topKey().FindAllStringSubmatchIndex(front, -1)
	if err == nil || len(keys) == 0 {
		if err != nil {
			p.unserved(1, "the front matter is ignored: %v", err)
		}
		return fields
	}
	seen, line := map[string]bool{}, 2+strings.Count(front[:keys[0][0]], "\n")
	for i, at := range keys {
		name, end := front[at[2]:at[3]], len(front)
		if i+1 < len(keys) {
			end = keys[i+1][0]
		}
		text := front[at[0]:end]
		read, err := parseFrontMatter(text)
		for _, other := range []string{strings.ReplaceAll(text, "\t", "  "), quoteValues(text)} {
			if err != nil {
				read, err = parseFrontMatter(other)
			}
		}
		switch {
		case err != nil:
			p.unserved(line, "%q in the front matter is ignored: %v", name, err)
		case seen[name]:
			p.unserved(line, "%q is in the front matter twice: the first counts", name)
		case len(read) == 1:
			seen[name] = true
			fields = append(fields, field{name, line, read[0].value})
		}
		line += strings.Count(text, "\n")
	}
	return fields
}

// topKey matches the keys at the top level of front matter.
var topKey = lazily(`(?m)^["']?([A-Za-z_][\w-]*)["']?[ \t]*:(?:[ \t\r]|$)`)

var plainValue = lazily(`(?m)^([A-Za-z][\w-]*):[ \t]+([^"'|>\s].*?)[ \t\r]*$`)

// quoteValues puts unquoted values at the top level of front matter into quotes.
func quoteValues(front string) string {
	return plainValue().ReplaceAllStringFunc(front, func(line string) string {
		parts := plainValue().FindStringSubmatch(line)
		return parts[1] + `: "` + string(content(parts[2])) + `"`
	})
}

// firstLine returns the first line of a text that is not blank, without the marks of a heading, cut
// to maxFirstLine.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(strings.TrimLeft(line, "# \t")); line != "" {
			return wire.Clip(line, maxFirstLine)
		}
	}
	return ""
}

// vscodePrompt reads a prompt file of VS Code. ${input:name:placeholder} stands for the value of an
// argument. Without a value, the placeholder stays as text.
func (p *parser) vscodePrompt(d *document) error {
	p.name = strings.TrimSuffix(strings.TrimSuffix(path.Base(p.path), ".md"), ".prompt")
	var hint string
	p.foreignFront(d.front, map[string]func(field) error{
		"name": setText(&p.name), "description": setText(&p.description), "argument-hint": setHint(&hint),
	})
	p.foreignLines(d, p.vscodeLine)
	// Append an argument for the words that people type after the prompt's name: VS Code sends them
	// with the text.
	if p.arguments.find("arguments") < 0 && len(p.arguments.list) < maxArguments {
		index := p.arguments.declare(argument{name: "arguments"}, "", hint, nil)
		p.follow(gap{argument: int16(index), word: behindText, missing: "\n\n"}) //nolint:gosec // at most maxArguments
	}
	return nil
}

// follow adds a gap after the text. If the text is empty, it makes an empty message for the gap,
// because clients also send an empty command.
func (p *parser) follow(g gap) {
	if p.text.end(); len(p.text.messages) == 0 {
		p.text.messages = []message{{role: p.text.role}}
	}
	g.isSet = true
	last := &p.text.messages[0]
	last.pieces = append(last.pieces, piece{gap: g})
}

func (p *parser) vscodeLine(text string, line int) {
	if found := reference().FindString(text); found != "" {
		p.unserved(line, "only VS Code resolves %s: the text keeps the name", strings.TrimSpace(found))
	}
	at := 0
	for _, found := range variable().FindAllStringSubmatchIndex(text, -1) {
		inner := text[found[2]:found[3]]
		input, isInput := strings.CutPrefix(inner, "input:")
		name, description, _ := strings.Cut(input, ":")
		if name = strings.TrimSpace(name); isInput && !isArgumentName(name) {
			continue // VS Code, too, treats it as text
		}
		if !isInput {
			p.unserved(line, "only the editor has a value for ${%s}: the text keeps the name", inner)
			continue
		}
		index := p.arguments.find(name)
		if index < 0 && len(p.arguments.list) == maxArguments {
			p.unserved(line, "a prompt has at most %d arguments: ${%s} is text", maxArguments, inner)
			continue
		}
		if index < 0 {
			index = p.arguments.declare(argument{name: name, fallback: content(text[found[0]:found[1]])}, "", description, nil)
		}
		p.text.add(text[at:found[0]])
		p.text.gap(gap{argument: int16(index)}) //nolint:gosec // at most maxArguments
		at = found[1]
	}
	p.text.add(text[at:])
	p.reportLinks(text, line)
}

// reportForeign reports syntax that only a client can replace. shell matches commands. If it is
// nil, the client runs none. mention matches references to files. If it is nil, these are written
// @FILE.
func (p *parser) reportForeign(text string, line int, shell, mention func() *regexp.Regexp) {
	if shell != nil && shell().MatchString(text) {
		p.unserved(line, "a prompt runs no commands: the text has the command, not its output")
	}
	if mention != nil && mention().MatchString(text) || mention == nil && !p.inFence && mentionsFile(text) {
		p.unserved(line, "a prompt includes no files: the text has the name, not the content")
	}
	p.reportLinks(text, line)
}

// reportLinks records the links of a line to other files of the same folder or project.
func (p *parser) reportLinks(text string, line int) {
	for _, found := range link().FindAllStringSubmatch(text, -1) {
		if target := found[1]; !hasScheme().MatchString(target) && !strings.HasPrefix(target, "#") && !strings.HasPrefix(target, "/") {
			if p.links = append(p.links, wire.Clip(target, maxQuoted)); len(p.links) == 1 {
				p.linkLine = line
			}
		}
	}
}

// reportAllLinks reports all links of a file in one problem, at the first link.
func (p *parser) reportAllLinks() {
	switch n := len(p.links); {
	case n == 1:
		p.unserved(p.linkLine, "the linked file %s is not part of the prompt: include its text", p.links[0])
	case n > 1 && n <= maxExamples:
		p.unserved(p.linkLine, "the linked files %s are not part of the prompt: include their text", strings.Join(p.links, ", "))
	case n > maxExamples:
		p.unserved(p.linkLine, "the linked files %s and %d more are not part of the prompt: include their text",
			strings.Join(p.links[:maxExamples], ", "), n-maxExamples)
	}
}

// maxExamples bounds the links that a problem lists.
const maxExamples = 3

// mentionsFile reports whether a text mentions a file, such as @src/main.go. A decorator such as
// @app.get("/"), and the scope of a package such as @types/node, are not files.
func mentionsFile(text string) bool {
	for _, found := range fileMention().FindAllStringSubmatch(text, -1) {
		target, isCall := strings.TrimRight(found[1], "."), found[2] != ""
		ext := strings.TrimPrefix(path.Ext(target), ".")
		isFile := strings.Contains(target, "/") && (ext != "" || strings.Count(target, "/") > 1 || strings.IndexByte("./~", target[0]) >= 0) ||
			strings.Count(target, ".") == 1 && len(ext) > 0 && len(ext) <= 4
		if isFile && !isCall {
			return true
		}
	}
	return false
}

// lazily returns a function that compiles an expression at its first call, so that a process
// without prompts from files compiles none.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
