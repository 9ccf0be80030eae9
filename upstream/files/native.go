package files

import (
	"errors"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxPartials bounds the nesting of partials.
	maxPartials = 8
	// maxInclusions bounds the inclusions of partials in a prompt at all levels. So it bounds the cost of a prompt, as a multiple of its
	// files' size.
	maxInclusions = 1000
	// maxInner bounds the text between {{ and }}, in bytes.
	maxInner = 512
)

// native reads a file in this project's format:
//
//	## user, ## assistant   on a line: begins a message of that role; the text before is the user's
//	![text](image.png)      on a line: an image or a sound
//	{{name}}, {{ name }}    the value of an argument
//	{{> part.md}}           the text of another file, with its structure
//	\{{                     a literal {{
func (p *parser) native(d *document) error {
	if err := p.nativeFront(d.front); err != nil {
		return err
	}
	return p.nativeText([]string{p.path}, d.text, d.line)
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
		summary, remedy := unknownName(f.name, names)
		p.report.doubtful(p.path, f.line, summary+" key", "%q has no effect%s", wire.Clip(f.name, maxQuoted), remedy)
		return nil
	})
}

// unknownName returns how to call an unknown name, and the end of a clause about it: the nearest known name or, if no
// known name is near, all of them.
func unknownName(name string, known []string) (adjective, remedy string) {
	if guess := config.Suggest(name, known); guess != "." {
		return "Misspelt", guess
	}
	return "Unknown", "; write one of: " + strings.Join(known, ", ")
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
	if node.Kind == yaml.ScalarNode {
		return wrong(node.Line+1, "an argument is more than its name; write - name: %s in a line of its own", wire.Clip(node.Value, maxQuoted))
	}
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
		_, remedy := unknownName(f.name, names)
		return wrong(f.line, "an argument has no field %q%s", f.name, remedy)
	})
	line, hasDefault := node.Line+1, slices.ContainsFunc(fields, func(f field) bool { return f.name == "default" })
	switch {
	case err != nil:
		return err
	case a.name == "":
		return wrong(line, "an argument has no name; begin it with - name: NAME")
	case strings.ContainsAny(a.name, "{}\r\n") || strings.TrimSpace(a.name) != a.name || strings.HasPrefix(a.name, ">") || len(a.name) > maxInner-len("}}"):
		return wrong(line, "the argument name %q cannot stand between {{ and }}; use letters, digits, - and _", a.name)
	case len(p.arguments.list) == maxArguments:
		return wrong(line, "there are more than %d arguments; remove some", maxArguments)
	case p.arguments.find(a.name) >= 0:
		return wrong(line, "the argument %q is declared twice; remove one", a.name)
	case a.required && hasDefault:
		return wrong(line, "the argument %q is required, so its default has no effect; remove one of the two", a.name)
	}
	a.fallback = content(fallback)
	p.arguments.declare(a, title, description, schema)
	return nil
}

// setIcons sets the icons. It checks the protocol's rules, because a client may refuse a whole list for one bad definition.
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
	roleLine  = lazily(`^## (user|assistant)[ \t\r]*$`)
	likeRole  = lazily(`^## (?i:user|assistant|system):?[ \t\r]*$`)
	aboveKeys = lazily(`^(?:\s+---|#.*\s+---\s*\n(?:name|title|description|arguments):)`)
	mediaLine = lazily(`^!\[[^\]]*\]\(([^()<>\s]+)\)[ \t\r]*$`)
	hasScheme = lazily(`^[A-Za-z][A-Za-z0-9+.-]*:`)
)

// nativeText reads a text that begins in the given line of its file. files is the path of
// inclusions: each file includes the next, and the text is in the last.
func (p *parser) nativeText(files []string, text string, line int) error {
	if p.size += len(text); p.size > maxText {
		return wrong(0, "its text is larger than %d bytes with all partials; shorten it", maxText)
	}
	for each := range strings.Lines(text) {
		bare := strings.TrimSuffix(each, "\n")
		var role, link []string
		if strings.HasPrefix(each, "#") || strings.HasPrefix(each, "!") { // test this first, because the expressions are slow
			role, link = roleLine().FindStringSubmatch(bare), mediaLine().FindStringSubmatch(bare)
			if role == nil && likeRole().MatchString(bare) {
				p.report.doubtful(last(files), line, "Heading is text",
					"a message begins with ## user or ## assistant, in small letters without a colon, and there is no other role; write one of them, or another heading")
			}
		}
		var err error
		switch {
		case role != nil:
			p.text.begin(role[1])
		case link != nil && isMediaLink(link[1]):
			err = p.nativeMedia(files, link[1], line)
		default:
			err = p.nativeLine(files, each, line)
		}
		if err == nil && len(p.text.messages) > maxMessages { // check before more files are read
			err = wrong(0, "it has more than %d messages, images and sounds; use fewer", maxMessages)
		}
		if err != nil {
			return err
		}
		line++
	}
	return nil
}

