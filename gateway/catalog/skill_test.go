package catalog

import (
	"strings"
	"testing"
)

// A manifest of a million entries is refused before they are split.
func TestParseDefinition_RefusesAHugeManifestCheaply(t *testing.T) {
	raw := []byte(`{"uri":"skill://x/SKILL.md","frontmatter":{"name":"x","description":"D"},"resources":[` + strings.Repeat("{},", 999_999) + `{}]}`)
	var err error
	allocations := testing.AllocsPerRun(3, func() { _, err = ParseDefinition(raw, true) })
	if err == nil || !strings.Contains(err.Error(), "has more than 512 files") {
		t.Error(err)
	}
	if allocations > 100 {
		t.Errorf("%f allocations", allocations)
	}
}
