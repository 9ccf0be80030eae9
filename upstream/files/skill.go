package files

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/regular"
	"github.com/promptweir/promptweir/upstream/wire"
)

// skillFolder is a folder with a SKILL.md. All regular files beneath it are the skill's, but for
// hidden ones.
type skillFolder struct {
	// definition is the entry of the skill; nil if it is broken, and problems say why.
	definition jsontext.Value
	problems   []Problem
	found      []input
	folders    int
	// root is the URI of the folder.
	root string
}

// fileDigest is the digest of a file of a skill.
type fileDigest struct {
	input

	sum [sha256.Size]byte
}

// addSkills finds the skills of a block. Of a skill that has not changed, nothing is read.
func (p *pass) addSkills(b *block) {
	if b.upstream.Skills == "" {
		return
	}
	b.nextSkills = map[string]*skillFolder{}
	for _, key := range b.next {
		if path.Base(key.path) == wire.SkillFile && p.err() == nil {
			b.nextSkills[key.path] = p.skillAt(b, key.path)
		}
	}
}

// skillAt returns the skill of a SKILL.md: the one before, or a newer one.
func (p *pass) skillAt(b *block, file string) *skillFolder {
	next := &skillFolder{root: "skill://" + skillPath(b.upstream.Files, file)}
	err := p.skillFiles(path.Dir(file), 0, next)
	before, isSame := b.skills[file], func(a, b input) bool { return a.path == b.path && a.isCurrent(b.info) }
	if err == nil {
		if before != nil && before.root == next.root && slices.EqualFunc(before.found, next.found, isSame) {
			for _, f := range before.found {
				// The team forgets the digests that a pass does not have.
				p.digests[f.path] = p.team.digests[f.path]
			}
			return before
		}
		next.definition, err = p.skillEntry(file, next)
	}
	if errors.Is(err, errChanging) && before != nil { // the next pass finds it as it is then
		return before
	}
	if err != nil {
		r := report{shown: func(file string) string { return onDisk(p.team.source, file) }}
		problem := r.problem(Broken, file, lineOf(err), "Broken skill", err.Error()+"; it is left out")
		// The same pointer, by which the block sees that its list is the same.
		if before != nil && slices.Equal(before.problems, []Problem{problem}) {
			return before
		}
		next.problems = []Problem{problem}
		if isOfSystem(err) { // it may go without a trace on the files
			next.found = nil
		}
	}
	return next
}

// maxFolders bounds how deeply the folders of a skill are nested.
const maxFolders = 32

// skillFiles walks through a folder of a skill.
func (p *pass) skillFiles(folder string, depth int, into *skillFolder) error {
	if depth > maxFolders {
		return fmt.Errorf("its folders are nested more than %d deep", maxFolders)
	}
	if into.folders++; into.folders > wire.MaxSkillFiles {
		return fmt.Errorf("it has more than %d folders; remove some", wire.MaxSkillFiles)
	}
	opened, err := p.opener.within.OpenFile(filepath.FromSlash(folder), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", folder, regular.Cause(err))
	}
	defer opened.Close()
	entries, err := opened.ReadDir(4 * wire.MaxSkillFiles) // not all at once: there may be more than memory holds
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read %s: %w", folder, regular.Cause(err))
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		file := path.Join(folder, e.Name())
		switch {
		case p.ended() != nil:
			return p.ended()
		case strings.HasPrefix(e.Name(), "."): // such as those of editors and of version control
			continue
		case e.IsDir():
			if err := p.skillFiles(file, depth+1, into); err != nil {
				return err
			}
			continue
		}
		info, err := p.opener.within.Stat(filepath.FromSlash(file))
		if err != nil && e.Type()&fs.ModeSymlink != 0 { // the same for all links that lead out, whatever is there
			return fmt.Errorf("the link %s leads to nothing inside of %s; put a copy in its place", path.Base(file), p.team.source.Root)
		}
		if err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("the file %s is not a regular one; remove it", path.Base(file))
		}
		into.found = append(into.found, newInput(file, info))
	}
	if len(into.found) > wire.MaxSkillFiles || len(entries) == 4*wire.MaxSkillFiles {
		return fmt.Errorf("it has more than %d files; remove some", wire.MaxSkillFiles)
	}
	return nil
}

// skillEntry returns the entry of a skill whose files were found.
func (p *pass) skillEntry(file string, s *skillFolder) (jsontext.Value, error) {
	total := int64(0)
	for _, f := range s.found {
		if total += f.info.Size(); total > wire.MaxSkillBytes {
			return nil, fmt.Errorf("its files have more than %d bytes together; remove some", wire.MaxSkillBytes)
		}
	}
	p.team.reads++
	content, err := p.opener.text(file, true)
	if err != nil {
		return nil, err
	}
	front, err := skillFront(content, path.Base(s.root))
	if err != nil {
		return nil, err
	}
	var resources []jsontext.Value
	for _, f := range s.found {
		sum, err := p.digest(path.Dir(file), f)
		if err != nil {
			return nil, err
		}
		resources = append(resources, wire.Object{}.With("uri", wire.Quote(s.uri(path.Dir(file), f.path))).
			With("digest", wire.Quote(fmt.Sprintf("sha256:%x", sum))).With("size", wire.NumberID(f.info.Size())).JSON())
	}
	return wire.Object{}.With("uri", wire.Quote(s.root+"/"+wire.SkillFile)).With("frontmatter", front).
		With("resources", wire.Array(resources)).JSON(), nil
}

