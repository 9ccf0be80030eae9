package inspect

import (
	"fmt"
	"strings"

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
	total, others := int64(0), []string{}
	for _, f := range s.Files {
		if total += f.Size; files.MimeType(f.Path) == "" {
			others = append(others, wire.Printable(wire.Clip(catalog.Unescaped(f.Path), maxGrant)))
		}
	}
	about := []string{fmt.Sprintf("it is a skill of %d files, %d bytes", len(s.Files), total)}
	if s.Dynamic {
		about[0] = "it is a skill without digests, whose files only its server knows"
	}
	if n := len(others); n > maxShown {
		others = append(others[:maxShown], fmt.Sprintf("%d more", n-maxShown))
	}
	if len(others) > 0 {
		about = append(about, "not texts or images: "+strings.Join(others, ", "))
	}
	for _, name := range []string{"allowed-tools", "hooks"} {
		if value := s.Frontmatter.Get(name); value != nil {
			about = append(about, fmt.Sprintf("it asks for %s: %s", name, wire.Printable(wire.Clip(string(value), maxGrant))))
		}
	}
	return strings.Join(about, "; ")
}
