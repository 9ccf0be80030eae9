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

// Skill is a skill's entry in an upstream's list, parsed and checked.
type Skill struct {
	// Name is the name in the front matter, which is also the last segment of the path.
	Name string
	// Root is the URI under which the upstream serves the skill's folder.
	Root string
	// Path is the part of Root after the scheme.
	Path string
	// Files is the manifest, sorted by path. It is empty if Dynamic is true.
	Files []File
	// Dynamic is true if only the upstream has the list of files.
	Dynamic bool
	// Facts is the definition that conditions read: the name, the description and, as _meta, the front
	// matter, but not the manifest.
	Facts jsontext.Value
	// Frontmatter is the front matter of SKILL.md.
	Frontmatter wire.Object
	// Entry is the whole entry of the upstream.
	Entry jsontext.Value
	// Hash is the hash of Entry that the lock file approves.
	Hash [sha256.Size]byte
}

// File is a file in a skill's manifest.
type File struct {
	// Path is relative to the skill's folder, and escaped as in the URI.
	Path string
	// Digest is "sha256:" and 64 hexadecimal digits, or "" if the skill is dynamic.
	Digest string
	// Size is in bytes. It is 0 if the skill is dynamic.
	Size int64
}

// File returns the file at a path; ok is false if there is no such file. In a dynamic skill, ok is
// true for every valid path.
func (s *Skill) File(path string) (file File, ok bool) {
	at, found := slices.BinarySearchFunc(s.Files, path, func(f File, path string) int { return strings.Compare(f.Path, path) })
	if found {
		return s.Files[at], true
	}
	return File{Path: path}, s.Dynamic && checkSegments(path) == nil
}

// Parse parses the entry of a skill. It returns an error for an entry that clients must not load. The
// error names the skill.
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
	// The authority of the URI is the first segment: skill://docs/x and skill:docs/x have the same path.
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

// checkSegments returns an error for a path that leads out of its folder once it is decoded, or that is
// not a file name on every system.
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
	if wire.Longer(resources, wire.MaxSkillFiles) { // before ParseArray, which would split a million files
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
		// Some file systems treat paths with the same folded form as one file.
		name, _ := wire.FoldPath(file.Path) // no error: readFile has checked the path
		if folded[name] {
			return fmt.Errorf("has %q twice, perhaps in another case or form", wire.Clip(file.Path, maxQuoted))
		}
		folded[name] = true
		if total += file.Size; total > wire.MaxSkillBytes { // no overflow: each size is at most MaxSkillBytes
			return fmt.Errorf("has more than %d bytes of files", wire.MaxSkillBytes)
		}
		s.Files = append(s.Files, file)
	}
	// Sort first: s.File is a binary search.
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
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
	// Encode the digest again: DecodeString accepts capitals, but digests are compared as strings.
	case len(sum) != sha256.Size || digest != fmt.Sprintf("sha256:%x", sum):
		return File{}, errors.New("digest must be sha256: and 64 hexadecimal digits in lower case")
	case !isSize || size < 0 || size > wire.MaxSkillBytes:
		return File{}, fmt.Errorf("size must be a number of bytes, at most %d", wire.MaxSkillBytes)
	}
	// Clone: a substring would keep the whole uri in memory.
	return File{Path: strings.Clone(path), Digest: digest, Size: size}, checkSegments(path)
}
