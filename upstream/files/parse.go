package files

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxText bounds the text of a prompt with its partials, in bytes.
	maxText = 4 << 20
	// maxArguments bounds the arguments of one prompt. Package requests has the same bound for a get.
	maxArguments = 1000
	// maxGrowth bounds the text of a prompt, as a multiple of the size of its file and partials. A
	// file counts at least leastFile bytes, which is a block of a disk.
	maxGrowth = 40
	leastFile = 512
)

// reader reads the files of a prompt, by their paths from the root with slashes. Its errors are
// shown to people.
type reader interface {
	document(file string) (*document, error)
	image(file string) (*media, error)
}

// document is a text file, checked and split once for all prompts that include it.
type document struct {
	content     string
	front, text string
	// line is the number of the text's first line in the file.
	line int
	// unended is the error of front matter without an end. It counts only in this project's format, because in a client's format a text may
	// begin with a horizontal rule of hyphens.
	unended error
	// encoding is the error of a file that is not UTF-8. In a prompt of a client's format, it is
	// only a [Doubtful] problem.
	encoding error
}

func newDocument(content string) *document {
	d := &document{}
	if !utf8.ValidString(content) {
		d.encoding = wrong(0, "it is not UTF-8 text; save it in that encoding")
		content = string([]rune(content)) // replace invalid bytes by U+FFFD, as clients do
	}
	d.content = content
	d.front, d.text, d.line, d.unended = split(strings.TrimPrefix(content, "\ufeff"))
	return d
}

// flaw returns the error that makes the document broken in this project's format, or nil.
func (d *document) flaw() error {
	if d.encoding != nil {
		return d.encoding
	}
	return d.unended
}

// media is an image or a sound. All prompts that contain it share it.
type media struct {
	kind, mime string // the content's type in the protocol
	base64     []byte
}

// parser reads one prompt.
type parser struct {
	path   string
	sign   sign
	body   [sha256.Size]byte // see Prompt.body
	reader reader
	report report

	name, title, description string
	icons, meta              []byte
	arguments                declarations
	text                     builder
	// isLine is true if the only argument is the whole command line.
	isLine bool
	// inFence is true while the current line is in a code block. links are the links to files of
	// the project, and linkLine is the line of the first one.
	inFence  bool
	links    []string
	linkLine int
	// isWithheld is true if only models, not people, can choose the prompt.
	isWithheld bool
	// size is the length of the text with each inclusion of a partial, in bytes. mediaSize is the
	// length of the media as base64.
	size, mediaSize int
	inclusions      int
}

// parse reads the prompt of a file. Problems are sorted by location. shown returns the path for use
// in a location. The prompt is nil if there is a [Broken] problem, or if people cannot choose the
// prompt. If key.texts is true, the definition contains the hash of the prompt's text.
func parse(key entryKey, r reader, shown func(string) string) (*Prompt, []Problem) {
	p := &parser{
		path: key.path, sign: key.sign, reader: r, text: builder{role: "user"},
		report: report{shown: shown, contents: map[string]string{}, doubted: map[string]bool{}},
	}
	prompt, err := p.prompt(key.texts)
	if err != nil {
		p.report.broken(key.path, cmp.Or(p.name, strings.TrimSuffix(path.Base(key.path), path.Ext(key.path))), err)
		prompt = nil
	}
	sortProblems(p.report.problems)
	return prompt, p.report.problems
}

func (p *parser) prompt(texts bool) (prompt *Prompt, err error) {
	defer func() {
		if broke := recover(); broke != nil { // a panic, for example in the YAML and TOML libraries
			err = wrong(0, "reading it failed (%v); please report that, and write it in another way", broke)
		}
	}()
	d, err := p.document(p.path)
	if err != nil {
		return nil, err
	}
	if p.sign.format == "" {
		p.sign.format = formatIn(d)
	}
	if d.front == "" && aboveKeys().MatchString(d.text) {
		p.report.doubtful(p.path, 1, "Front matter is text", "the front matter begins in the first line of a file; move the lines above it below it")
	}
	switch isForeign := p.sign.isForeign(); {
	case !isForeign && d.flaw() != nil:
		return nil, d.flaw()
	case isForeign && d.encoding != nil:
		p.report.doubtful(p.path, 0, "Not UTF-8", "%v; some characters are lost, as in the client", d.encoding)
	}
	read := map[config.FileFormat]func(*document) error{
		config.FormatNative: p.native, config.FormatClaude: p.command, config.FormatVSCode: p.vscodePrompt, config.FormatSkill: p.skillPrompt,
		codexPrompts: func(*document) error {
			return errors.New("custom prompts are no longer read by Codex; move it to the folder of a skill, like .agents/skills/NAME/SKILL.md")
		},
	}[p.sign.format]
	if read == nil {
		read = p.custom
	}
	p.body = sha256.Sum256([]byte(strings.TrimSpace(d.text)))
	if err := read(d); err != nil {
		return nil, err
	}
	if p.isWithheld {
		p.report.problems = nil
		return nil, nil //nolint:nilnil // no prompt, and no error
	}
	p.reportAllLinks()
	p.text.end()
	return p.finish(texts)
}

func (p *parser) document(file string) (*document, error) {
	d, err := p.reader.document(file)
	if err == nil {
		p.report.contents[file] = d.content
	}
	return d, err
}

