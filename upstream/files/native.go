package files

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxPartials bounds how deeply partials include each other.
	maxPartials = 8
	// maxInner bounds what stands between {{ and }}, in bytes.
	maxInner = 512
	// maxProblems bounds the problems of one file, and maxDoubts how many braces are looked at for them.
	maxProblems = 50
	maxDoubts   = 1000
	// maxArguments bounds the arguments of one prompt, as they are bounded in a get.
	maxArguments = 1000
)

// native reads a file in the format of this project:
//
//	## user, ## assistant   on a line: begins a message of that role; the first is the user's without it
//	![text](image.png)      on a line: an image or a sound
//	{{name}}                the value of an argument
//	{{> part.md}}           the text of another file, structure included
//	\{{                     {{, which is nothing else then
func (p *parser) native(front, text string, line int) error {
	if err := p.nativeFront(front); err != nil {
		return err
	}
	return p.nativeText([]string{p.path}, text, line)
}

func (p *parser) nativeFront(front string) error {
	p.name = strings.TrimSuffix(path.Base(p.path), ".md")
	fields, err := parseFrontMatter(front)
	if err != nil {
		return err
	}
	names := []string{"name", "title", "description", "arguments", "icons", "_meta"}
	return decode(fields, map[string]func(field) error{
		"name": setText(&p.name), "title": setText(&p.title), "description": setText(&p.description),
		"arguments": p.setArguments, "icons": p.setIcons,
		"_meta": setJSON((*jsontext.Value)(&p.meta), yaml.MappingNode, "a list of NAME: VALUE lines"),
	}, func(f field) error {
		return wrong(f.line, "%q is not known here; write one of: %s", f.name, strings.Join(names, ", "))
	})
}

func (p *parser) setArguments(f field) error {
	if f.value.Kind != yaml.SequenceNode {
		return wrong(f.line, "\"arguments\" must be a list; begin each with - name: NAME")
	}
	for _, element := range f.value.Content {
		if err := p.setArgument(element); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) setArgument(node *yaml.Node) error {
	fields, err := fieldsOf(node)
	if err != nil {
		return err
	}
	var a argument
	var title, description, fallback string
	var schema jsontext.Value
	names := []string{"name", "title", "description", "required", "values", "default", "schema"}
	err = decode(fields, map[string]func(field) error{
		"name": setText(&a.name), "title": setText(&title), "description": setText(&description), "required": setBool(&a.required),
		"values": setTexts(&a.values), "default": setText(&fallback),
		"schema": setJSON(&schema, yaml.MappingNode, "a JSON Schema"),
	}, func(f field) error {
		return wrong(f.line, "%q is not known of an argument; write one of: %s", f.name, strings.Join(names, ", "))
	})
	line, hasDefault := node.Line+1, slices.ContainsFunc(fields, func(f field) bool { return f.name == "default" })
	switch {
	case err != nil:
		return err
	case a.name == "":
		return wrong(line, "an argument has no name; begin it with - name: NAME")
	case strings.ContainsAny(a.name, "{}\r\n") || strings.TrimSpace(a.name) != a.name || strings.HasPrefix(a.name, ">") || len(a.name) > maxInner-len("}}"):
		return wrong(line, "the argument name %q cannot stand between {{ and }}; use letters, digits, - and _", a.name)
	case len(p.arguments) == maxArguments:
		return wrong(line, "there are more than %d arguments; remove some", maxArguments)
	case p.declared(a.name) >= 0:
		return wrong(line, "the argument %q is declared twice; remove one", a.name)
	case a.required && hasDefault:
		return wrong(line, "the argument %q is required, so that its default has no effect; remove one of the two", a.name)
	}
	a.fallback = content(fallback)
	p.declare(a, title, description, schema)
	return nil
}

// setIcons checks what the protocol demands of an icon: clients may refuse a whole list for one bad definition.
func (p *parser) setIcons(f field) error {
	if f.value.Kind != yaml.SequenceNode {
		return wrong(f.line, "\"icons\" must be a list; begin each with - src: URL")
	}
	for _, element := range f.value.Content {
		fields, err := fieldsOf(element)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == "src" })
		if at < 0 {
			return wrong(element.Line+1, "an icon has no address; begin it with - src: URL")
		}
		var src string
		if err := setText(&src)(fields[at]); err != nil {
			return err
		}
	}
	return setJSON((*jsontext.Value)(&p.icons), yaml.SequenceNode, "a list")(f)
}

