package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxURI bounds the URIs of a skill, in bytes.
	maxURI = 2048
	// maxQuoted bounds the URIs and paths in errors, in bytes.
	maxQuoted = 256
)

// Skill is the content of a skill's entry.
type Skill struct {
	// Name is the name in the front matter, which is also the last segment of the path.
	Name string
	// Root is the server's URI of the skill's folder, and Path the part after the scheme.
	Root, Path string
	// Files are sorted by path; empty if the content is dynamic.
	Files   []File
	Dynamic bool
	// Facts is the definition for conditions: the name, the description and, as _meta, the front
	// matter, but not the manifest.
	Facts jsontext.Value
	// Frontmatter is the front matter of SKILL.md.
	Frontmatter wire.Object
	// Entry is the server's whole entry. Hash is its hash, which the lock file approves.
	Entry jsontext.Value
	Hash  [sha256.Size]byte
}

// File is a file in a skill's manifest.
type File struct {
	// Path is relative to the skill's folder, in the spelling of its URI.
	Path string
	// Digest is "sha256:" and 64 hexadecimal digits; empty if the skill is dynamic. Size is in bytes.
	Digest string
	Size   int64
}

// File returns the file at a path; ok is false if there is none.
func (s *Skill) File(path string) (file File, ok bool) {
	at, found := slices.BinarySearchFunc(s.Files, path, func(f File, path string) int { return strings.Compare(f.Path, path) })
	if found {
		return s.Files[at], true
	}
	// A dynamic skill may have any file below its folder: only the server has the list of its
	// files.
	return File{Path: path}, s.Dynamic && checkSegments(path) == nil
}

// Parse reads the entry of a skill, and refuses an entry that hosts must not load. The error names
// the skill.
func Parse(raw jsontext.Value) (*Skill, error) {
	entry, err := wire.ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("skill: %w", err)
	}
	uri, _ := entry.Text("uri")
	s, err := parse(entry, uri)
	if err != nil {
		return nil, fmt.Errorf("skill %q: %w", wire.Clip(uri, maxQuoted), err)
	}
	return s, nil
}

func parse(entry wire.Object, uri string) (*Skill, error) {
	if odd := entry.Folded("uri", "frontmatter", "resources", "_meta"); odd != "" {
		return nil, fmt.Errorf("member %q differs from a known member only in case", odd)
	}
	root, isSkill := strings.CutSuffix(uri, "/"+wire.SkillFile)
	scheme, path, hasScheme := strings.Cut(root, ":")
	if !isSkill || !hasScheme || !isScheme(scheme) || len(uri) > maxURI {
		return nil, fmt.Errorf("uri must be a URI of at most %d bytes that ends in /%s", maxURI, wire.SkillFile)
	}
	// The authority is the first segment: skill://docs/x and skill:docs/x have the same path.
	path = strings.TrimLeft(path, "/")
	if err := checkSegments(path); err != nil {
		return nil, err
	}
	s := &Skill{Root: root, Path: path, Entry: entry.JSON()}
	if err := s.readFrontmatter(entry, path[strings.LastIndexByte(path, '/')+1:]); err != nil {
		return nil, err
	}
	if err := s.readManifest(entry.Get("resources"), uri); err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	if meta := entry.Get("_meta"); meta != nil && meta.Kind() != '{' {
		return nil, errors.New("_meta must be an object")
	}
	var err error
	s.Hash, err = wire.Hash(s.Entry)
	return s, err
}

func isScheme(scheme string) bool {
	return scheme != "" && strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
}

// checkSegments refuses a URI's path that becomes a different path when it is decoded or cleaned.
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
	if wire.Longer(resources, wire.MaxSkillFiles) { // before splitting a million of them
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
		// Some readers treat paths with equal folds as one file.
		name, _ := wire.FoldPath(file.Path) // it was checked
		if folded[name] {
			return fmt.Errorf("has %q twice, perhaps in another case or form", wire.Clip(file.Path, maxQuoted))
		}
		folded[name] = true
		if total += file.Size; total > wire.MaxSkillBytes { // each is smaller, so the sum cannot overflow
			return fmt.Errorf("has more than %d bytes of files", wire.MaxSkillBytes)
		}
		s.Files = append(s.Files, file)
	}
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	// File requires sorted files.
	if _, ok := s.File(wire.SkillFile); !ok {
		return fmt.Errorf("lacks %s", uri)
	}
	return nil
}

func (s *Skill) readFile(file wire.Object) (File, error) {
	uri, _ := file.Text("uri")
	path, within := strings.CutPrefix(uri, s.Root+"/")
	digest, _ := file.Text("digest")
	sum, _ := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	size, isSize := wire.Int(file.Get("size"))
	switch {
	case !within || len(uri) > maxURI:
		return File{}, fmt.Errorf("uri %q is not in the folder of the skill", wire.Clip(uri, maxQuoted))
	// The digest is encoded again, because DecodeString accepts capitals, and digests are compared
	// as texts.
	case len(sum) != sha256.Size || digest != fmt.Sprintf("sha256:%x", sum):
		return File{}, errors.New("digest must be sha256: and 64 hexadecimal digits in lower case")
	case !isSize || size < 0 || size > wire.MaxSkillBytes:
		return File{}, fmt.Errorf("size must be a number of bytes, at most %d", wire.MaxSkillBytes)
	}
	// A substring would keep the whole uri in memory.
	return File{Path: strings.Clone(path), Digest: digest, Size: size}, checkSegments(path)
}