// digest returns the digest of a file: the known one, unless the file has changed.
func (p *pass) digest(folder string, f input) (sum [sha256.Size]byte, err error) {
	for _, known := range []map[string]fileDigest{p.digests, p.team.digests} {
		if d, ok := known[f.path]; ok && d.isCurrent(f.info) {
			p.digests[f.path] = d
			return d.sum, nil
		}
	}
	if err := p.ended(); err != nil {
		return sum, err
	}
	p.team.reads++
	content, err := p.opener.skill(folder, f.path)
	if err != nil {
		return sum, err
	}
	if int64(len(content)) != f.info.Size() {
		return sum, fmt.Errorf("the file %s %w", path.Base(f.path), errChanging)
	}
	sum = sha256.Sum256(content)
	p.digests[f.path] = fileDigest{f, sum}
	return sum, nil
}

var errChanging = errors.New("changed while it was read")

// skillFront returns the front matter of a SKILL.md as JSON.
func skillFront(content, folder string) (jsontext.Value, error) {
	front, line, err := frontMatter(content)
	if err != nil {
		return nil, err
	}
	name, isNamed := front.Text("name")
	if err := wire.CheckSkillName(name, folder); isNamed && err != nil {
		return nil, wrong(line, "%v", err)
	}
	if description, ok := front.Text("description"); !isNamed || !ok || strings.TrimSpace(description) == "" {
		return nil, wrong(1, "a skill needs the texts name and description in its front matter")
	}
	return front.JSON(), nil
}

// FrontMatter returns that of a Markdown file as JSON, numbers as they are spelled.
func FrontMatter(content string) (jsontext.Value, error) {
	front, _, err := frontMatter(content)
	return front.JSON(), err
}

// frontMatter also returns the line of the name.
func frontMatter(content string) (front wire.Object, line int, err error) {
	d := newDocument(content)
	if d.encoding != nil {
		return nil, 0, d.encoding
	}
	fields, err := parseFrontMatter(d.front)
	if err != nil {
		return nil, 0, err
	}
	if at := slices.IndexFunc(fields, func(f field) bool { return f.name == "name" }); at >= 0 {
		line = fields[at].line
	}
	front, err = toObject(fields)
	return front, line, err
}

// skillPath returns the path of a skill in URIs: that of its folder, beneath the folder that the
// pattern spells out.
func skillPath(source *config.Files, file string) string {
	within, base := belowPattern(source, file)
	folder := path.Dir(within)
	switch folder {
	case ".":
		folder = filepath.Base(source.Folder)
	case base:
		folder = path.Base(folder)
	default:
		folder = strings.TrimPrefix(folder, base+"/")
	}
	return escaped(folder)
}

// belowPattern returns the path of a file from the team's folder, and the folder that its pattern
// spells out.
func belowPattern(source *config.Files, file string) (within, folder string) {
	within, err := filepath.Rel(source.Folder, onDisk(source, file))
	if err != nil {
		within = file
	}
	within = filepath.ToSlash(within)
	matches := func(p config.PathPattern) bool { return p.MatchHidden(within) }
	return within, source.Patterns[max(slices.IndexFunc(source.Patterns, matches), 0)].Folder()
}

// escaped returns a path as URIs have it.
func escaped(file string) string {
	segments := strings.Split(file, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return strings.Join(segments, "/")
}

// uri returns the URI of a file of the skill.
func (s *skillFolder) uri(folder, file string) string {
	return s.root + "/" + escaped(strings.TrimPrefix(file, folder+"/"))
}

// addSkills adds the skills of a block to its list.
func (b *block) addSkills(l *List) {
	for _, key := range b.found {
		file, s := key.path, b.skills[key.path]
		if s == nil {
			continue
		}
		if l.Problems = append(l.Problems, s.problems...); s.definition == nil {
			continue
		}
		l.Definitions = append(l.Definitions, s.definition)
		for _, f := range s.found {
			if l.skillFiles == nil {
				l.skillFiles = map[string]skillSource{}
			}
			l.skillFiles[s.uri(path.Dir(file), f.path)] = skillSource{path.Dir(file), f.path}
		}
	}
}

// skillSource is where a file of a skill is, by paths from the root.
type skillSource struct{ folder, file string }

// ReadSkill returns the result of reading a file of a skill in the list by its URI. It is read now,
// and may have changed since the list was made.
func (l *List) ReadSkill(source *config.Files, uri string) (jsontext.Value, error) {
	at, ok := l.skillFiles[uri]
	if !ok {
		return nil, errors.New("no skill has this file anymore")
	}
	opener, err := open(source)
	if err != nil {
		return nil, err
	}
	defer opener.close()
	content, err := opener.skill(at.folder, at.file)
	if err != nil {
		return nil, err
	}
	head := wire.Object{}.With("uri", wire.Quote(uri))
	if mime := MimeType(at.file); mime != "" {
		head = head.With("mimeType", wire.Quote(mime))
	}
	// Written into one buffer, since each copy of a large file counts.
	dst := make([]byte, 0, base64.StdEncoding.EncodedLen(len(content))+3*len(uri)+100)
	dst = head.Append(append(dst, `{"contents":[`...))
	if dst = dst[:len(dst)-1]; utf8.Valid(content) { // without the brace that ends it
		dst, err = jsontext.AppendQuote(append(dst, `,"text":`...), content)
	} else {
		dst = append(base64.StdEncoding.AppendEncode(append(dst, `,"blob":"`...), content), '"')
	}
	return append(dst, "}]}"...), err
}