// isMediaLink reports whether a link leads to a media file on the disk. Other links are text.
func isMediaLink(target string) bool {
	_, ok := mediaOf(target)
	return ok && !hasScheme().MatchString(target)
}

func (p *parser) nativeMedia(files []string, target string, line int) error {
	file, err := beside(last(files), target)
	if err != nil {
		return p.report.at(last(files), line, err)
	}
	m, err := p.reader.image(file)
	if err != nil {
		return p.report.at(last(files), line, err)
	}
	if p.mediaSize += len(m.base64); p.mediaSize > maxResult { // check before more media are read
		return wrong(0, "it is larger than %d bytes with its partials, images and sounds; remove some", maxResult)
	}
	p.text.addMedia(m)
	return nil
}

// nativeLine adds a line with its gaps and partials.
func (p *parser) nativeLine(files []string, text string, line int) error {
	for {
		before, rest, found := strings.Cut(text, "{{")
		if !found {
			p.text.add(before)
			return nil
		}
		text = rest
		if escaped, ok := strings.CutSuffix(before, `\`); ok {
			p.text.add(escaped + "{{")
			continue
		}
		p.text.add(before)
		inner, _, closed := strings.Cut(text[:min(len(text), maxInner)], "}}")
		if !closed {
			p.report.doubtful(last(files), line, BracesAreText, "{{ without }} is text; write \\{{ if that is meant")
			p.text.add("{{")
			continue
		}
		replaced, err := p.nativeBraces(files, inner, line)
		switch {
		case err != nil:
			return err
		case replaced:
			text = text[len(inner)+len("}}"):]
		default:
			p.text.add("{{") // the text after the braces may contain gaps
		}
	}
}

// nativeBraces adds a gap or a partial for {{inner}}. replaced is false if the braces are text.
func (p *parser) nativeBraces(files []string, inner string, line int) (replaced bool, err error) {
	name := strings.Trim(inner, " \t")
	if target, ok := strings.CutPrefix(name, ">"); ok {
		return true, p.partial(files, strings.TrimSpace(target), line)
	}
	if at := p.arguments.find(name); at >= 0 {
		p.text.gap(gap{argument: int16(at)}) //nolint:gosec // at most maxArguments
		return true, nil
	}
	p.report.doubtful(last(files), line, BracesAreText,
		"{{%s}} is text, as no argument has this name, and there are no conditions or filters; correct it, declare it under arguments, or write \\{{ if text is meant", wire.Clip(inner, maxQuoted))
	return false, nil
}

// partial adds the text of another file, in place of its reference in the given line.
func (p *parser) partial(files []string, target string, line int) error {
	file, err := beside(last(files), target)
	switch {
	case err != nil:
	case path.Ext(file) != ".md":
		err = wrong(line, "the partial %q does not end in .md; partials are Markdown files", target)
	case slices.Contains(files, file):
		err = wrong(line, "the partial %q includes itself; remove one of the two", target)
	case len(files) > maxPartials:
		err = wrong(line, "partials are more than %d deep; include the text directly", maxPartials)
	case p.inclusions == maxInclusions:
		err = wrong(line, "the prompt includes partials more than %d times; include the text directly", maxInclusions)
	}
	if err != nil {
		return p.report.at(last(files), line, err)
	}
	p.inclusions++
	d, err := p.document(file)
	if err == nil {
		err = d.flaw()
	}
	if _, isContent := errors.AsType[*fieldError](err); isContent {
		return p.report.at(file, 1, err)
	}
	if err != nil {
		return p.report.at(last(files), line, err)
	}
	// Cut the partial's last line end, because the including line has its own.
	return p.nativeText(append(slices.Clip(files), file), strings.TrimSuffix(strings.TrimSuffix(d.text, "\n"), "\r"), d.line)
}

func last(files []string) string { return files[len(files)-1] }
