package config

import (
	"strings"
	"testing"
)

// positionOf returns the position that a path leads to; "." is none.
func positionOf(p PathPattern, path string) PathPosition {
	at := p.Start()
	if path == "." {
		return at
	}
	for name := range strings.SplitSeq(path, "/") {
		at = p.Next(at, name)
	}
	return at
}

func TestPathPattern_MatchesWithinAndOverFolders(t *testing.T) {
	for _, test := range []struct {
		pattern string
		match   []string
		differs []string
	}{
		{"prompts/*.md", []string{"prompts/a.md"}, []string{"a.md", "prompts/b/a.md", "prompts/a.txt", "prompts/.a.md", "prompts/_a.md"}},
		{"prompts/**/*.md", []string{"prompts/a.md", "prompts/b/a.md", "prompts/b/c/a.md"}, []string{"a.md", "prompts/.git/a.md", "prompts/_parts/a.md", "other/prompts/a.md"}},
		{"**/*.prompt.md", []string{"a.prompt.md", "x/y/a.prompt.md"}, []string{"a.md", ".github/prompts/a.prompt.md"}},
		{".claude/commands/**/*.md", []string{".claude/commands/a.md", ".claude/commands/git/a.md"}, []string{"claude/commands/a.md", ".claude/a.md"}},
		{"**/SKILL.md", []string{"SKILL.md", "a/SKILL.md", "a/b/SKILL.md"}, []string{"SKILLS.md", "a/skill.md"}},
		{"a/**/b/**/c.md", []string{"a/b/c.md", "a/x/b/y/z/c.md", "a/b/b/c.md"}, []string{"a/c.md", "b/c.md"}},
		{"_drafts/?[ab].md", []string{"_drafts/xa.md"}, []string{"drafts/xa.md", "_drafts/xc.md"}},
		{"..2026/*.md", nil, []string{"2026/a.md"}},
	} {
		p, err := parsePathPattern(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range test.match {
			if !p.Ends(positionOf(p, path)) {
				t.Errorf("%s does not match %s", test.pattern, path)
			}
		}
		for _, path := range test.differs {
			if p.Ends(positionOf(p, path)) {
				t.Errorf("%s matches %s", test.pattern, path)
			}
		}
	}
}

func TestPathPattern_EntersOnlyFoldersThatCanMatch(t *testing.T) {
	p, err := parsePathPattern("prompts/*/de/**/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]bool{
		".": true, "prompts": true, "prompts/x": true, "prompts/x/de": true, "prompts/x/de/y/z": true,
		"other": false, "prompts/x/en": false, "prompts/x/de/.git": false,
	} {
		if got := p.Enters(positionOf(p, folder)); got != want {
			t.Errorf("Enters(%s) = %t, want %t", folder, got, want)
		}
	}
	if got := p.Folder(); got != "prompts" {
		t.Errorf("Folder() = %s, want prompts", got)
	}
}
