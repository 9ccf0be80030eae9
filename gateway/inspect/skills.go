package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxShown bounds the files of a skill that are named, and maxGrant what it asks for, in bytes.
	maxShown = 8
	maxGrant = 100
)

// addSkill says of a skill what it has and may do on a host, which no prompt may.
func (c *admissionChain) addSkill() {
	if c.prompt != nil && c.prompt.Skill != nil {
		c.addStep(c.source.Place, false, aboutSkill(c.prompt.Skill))
	}
}

func aboutSkill(s *catalog.Skill) string {
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

// skillChanges says what else a skill may do than before.
func skillChanges(was, is *catalog.Skill) (what []string) {
	for _, name := range grants() {
		if before, after := was.Frontmatter.Get(name), is.Frontmatter.Get(name); string(before) != string(after) {
			what = append(what, fmt.Sprintf("%s: %s, before: %s", name, shownGrant(after), shownGrant(before)))
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(is.Files), func(f catalog.ManifestFile) bool {
		before, known := was.File(f.Path)
		return known && before.Digest == f.Digest
	})
	if others := notTexts(fresh); others != "" {
		what = append(what, "new or changed files that are neither texts nor images: "+others)
	}
	return what
}

// grants are the members of a frontmatter that ask a host for something.
func grants() []string { return []string{"allowed-tools", "hooks"} }

func shownGrant(value jsontext.Value) string {
	if value == nil {
		return "none"
	}
	return wire.Printable(wire.Clip(string(value), maxGrant))
}

// notTexts names the files that are neither texts nor images.
func notTexts(of []catalog.ManifestFile) string {
	var others []string
	for _, f := range of {
		if files.MimeType(f.Path) == "" {
			others = append(others, wire.Printable(wire.Clip(catalog.Unescaped(f.Path), maxGrant)))
		}
	}
	if n := len(others); n > maxShown {
		others = append(others[:maxShown], fmt.Sprintf("%d more", n-maxShown))
	}
	return strings.Join(others, ", ")
}
