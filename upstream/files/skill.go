package files

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/safefile"
	"github.com/promptweir/promptweir/upstream/wire"
)

// skillFolder is a folder with a SKILL.md. All regular files below the folder belong to the skill,
// except hidden files.
type skillFolder struct {
	// definition is the entry of the skill. If the skill is broken, it is nil, and problems
	// explains why.
	definition jsontext.Value
	problems   []Problem
	found      []input
	// root is the URI of the folder.
	root string
}

// addSkills finds the skills of a block. It does not read the files of an unchanged skill again.
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

// skillAt returns the skill of a SKILL.md: the previous skill if nothing has changed, and otherwise
// a new skill.
func (p *pass) skillAt(b *block, file string) *skillFolder {
	next := &skillFolder{root: "skill://" + skillPath(b.upstream.Files, file)}
	err := p.skillFiles(path.Dir(file), next)
	before, isSame := b.skills[file], func(a, b input) bool { return a.path == b.path && a.isCurrent(b.info) }
	if err == nil {
		if before != nil && before.root == next.root && slices.EqualFunc(before.found, next.found, isSame) {
			return before
		}
		next.definition, err = p.skillEntry(file, next)
	}
	if err != nil {
		r := report{shown: func(file string) string { return onDisk(p.team.source, file) }}
		problem := r.problem(Broken, file, lineOf(err), "Broken skill", err.Error()+"; it is left out")
		// Keep the pointer: the block compares pointers to recognise an unchanged list.
		if before != nil && slices.Equal(before.problems, []Problem{problem}) {
			return before
		}
		next.problems = []Problem{problem}
		if isOfSystem(err) { // the cause may go away without a change of the files
			next.found = nil
		}
	}
	return next
}

// skillFiles adds the files in a skill's folder. The folder may be a link. Links to folders below
// it are not followed.
func (p *pass) skillFiles(folder string, into *skillFolder) error {
	folders := 0
	return fs.WalkDir(p.opener.within.FS(), folder, func(file string, e fs.DirEntry, err error) error {
		isHidden := file != folder && strings.HasPrefix(path.Base(file), ".") // for example, a file of an editor or of version control
		switch {
		case p.ended() != nil:
			return p.ended()
		case err != nil && !isOfSystem(err):
			return p.opener.outside(folder)
		case err != nil:
			return fmt.Errorf("cannot read %s: %w", file, safefile.Cause(err))
		case e.IsDir() && isHidden:
			return fs.SkipDir
		case isHidden:
			return nil
		case e.IsDir():
			if folders++; folders > wire.MaxSkillFiles {
				return fmt.Errorf("it has more than %d folders; remove some", wire.MaxSkillFiles)
			}
			return nil
		}
		info, err := p.opener.within.Stat(filepath.FromSlash(file))
		switch {
		case err != nil && e.Type()&fs.ModeSymlink != 0: // the same error for all links that lead out of the root, so that it reveals nothing
			return fmt.Errorf("the link %s leads to nothing inside of %s; put a copy in its place", path.Base(file), p.team.source.Root)
		case err != nil || !info.Mode().IsRegular():
			return fmt.Errorf("the file %s is not a regular one; remove it", path.Base(file))
		case len(into.found) == wire.MaxSkillFiles:
			return fmt.Errorf("it has more than %d files; remove some", wire.MaxSkillFiles)
		}
		into.found = append(into.found, newInput(file, info))
		return nil
	})
}

// skillEntry returns the entry of a skill with the given files.
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
		if err := p.ended(); err != nil {
			return nil, err
		}
		p.team.reads++
		content, err := p.opener.skill(path.Dir(file), f.path)
		if err != nil {
			return nil, err
		}
		resources = append(resources, wire.Object{}.With("uri", wire.Quote(s.uri(path.Dir(file), f.path))).
			With("digest", wire.Quote(fmt.Sprintf("sha256:%x", sha256.Sum256(content)))).With("size", wire.NumberID(int64(len(content)))).JSON())
	}
	return wire.Object{}.With("uri", wire.Quote(s.root+"/"+wire.SkillFile)).With("frontmatter", front).
		With("resources", wire.Array(resources)).JSON(), nil
}

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

// FrontMatter returns the front matter of a Markdown file as JSON. Numbers keep their spelling.
func FrontMatter(content string) (jsontext.Value, error) {
	front, _, err := frontMatter(content)
	return front.JSON(), err
}

// frontMatter returns the front matter of a Markdown file, and the line of its name, or 0 if it has
// no name.
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

// skillPath returns the path of a skill in URIs. It is the path of the skill's folder below the
// folder that the pattern spells out. If both are the same folder, it is the name of that folder.
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

// belowPattern returns the path of a file from the team's folder, and the folder that the matching pattern spells out.
func belowPattern(source *config.Files, file string) (within, folder string) {
	within, err := filepath.Rel(source.Folder, onDisk(source, file))
	if err != nil {
		within = file
	}
	within = filepath.ToSlash(within)
	matches := func(p config.PathPattern) bool { return p.MatchHidden(within) }
	return within, source.Patterns[max(slices.IndexFunc(source.Patterns, matches), 0)].Folder()
}

// escaped returns a path with each segment escaped for a URI.
func escaped(file string) string {
	return strings.Join(exslices.CastFunc(strings.Split(file, "/"), url.PathEscape), "/")
}

// uri returns the URI of a file of the skill. folder and file are the paths of the skill's folder
// and of the file, from the root.
func (s *skillFolder) uri(folder, file string) string {
	return s.root + "/" + escaped(strings.TrimPrefix(file, folder+"/"))
}

// addSkills adds the definitions, files and problems of a block's skills to the block's list.
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

// skillSource is the location of a skill's file: the skill's folder and the file, as paths from the
// root.
type skillSource struct{ folder, file string }

// ReadSkill returns the result of reading a skill's file by its URI. It reads the current file, which may be
// newer than the list.
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
	resource := wire.Object{}.With("uri", wire.Quote(uri)).WithText("mimeType", MimeType(at.file))
	if utf8.Valid(content) {
		resource = resource.With("text", wire.Quote(string(content)))
	} else {
		resource = resource.With("blob", wire.Quote(base64.StdEncoding.EncodeToString(content)))
	}
	return wire.Object{}.With("contents", wire.Array([]jsontext.Value{resource.JSON()})).JSON(), nil
}
