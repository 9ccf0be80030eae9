package files

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxText bounds the text of a prompt with its partials, in bytes.
const maxText = 4 << 20

// format is how a file is written. Only its path tells.
type format int

const (
	native   format = iota
	commands        // .claude/commands/**/*.md
	vscode          // *.prompt.md
	skill           // SKILL.md
)

func formatOf(file string) format {
	folder, name := path.Split(file)
	switch {
	case name == "SKILL.md":
		return skill
	case strings.HasSuffix(name, ".prompt.md"):
		return vscode
	case strings.Contains("/"+folder, "/.claude/commands/"):
		return commands
	}
	return native
}

// reader reads what a prompt consists of, by paths from the root with slashes. Its errors are for people.
type reader interface {
	text(file string) (string, error)
	media(file string) ([]byte, error)
}

// parser reads one prompt.
type parser struct {
	path     string
	reader   reader
	shown    func(file string) string // the path that problems show
	problems []Problem

	// What the front matter says.
	name, title, description string
	icons, meta              []byte
	arguments                []argument
	declarations             []wire.Object // of the arguments, in their order

	builder
	// words are the numbers of the words that are a command's arguments, in their order; empty where one argument has all of them.
	words []int
	// contents are those of the files that were read, by path.
	contents map[string]string
	// doubted are the places and details of doubtful problems, and doubts counts the braces that were looked at for them.
	doubted map[string]bool
	doubts  int
	// size counts the text that was read, partials included, each time that they are.
	size int
}

// parse reads the prompt of a file. The problems are sorted by place; a prompt that has a [Broken] one is nil. With texts, its
// definition carries the hash of its text.
func parse(file string, texts bool, r reader, shown func(string) string) (*Prompt, []Problem) {
	p := &parser{path: file, reader: r, shown: shown, builder: builder{role: "user"}, contents: map[string]string{}, doubted: map[string]bool{}}
	prompt, err := p.prompt(texts)
	if err != nil {
		p.broken(err)
		prompt = nil
	}
	sortProblems(p.problems)
	return prompt, p.problems
}

func (p *parser) prompt(texts bool) (*Prompt, error) {
	content, err := p.content(p.path)
	if err != nil {
		return nil, err
	}
	front, text, line, err := p.split(content)
	if err != nil {
		return nil, err
	}
	read := map[format]func(string, string, int) error{
		native: p.native, commands: p.command, vscode: p.vscodePrompt, skill: p.skillPrompt,
	}[formatOf(p.path)]
	if err := read(front, text, line); err != nil {
		return nil, err
	}
	p.end()
	return p.finish(texts)
}

// split is the split of a file. Text of a foreign format may begin with a rule of hyphens.
func (p *parser) split(content string) (front, text string, line int, err error) {
	if !utf8.ValidString(content) {
		return "", "", 0, wrong(0, "it is not UTF-8 text; save it in that encoding")
	}
	front, text, line, err = split(strings.TrimPrefix(content, "\ufeff"))
	if err != nil && formatOf(p.path) != native {
		err = nil
	}
	return front, text, line, err
}

// finish makes the prompt of what was read.
func (p *parser) finish(texts bool) (*Prompt, error) {
	switch {
	case p.name == "":
		return nil, wrong(1, "its name is empty; set name in the front matter")
	case !utf8.ValidString(p.name):
		return nil, wrong(1, "its name, that of the file, is not UTF-8; set name in the front matter")
	case strings.ContainsFunc(p.name, func(r rune) bool { return r < ' ' }):
		return nil, wrong(1, "its name has a line break or a control character; set name in the front matter")
	case len(p.messages) == 0:
		return nil, wrong(0, "it has no text; write the prompt below the front matter")
	}
	size := 0
	for i := range p.messages {
		size += p.messages[i].size()
	}
	if size > maxResult {
		return nil, wrong(0, "it is larger than %d bytes with its partials, images and sounds; remove some", maxResult)
	}
	prompt := &Prompt{Path: p.path, Name: p.name, arguments: p.arguments}
	prompt.segments, prompt.Text = compile(p.description, p.messages), hashText(p.messages, p.arguments)
	for _, s := range prompt.segments {
		prompt.fixed += len(s.json)
	}
	if texts {
		p.meta = withTextHash(p.meta, prompt.Text)
	}
	prompt.Definition = p.definition().JSON()
	prompt.size = prompt.fixed + len(prompt.Definition)
	return prompt, nil
}

// metaText is the member of _meta with the hash of the text.
const metaText = "promptweir/text_sha256"

func withTextHash(meta []byte, hash string) []byte {
	return wire.Members(meta).With(metaText, wire.Quote(hash)).JSON()
}

