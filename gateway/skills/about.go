package skills

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxShown bounds the named files of a skill; maxGrant bounds the shown grants, in bytes.
	maxShown = 8
	maxGrant = 100
)

// About describes in one line the content of a skill, and the permissions that it requests from a
// host.
func (s *Skill) About() string {
	total := int64(0)
	for _, f := range s.Files {
		total += f.Size
	}
	about := []string{fmt.Sprintf("it is a skill of %d files, %d bytes", len(s.Files), total)}
	if s.Dynamic {
		about[0] = "it is a skill without digests, whose files only its server knows"
	}
	if others := notTexts(s.Files); others != "" {
		about = append(about, "neither texts nor images: "+others)
	}
	for _, name := range grants() {
		if value := s.Frontmatter.Get(name); value != nil {
			about = append(about, fmt.Sprintf("it asks for %s: %s", name, shownGrant(value)))
		}
	}
	return strings.Join(about, "; ")
}

// Changes lists the changed permissions that a skill requests from a host, and its new or changed
// files that are neither texts nor images.
func Changes(was, is *Skill) (what []string) {
	for _, name := range grants() {
		if before, after := was.Frontmatter.Get(name), is.Frontmatter.Get(name); string(before) != string(after) {
			what = append(what, fmt.Sprintf("%s: %s, before: %s", name, shownGrant(after), shownGrant(before)))
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(is.Files), func(f File) bool {
		before, known := was.File(f.Path)
		return known && before.Digest == f.Digest
	})
	if others := notTexts(fresh); others != "" {
		what = append(what, "new or changed files that are neither texts nor images: "+others)
	}
	return what
}

// grants are the members of a front matter that request permissions from a host.
func grants() []string { return []string{"allowed-tools", "hooks"} }

func shownGrant(value jsontext.Value) string {
	if value == nil {
		return "none"
	}
	return wire.Printable(wire.Clip(string(value), maxGrant))
}

// notTexts returns the names of the files that are neither text nor image.
func notTexts(of []File) string {
	var others []string
	for _, f := range of {
		if files.MimeType(f.Path) == "" {
			others = append(others, wire.Printable(wire.Clip(wire.UnescapeSegment(f.Path), maxGrant)))
		}
	}
	if n := len(others); n > maxShown {
		others = append(others[:maxShown], fmt.Sprintf("%d more", n-maxShown))
	}
	return strings.Join(others, ", ")
}
