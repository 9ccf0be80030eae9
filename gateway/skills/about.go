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
	// maxNamed bounds the file names in a line.
	maxNamed = 8
	// maxQuotedText bounds a file name or a permission that a line quotes, in bytes.
	maxQuotedText = 100
)

// About describes a skill in one line: its files, and the permissions that it requests from a client.
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
			about = append(about, fmt.Sprintf("it asks for %s: %s", name, printableGrant(value)))
		}
	}
	return strings.Join(about, "; ")
}

// Changes lists changes of a skill that need attention: changes of the permissions that it requests
// from a client, and new or changed files that are neither texts nor images.
func Changes(was, is *Skill) (what []string) {
	for _, name := range grants() {
		if before, after := was.Frontmatter.Get(name), is.Frontmatter.Get(name); string(before) != string(after) {
			what = append(what, fmt.Sprintf("%s: %s, before: %s", name, printableGrant(after), printableGrant(before)))
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(is.Files), func(f File) bool {
		before, existed := was.File(f.Path)
		return existed && before.Digest == f.Digest
	})
	if others := notTexts(fresh); others != "" {
		what = append(what, "new or changed files that are neither texts nor images: "+others)
	}
	return what
}

// grants returns the members of front matter that request permissions from a client.
func grants() []string { return []string{"allowed-tools", "hooks"} }

func printableGrant(value jsontext.Value) string {
	if value == nil {
		return "none"
	}
	return wire.Printable(wire.Clip(string(value), maxQuotedText))
}

// notTexts lists the names of the files that are neither texts nor images. It returns "" if there are none.
func notTexts(of []File) string {
	var others []string
	for _, f := range of {
		if files.MimeType(f.Path) == "" {
			others = append(others, wire.Printable(wire.Clip(wire.UnescapeSegment(f.Path), maxQuotedText)))
		}
	}
	if n := len(others); n > maxNamed {
		others = append(others[:maxNamed], fmt.Sprintf("%d more", n-maxNamed))
	}
	return strings.Join(others, ", ")
}