// finish checks the limits of the parsed prompt and returns the prompt.
func (p *parser) finish(texts bool) (*Prompt, error) {
	switch {
	case p.name == "":
		return nil, wrong(1, "its name is empty; %s", p.sign.rename())
	case !utf8.ValidString(p.name):
		return nil, wrong(1, "its name, the file's, is not UTF-8; %s", p.sign.rename())
	case strings.ContainsFunc(p.name, func(r rune) bool { return r < ' ' }):
		return nil, wrong(1, "its name has a line break or a control character; %s", p.sign.rename())
	case len(p.text.messages) == 0:
		return nil, wrong(0, "it has no text; write the prompt below the front matter")
	case p.text.gaps > maxGaps:
		return nil, wrong(0, "it has more than %d placeholders for arguments; use fewer", maxGaps)
	}
	size := 0
	for i := range p.text.messages {
		size += p.text.messages[i].size()
	}
	files := 0
	for _, content := range p.report.contents {
		files += max(len(content), leastFile)
	}
	switch {
	case size > maxResult:
		return nil, wrong(0, "it is larger than %d bytes with its partials, images and sounds; remove some", maxResult)
	case size-p.mediaSize > maxGrowth*files:
		return nil, wrong(0, "it is more than %d times as large as its files; include partials less often", maxGrowth)
	}
	prompt := &Prompt{Path: p.path, sign: p.sign, body: p.body, Name: p.name, arguments: p.arguments.list, isLine: p.isLine}
	prompt.compile(p.description, p.text.messages)
	for i, a := range prompt.arguments {
		if p.sign.format == config.FormatNative && !slices.ContainsFunc(prompt.segments, func(s segment) bool { return s.gap.isSet && int(s.gap.argument) == i }) {
			p.report.doubtful(p.path, 0, "Argument not used", "the text has no {{%s}}; write it where the value belongs, or remove the argument", a.name)
		}
	}
	prompt.Text = hashText(p.text.messages, p.arguments.list)
	if texts {
		p.meta = wire.Members(p.meta).With(metaText, wire.Quote(prompt.Text)).JSON()
	}
	// A template has each value unchanged. A line that is cut into words is no template.
	if !prompt.isLine || !slices.ContainsFunc(prompt.segments, func(s segment) bool { return s.gap.word > 0 }) {
		p.meta = wire.Members(p.meta).With(MetaTemplate, jsontext.Value("true")).JSON()
	}
	prompt.Definition = p.definition().JSON()
	return prompt, nil
}

const (
	// MetaTemplate is a member of a definition's _meta. It is true if each value of a get appears unchanged in the text. Nothing else
	// depends on it.
	MetaTemplate = wire.MetaPrefix + "template"
	// metaText is the member of _meta with the hash of the text.
	metaText = wire.MetaPrefix + "text_sha256"
)

func (p *parser) definition() wire.Object {
	definition := described(p.name, p.title, p.description)
	if len(p.arguments.json) > 0 {
		definition = definition.With("arguments", wire.Array(p.arguments.json))
	}
	return definition.With("icons", p.icons).With("_meta", p.meta)
}

// described returns the members name, title and description of a prompt's or an argument's
// definition. Empty texts are left out.
func described(name, title, description string) wire.Object {
	return wire.Object{}.With("name", wire.Quote(name)).WithText("title", title).WithText("description", description)
}

// unserved reports a part of the file that a prompt cannot have.
func (p *parser) unserved(line int, format string, args ...any) {
	if r := &p.report; len(r.problems) < maxProblems {
		r.problems = append(r.problems, r.problem(Unserved, p.path, line, "Not part of a prompt", fmt.Sprintf(format, args...)))
	}
}

// declarations are the arguments of a prompt.
type declarations struct {
	list []argument
	json []jsontext.Value // the same arguments, as in the definition
}

// declare adds an argument and returns its index.
func (d *declarations) declare(a argument, title, description string, schema []byte) int {
	a.name = strings.Clone(a.name) // a substring would hold the whole file in memory
	declaration := described(a.name, title, description).WithTrue("required", a.required).With("schema", schema)
	d.list, d.json = append(d.list, a), append(d.json, declaration.JSON())
	return len(d.list) - 1
}

// find returns the index of an argument, or -1.
func (d *declarations) find(name string) int {
	return slices.IndexFunc(d.list, func(a argument) bool { return a.name == name })
}

// mediaTypes contains the kinds and MIME types of media, by file extension.
var mediaTypes = map[string]media{ //nolint:gochecknoglobals // a constant table
	".png": {kind: "image", mime: "image/png"}, ".jpg": {kind: "image", mime: "image/jpeg"},
	".jpeg": {kind: "image", mime: "image/jpeg"}, ".gif": {kind: "image", mime: "image/gif"},
	".webp": {kind: "image", mime: "image/webp"}, ".svg": {kind: "image", mime: "image/svg+xml"},
	".avif": {kind: "image", mime: "image/avif"}, ".bmp": {kind: "image", mime: "image/bmp"},
	".mp3": {kind: "audio", mime: "audio/mpeg"}, ".wav": {kind: "audio", mime: "audio/wav"},
	".ogg": {kind: "audio", mime: "audio/ogg"}, ".flac": {kind: "audio", mime: "audio/flac"},
	".m4a": {kind: "audio", mime: "audio/mp4"}, ".aac": {kind: "audio", mime: "audio/aac"},
	".opus": {kind: "audio", mime: "audio/opus"},
}

// mediaOf returns the type of a media file by its name. ok is false for any other file.
func mediaOf(file string) (m media, ok bool) {
	m, ok = mediaTypes[strings.ToLower(path.Ext(file))]
	return m, ok
}

// beside resolves a path relative to another file. Both are paths from the root.
func beside(file, target string) (string, error) {
	joined := path.Join(path.Dir(file), target)
	if path.IsAbs(target) || joined == ".." || strings.HasPrefix(joined, "../") {
		return "", fmt.Errorf("%q leads out of the folder of prompts; put the file there", target)
	}
	return joined, nil
}
