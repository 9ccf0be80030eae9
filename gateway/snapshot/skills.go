package snapshot

import (
	"strings"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxURI bounds the URIs that are looked up, in bytes. No file of a skill has a longer one.
const maxURI = 4096

// Skill returns the skill that an audience sees whose SKILL.md has this URI; nil if there is none.
// [Snapshot.RequestView] must have been called for the audience.
func (s *Snapshot) Skill(audience *policy.Audience, uri string) *catalog.Entry {
	root, _ := strings.CutSuffix(uri, "/"+wire.SkillFile)
	if entry := s.views.of(audience).skills()[root]; entry != nil && entry.URI() == uri {
		return entry
	}
	return nil
}

// SkillsAround yields the skills that an audience sees around a file or folder, or that begin
// there, the innermost first, each with the path from its folder.
func (s *Snapshot) SkillsAround(audience *policy.Audience, uri string) func(yield func(*catalog.Entry, string) bool) {
	return func(yield func(*catalog.Entry, string) bool) {
		skills := s.views.of(audience).skills()
		if len(uri) > maxURI || strings.HasSuffix(uri, "/") {
			return
		}
		for end := len(uri); end > 0; end = strings.LastIndexByte(uri[:end], '/') {
			if entry := skills[uri[:end]]; entry != nil && !yield(entry, strings.TrimPrefix(uri[end:], "/")) {
				return
			}
		}
	}
}
