package wire_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestFoldPath_IsWhatTheLeastCarefulReaderSees(t *testing.T) {
	for path, want := range map[string]string{
		"a": "a", "A/b%20C.md": "a/b c.md", "%53KILL.md": "skill.md", "%2553KILL.md": "skill.md", "\uff33KILL.md": "skill.md", "%C3%89": "é", "100%25": "100%",
		"..a": "", "a/..b": "", "a..": "", "a.": "", "a%20": "", ".. ": "", "%20..": "", "%252e%252e": "", ".%09.": "", "\uff0e\uff0e": "", "..;": "", ".claude/settings.json": "",
		"%25252e": "", "\uff052e\uff052e": "", "": "", "a//b": "", "/a": "", "a/": "", "a%2fb": "", "a%255cb": "", "a\uff0fb": "", "%00": "", "a%0Ab": "", "a?b": "", "a#b": "", "%zz": "",
		"C:x.md": "", "a%3Ab": "", "con": "", "Con.md": "", "a/LPT1.txt": "", "com\u00b9": "", "NUL .x": "", "conin$": "", "console.md": "console.md", "com10": "com10", "auxiliary": "auxiliary",
	} {
		got, err := wire.FoldPath(path)
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "is not the name of a file or a folder") {
			t.Errorf("%q: %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestIsSkillFile_KnowsEverySpelling(t *testing.T) {
	for path, want := range map[string]bool{
		"SKILL.md": true, "a/skill.md": true, "skill://x/%53kill.MD": true, "a/SKILL.md.txt": false, "SKILL.md/a": false, "..": false, "": false,
	} {
		upstreamtest.Equal(t, want, wire.IsSkillFile(path), "IsSkillFile(%q)", path)
	}
}