func (p *parser) definition() wire.Object {
	definition := wire.Object{wire.NewMember("name", wire.Quote(p.name))}
	if p.title != "" {
		definition = append(definition, wire.NewMember("title", wire.Quote(p.title)))
	}
	if p.description != "" {
		definition = append(definition, wire.NewMember("description", wire.Quote(p.description)))
	}
	if len(p.declarations) > 0 {
		list := []byte{'['}
		for i, declaration := range p.declarations {
			if i > 0 {
				list = append(list, ',')
			}
			list = declaration.Append(list)
		}
		definition = append(definition, wire.NewMember("arguments", append(list, ']')))
	}
	if p.icons != nil {
		definition = append(definition, wire.NewMember("icons", p.icons))
	}
	if p.meta != nil {
		definition = append(definition, wire.NewMember("_meta", p.meta))
	}
	return definition
}

// declare adds an argument and returns its index.
func (p *parser) declare(a argument, title, description string, schema []byte) int {
	declaration := wire.Object{wire.NewMember("name", wire.Quote(a.name))}
	if title != "" {
		declaration = append(declaration, wire.NewMember("title", wire.Quote(title)))
	}
	if description != "" {
		declaration = append(declaration, wire.NewMember("description", wire.Quote(description)))
	}
	if a.required {
		declaration = append(declaration, wire.NewMember("required", []byte("true")))
	}
	if schema != nil {
		declaration = append(declaration, wire.NewMember("schema", schema))
	}
	p.arguments = append(p.arguments, a)
	p.declarations = append(p.declarations, declaration)
	return len(p.arguments) - 1
}

// declared returns the index of an argument; -1 for none.
func (p *parser) declared(name string) int {
	return slices.IndexFunc(p.arguments, func(a argument) bool { return a.name == name })
}

// broken reports the error for which the file is not served.
func (p *parser) broken(err error) {
	problem, ok := errors.AsType[Problem](err)
	if !ok {
		line := 0
		if at, ok := errors.AsType[*fieldError](err); ok {
			line = at.line
		}
		problem = p.problem(Broken, p.path, line, "Broken prompt", err.Error())
	}
	p.problems = append(p.problems, problem)
}

// unserved reports a part that the prompt is served without.
func (p *parser) unserved(line int, format string, args ...any) {
	if len(p.problems) >= maxProblems {
		return
	}
	p.problems = append(p.problems, p.problem(Unserved, p.path, line, "Not part of a prompt", fmt.Sprintf(format, args...)))
}

// content returns a file that belongs to the prompt.
func (p *parser) content(file string) (string, error) {
	content, err := p.reader.text(file)
	if err == nil {
		p.contents[file] = content
	}
	return content, err
}

// maxSource bounds the line that a problem shows, in bytes.
const maxSource = 200

// problem returns a problem in a line of a file, which may be a partial. The detail is a clause.
func (p *parser) problem(severity Severity, file string, line int, summary, detail string) Problem {
	problem := Problem{Severity: severity, Path: p.shown(file), Line: line, Summary: summary, Detail: sentence(detail)}
	rest := p.contents[file]
	for range line {
		problem.Source, rest, _ = strings.Cut(rest, "\n")
	}
	problem.Source = strings.TrimRight(strings.ToValidUTF8(problem.Source[:min(len(problem.Source), maxSource)], ""), "\r")
	return problem
}

// sentence makes a sentence of a clause.
func sentence(clause string) string {
	return strings.ToUpper(clause[:1]) + strings.TrimSuffix(clause[1:], ".") + "."
}

// mediaTypes are the kinds and MIME types of the files that can be the content of a message, by the end of their names.
var mediaTypes = map[string]media{ //nolint:gochecknoglobals // a constant table
	".png": {kind: "image", mime: "image/png"}, ".jpg": {kind: "image", mime: "image/jpeg"}, ".jpeg": {kind: "image", mime: "image/jpeg"},
	".gif": {kind: "image", mime: "image/gif"}, ".webp": {kind: "image", mime: "image/webp"}, ".svg": {kind: "image", mime: "image/svg+xml"},
	".avif": {kind: "image", mime: "image/avif"}, ".bmp": {kind: "image", mime: "image/bmp"},
	".mp3": {kind: "audio", mime: "audio/mpeg"}, ".wav": {kind: "audio", mime: "audio/wav"}, ".ogg": {kind: "audio", mime: "audio/ogg"},
	".flac": {kind: "audio", mime: "audio/flac"}, ".m4a": {kind: "audio", mime: "audio/mp4"}, ".aac": {kind: "audio", mime: "audio/aac"},
	".opus": {kind: "audio", mime: "audio/opus"},
}

// mediaOf returns the kind of a media file by its name; ok is false for any other file.
func mediaOf(file string) (m media, ok bool) {
	m, ok = mediaTypes[strings.ToLower(path.Ext(file))]
	return m, ok
}

// read returns the content of a media file.
func (m media) read(r reader, file string) (*media, error) {
	content, err := r.media(file)
	if err != nil {
		return nil, err
	}
	m.base64 = base64.StdEncoding.AppendEncode(nil, content)
	return &m, nil
}

// beside returns the path of a file that another one names.
func beside(file, target string) (string, error) {
	joined := path.Join(path.Dir(file), target)
	if path.IsAbs(target) || joined == ".." || strings.HasPrefix(joined, "../") {
		return "", fmt.Errorf("%q leads out of the folder of prompts; put the file there", target)
	}
	return joined, nil
}
