package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxURI bounds the URIs of a skill, in bytes.
const maxURI = 2048

// Skill is what the entry of a skill says, see the Skills extension. The definition is the entry as
// the upstream sent it.
type Skill struct {
	// Name is that in the frontmatter, which is also the last segment of the path.
	Name string
	// Root is the URI of the skill's folder at its upstream.
	Root string
	// Files are sorted by path; empty if the content is dynamic.
	Files   []ManifestFile
	Dynamic bool
	// Facts is a definition for conditions, see [Entry.Facts].
	Facts jsontext.Value
	// Frontmatter is that of SKILL.md.
	Frontmatter wire.Object
	// Hash is that of the whole entry as the upstream sent it, which the lock file approves.
	Hash [sha256.Size]byte
}

// ManifestFile is a file of a skill's manifest.
type ManifestFile struct {
	// Path is relative to the skill's folder, as its URI has it.
	Path string
	// Digest is "sha256:" and 64 hexadecimal digits, Size is in bytes.
	Digest string
	Size   int64
}

// File returns the file with a path; ok is false if there is none.
func (s *Skill) File(path string) (file ManifestFile, ok bool) {
	at, found := slices.BinarySearchFunc(s.Files, path, func(f ManifestFile, path string) int { return strings.Compare(f.Path, path) })
	if found {
		return s.Files[at], true
	}
	// Its files are known to the upstream alone, and lie beneath its folder.
	return ManifestFile{Path: path}, s.Dynamic && checkSegments(path) == nil
}

// ParseDefinition is [ParsePrompt] for an upstream that may have skills: an element of its list
// with a uri and without a name is the entry of a skill.
func ParseDefinition(raw jsontext.Value, skills bool) (Prompt, error) {
	if !skills {
		return ParsePrompt(raw)
	}
	object, _ := wire.ParseObject(raw) // both read it again, and return the error
	if object.Get("name") == nil && object.Get("uri") != nil {
		return parseSkill(wire.SingleLine(raw))
	}
	prompt, err := ParsePrompt(raw)
	if err == nil && config.IsSkill(prompt.Name) {
		return Prompt{}, fmt.Errorf("prompt %q: names that begin with %q are those of skills", clip(prompt.Name), config.SkillPrefix)
	}
	return prompt, err
}

// parseSkill reads the entry of a skill, strictly: what hosts must not load is left out. Its own
// name is "skill:" with the path of its folder.
func parseSkill(raw jsontext.Value) (Prompt, error) {
	object, err := wire.ParseObject(raw)
	if err != nil {
		return Prompt{}, fmt.Errorf("skill: %w", err)
	}
	uri, _ := object.Text("uri")
	fail := func(err error) (Prompt, error) { return Prompt{}, fmt.Errorf("skill %q: %w", clip(uri), err) }
	if odd := object.Folded("uri", "frontmatter", "resources", "_meta"); odd != "" {
		return fail(fmt.Errorf("member %q differs from a known member only in case", odd))
	}
	root, isSkill := strings.CutSuffix(uri, "/"+wire.SkillFile)
	scheme, path, hasScheme := strings.Cut(root, ":")
	if !isSkill || !hasScheme || !isScheme(scheme) || len(uri) > maxURI {
		return fail(fmt.Errorf("uri must be a URI of at most %d bytes that ends in /%s", maxURI, wire.SkillFile))
	}
	// The authority counts as the first segment: skill://docs/x and skill:docs/x have one path.
	path = strings.TrimLeft(path, "/")
	if err := checkSegments(path); err != nil {
		return fail(err)
	}
	s := &Skill{Root: root}
	if err := s.readFrontmatter(object, path[strings.LastIndexByte(path, '/')+1:]); err != nil {
		return fail(err)
	}
	if err := s.readManifest(object.Get("resources"), uri); err != nil {
		return fail(fmt.Errorf("resources: %w", err))
	}
	if meta := object.Get("_meta"); meta != nil && meta.Kind() != '{' {
		return fail(errors.New("_meta must be an object"))
	}
	if s.Hash, err = hashDefinition(object); err != nil {
		return fail(err)
	}
	return Prompt{Name: config.SkillPrefix + path, Definition: object.JSON(), Hash: s.Hash, Skill: s}, nil
}

func isScheme(scheme string) bool {
	return scheme != "" && strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
}

// checkSegments refuses a path in a URI that could mean another one to somebody who decodes or
// cleans it.
func checkSegments(path string) error {
	_, err := wire.FoldPath(path)
	return err
}

func (s *Skill) readFrontmatter(entry wire.Object, folder string) error {
	value := entry.Get("frontmatter")
	if value.Kind() != '{' {
		return errors.New("frontmatter must be an object")
	}
	s.Frontmatter = wire.Members(value)
	name, isText := s.Frontmatter.Text("name")
	description, isDescribed := s.Frontmatter.Text("description")
	if !isText || !isDescribed {
		return errors.New("frontmatter must have the strings name and description")
	}
	s.Name = name
	s.Facts = wire.Object{}.With("title", wire.Quote(name)).With("description", wire.Quote(description)).With("_meta", value).JSON()
	return wire.CheckSkillName(name, folder)
}

