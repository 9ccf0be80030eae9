package catalog

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseDefinition_TellsSkillsFromPrompts(t *testing.T) {
	for raw, want := range map[string]string{`{"name":"a","uri":"skill://x/SKILL.md"}`: "<nil>", `{}`: "prompt: name must be a string", `{"name":"skill:a"}`: "are those of skills"} {
		if p, err := ParseDefinition([]byte(raw), true); p.Skill != nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}
