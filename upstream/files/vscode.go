package files

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

var (
	// variable is ${input:name}, ${input:name:placeholder}, or what the editor would know.
	variable = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{(input:[^}\n]*|file|fileBasename|fileDirname|fileBasenameNoExtension|selection|selectedText|workspaceFolder|workspaceFolderBasename)\}`)
	})
	reference = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|\s)#(?:file|folder|sym|tool|codebase|selection|changes|fetch|githubRepo)\b[:\w./-]*`)
	})
	link = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\]\(([^()\s]+)\)`) })
)

// vscodePrompt reads a prompt file of VS Code: ${input:name:placeholder} asks for a value.
func (p *parser) vscodePrompt(front, text string, line int) error {
	p.name = strings.TrimSuffix(path.Base(p.path), ".prompt.md")
	p.foreignFront(front, map[string]func(field) error{"name": setText(&p.name), "description": setText(&p.description)})
	for each := range strings.Lines(text) {
		p.vscodeLine(each, line)
		p.reportLinks(each, line)
		line++
	}
	return nil
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
		index := p.declared(name)
		if index < 0 && len(p.arguments) == maxArguments {
			p.unserved(line, "a prompt has at most %d arguments: ${%s} is text", maxArguments, inner)
			continue
		}
		if index < 0 {
			index = p.declare(argument{name: name, required: true}, "", description, nil)
		}
		p.text(text[at:found[0]])
		p.gap(index, 0)
		at = found[1]
	}
	p.text(text[at:])
}

// reportLinks reports the links to other files of the same folder or project.
func (p *parser) reportLinks(text string, line int) {
	for _, found := range link().FindAllStringSubmatch(text, -1) {
		if target := found[1]; !hasScheme().MatchString(target) && !strings.HasPrefix(target, "#") && !strings.HasPrefix(target, "/") {
			p.unserved(line, "the linked file %s does not go along: people need it from elsewhere", clip(target))
		}
	}
}