func (s *Skill) readManifest(resources jsontext.Value, uri string) error {
	if text, _ := wire.Text(resources); text == "dynamic" {
		s.Dynamic = true
		return nil
	}
	if resources.Kind() != '[' {
		return errors.New(`must be an array or "dynamic"`)
	}
	if wire.Longer(resources, wire.MaxSkillFiles) { // before a million of them are split
		return fmt.Errorf("has more than %d files", wire.MaxSkillFiles)
	}
	files, err := wire.ParseArray(resources)
	if err != nil {
		return err
	}
	total, folded := int64(0), map[string]bool{}
	for i, value := range files {
		file, err := s.readFile(wire.Members(value))
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		// To some reader, names that are equal when folded are one file.
		name, _ := wire.FoldPath(file.Path) // which was checked
		if folded[name] {
			return fmt.Errorf("has %q twice, perhaps in another case or form", wire.Clip(file.Path, MaxName))
		}
		folded[name] = true
		if total += file.Size; total > wire.MaxSkillBytes { // each is smaller, so that it does not overflow
			return fmt.Errorf("has more than %d bytes of files", wire.MaxSkillBytes)
		}
		s.Files = append(s.Files, file)
	}
	slices.SortFunc(s.Files, func(a, b ManifestFile) int { return strings.Compare(a.Path, b.Path) })
	// After the sort, by which File finds it.
	if _, ok := s.File(wire.SkillFile); !ok {
		return fmt.Errorf("lacks %s", uri)
	}
	return nil
}

func (s *Skill) readFile(file wire.Object) (ManifestFile, error) {
	uri, _ := file.Text("uri")
	path, within := strings.CutPrefix(uri, s.Root+"/")
	digest, _ := file.Text("digest")
	sum, _ := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	size, isSize := wire.Int(file.Get("size"))
	switch {
	case !within || len(uri) > maxURI:
		return ManifestFile{}, fmt.Errorf("uri %q is not in the folder of the skill", wire.Clip(uri, MaxName))
	// Written again, since DecodeString takes capitals too, and what is compared later is the text.
	case len(sum) != sha256.Size || digest != fmt.Sprintf("sha256:%x", sum):
		return ManifestFile{}, errors.New("digest must be sha256: and 64 hexadecimal digits in lower case")
	case !isSize || size < 0 || size > wire.MaxSkillBytes:
		return ManifestFile{}, fmt.Errorf("size must be a number of bytes, at most %d", wire.MaxSkillBytes)
	}
	// A clone, or the whole uri would stay in memory.
	return ManifestFile{Path: strings.Clone(path), Digest: digest, Size: size}, checkSegments(path)
}

// root returns the URI of a skill's folder as clients see it. It never has to be taken apart again:
// a table of the view finds it.
func (p *Prompt) root(prefix string) string {
	root := "skill://"
	if prefix != "" {
		root += Escaped(prefix) + "/"
	}
	return root + strings.TrimPrefix(p.Name, config.SkillPrefix)
}

// underRoot returns the entry with other uris and, as its last member, a _meta.
func (p *Prompt) underRoot(root string) jsontext.Value {
	object := wire.Members(p.Definition)
	moved := func(o wire.Object) wire.Object {
		uri, _ := o.Text("uri")
		return o.With("uri", wire.Quote(root+strings.TrimPrefix(uri, p.Skill.Root)))
	}
	if !p.Skill.Dynamic {
		files, _ := wire.ParseArray(object.Get("resources")) // it was read before
		for i := range files {
			files[i] = moved(wire.Members(files[i])).JSON()
		}
		object = object.With("resources", wire.Array(files))
	}
	meta := object.Object("_meta").Without(wire.IsOwnMeta)
	// It goes to the end, even if it is empty, where AppendSkill adds a member.
	object = object.Without(func(name string) bool { return name == "_meta" })
	return moved(object).With("_meta", meta.JSON()).JSON()
}

// URI returns the URI of a skill's SKILL.md, as clients see it.
func (e *Entry) URI() string { return e.Root + "/" + wire.SkillFile }

// AppendSkill appends the entry of a skill, with a member in its _meta.
func (e *Entry) AppendSkill(dst, member []byte) []byte {
	end := len(e.JSON) - len("}}")
	if dst = append(dst, e.JSON[:end]...); e.JSON[end-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(dst, member...), "}}"...)
}

// taken reports a name that a prompt cannot have, because skills have it, or a skill whose uri
// could be one of another upstream's.
func (n namespaces) taken(source *Source, prompt *Prompt, name string) (r Report, taken bool) {
	if !n.skills {
		return Report{}, false
	}
	o := source.Owner(prompt.Name)
	r = Report{Kind: ForeignPrefix, Name: name, Owners: []Owner{o}}
	if prompt.Skill == nil {
		r.Text = fmt.Sprintf("prompt %q of %s has a name that begins with %q, as those of skills do: it is left out; rename it, "+
			"or set a prefix on the upstream", name, who(o), config.SkillPrefix)
		return r, config.IsSkill(name)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(prompt.Name, config.SkillPrefix), "/")
	decoded, _ := url.PathUnescape(first) // it was checked
	// Skills of upstreams with a prefix have it as the first segment of their uris: this one could
	// pass for one of theirs.
	if of, isPrefix := n.owners[config.Bare(decoded)]; source.Prefix == "" && decoded != "" && isPrefix {
		r.Owners = append(r.Owners, of.Owner(""))
		r.Text = fmt.Sprintf("skill %q of %s begins with %q, which is a prefix: it is left out; set a prefix on upstream %q, "+
			"or move the skill", name, who(o), decoded, o.Upstream)
		return r, true
	}
	return Report{}, false
}

// Escaped returns a text as an authority or a segment of a URI.
func Escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// Unescaped returns a segment of a path of skills as people read it.
func Unescaped(segment string) string {
	if text, err := url.PathUnescape(segment); err == nil {
		return text
	}
	return segment
}