var (
	roleLine  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^## (user|assistant)[ \t\r]*$`) })
	mediaLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^!\[[^\]]*\]\(([^()<>\s]+)\)[ \t\r]*$`) })
	hasScheme = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`) })
	spaced    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[ \t]*([^{}\r\n]*?)[ \t]*$`) })
)

// nativeText reads the text of the last file, which the others include, from a line on.
func (p *parser) nativeText(files []string, text string, line int) error {
	if p.size += len(text); p.size > maxText {
		return wrong(0, "its text is larger than %d bytes with all partials; shorten it", maxText)
	}
	for each := range strings.Lines(text) {
		bare := strings.TrimSuffix(each, "\n")
		role, link := roleLine().FindStringSubmatch(bare), mediaLine().FindStringSubmatch(bare)
		var err error
		switch {
		case role != nil:
			p.begin(role[1])
		case link != nil && isMediaLink(link[1]):
			err = p.nativeMedia(files, link[1], line)
		default:
			err = p.nativeLine(files, each, line)
		}
		if err != nil {
			return err
		}
		line++
	}
	return nil
}

// isMediaLink reports whether a link leads to a media file beside the text. Others stay text.
func isMediaLink(target string) bool {
	_, ok := mediaOf(target)
	return ok && !hasScheme().MatchString(target)
}

func (p *parser) nativeMedia(files []string, target string, line int) error {
	file, err := beside(last(files), target)
	if err != nil {
		return p.at(files, line, err)
	}
	kind, _ := mediaOf(target)
	m, err := kind.read(p.reader, file)
	if err != nil {
		return p.at(files, line, err)
	}
	p.add(m)
	return nil
}

// nativeLine reads the gaps and partials of a line.
func (p *parser) nativeLine(files []string, text string, line int) error {
	for {
		before, after, found := strings.Cut(text, "{{")
		if !found {
			p.text(text)
			return nil
		}
		if escaped, ok := strings.CutSuffix(before, `\`); ok {
			p.text(escaped + "{{")
			text = after
			continue
		}
		p.text(before)
		text = after
		inner, _, closed := strings.Cut(after[:min(len(after), maxInner)], "}}")
		if !closed {
			p.doubtful(files, line, "{{ without }} is text; write \\{{ if that is meant")
			p.text("{{")
			continue
		}
		rest := after[len(inner)+len("}}"):]
		if target, ok := strings.CutPrefix(inner, ">"); ok {
			if err := p.partial(files, strings.TrimSpace(target), line); err != nil {
				return err
			}
			text = rest
			continue
		}
		if at := p.declared(inner); at >= 0 {
			p.gap(at, 0)
			text = rest
			continue
		}
		p.undeclared(files, inner, line)
		p.text("{{") // and what follows may have gaps again
	}
}

// undeclared reports braces that stay as they are.
func (p *parser) undeclared(files []string, inner string, line int) {
	if p.doubts > maxDoubts {
		return
	}
	if name := spaced().FindStringSubmatch(inner); name != nil && p.declared(name[1]) >= 0 {
		p.doubtful(files, line, "{{%s}} is text because of its blanks; write {{%s}}, or \\{{ if text is meant", inner, name[1])
		return
	}
	p.doubtful(files, line, "{{%s}} is text, as no argument has this name; declare it under arguments, or write \\{{ if text is meant", clip(inner))
}

// partial reads the text of another file in the place of its name.
func (p *parser) partial(files []string, target string, line int) error {
	file, err := beside(last(files), target)
	if err != nil {
		return p.at(files, line, err)
	}
	switch {
	case path.Ext(file) != ".md":
		return p.at(files, line, wrong(line, "the partial %q does not end in .md; partials are Markdown files", target))
	case slices.Contains(files, file):
		return p.at(files, line, wrong(line, "the partial %q includes itself; remove one of the two", target))
	case len(files) > maxPartials:
		return p.at(files, line, wrong(line, "partials are more than %d deep; include the text directly", maxPartials))
	}
	content, err := p.content(file)
	if err != nil {
		return p.at(files, line, err)
	}
	_, text, first, err := p.split(content) // of another prompt, the text is what is wanted
	if err != nil {
		return p.at(append(slices.Clip(files), file), 1, err)
	}
	return p.nativeText(append(slices.Clip(files), file), strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), first)
}

// at puts an error into a line of the last file.
func (p *parser) at(files []string, line int, err error) error {
	return p.problem(Broken, last(files), line, "Broken prompt", err.Error())
}

// doubtful reports text that was most likely meant to be something else.
func (p *parser) doubtful(files []string, line int, format string, args ...any) {
	if p.doubts++; p.doubts > maxDoubts || len(p.problems) >= maxProblems {
		return
	}
	detail := fmt.Sprintf(format, args...)
	key := fmt.Sprintf("%s:%d: %s", last(files), line, detail)
	if !p.doubted[key] { // a partial may be included several times
		p.doubted[key] = true
		p.problems = append(p.problems, p.problem(Doubtful, last(files), line, "Braces are text", detail))
	}
}

func last(files []string) string { return files[len(files)-1] }

// clip shortens a text for a message.
func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
