package files

import (
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// served returns the formats and names of the prompts that a pass finds.
func (tr *tree) served() string {
	tr.t.Helper()
	var all []string
	l, err := newFolder(tr.upstream()).Refresh()
	tr.check(err)
	for _, p := range l.Prompts {
		all = append(all, fmt.Sprintf("%s %s", p.sign.format, p.Name))
	}
	return strings.Join(all, ", ")
}

func TestFolder_KnowsAFormatByItsSigns(t *testing.T) {
	for _, test := range []struct{ manifest, files, format, file, content, want string }{
		{"", "**/*.md", "", "commands/git/fix.md", "Fix $0.", "promptweir fix"},
		{"", "**/*.md", "", "commands/git/fix.md", "Fix $ARGUMENTS.", "claude git:fix"},
		{"", "**/*.md", "", "a.md", "---\nallowed-tools: Bash\n---\nx", "claude a"},
		{"", "**/*.md", "", "a.md", "---\ntitle: A\n---\n$ARGUMENTS", "promptweir a"},
		{"", "**/*.md", "", "a.md", "---\narguments:\n  - name: x\n---\n{{x}} $ARGUMENTS", "promptweir a"},
		{"", "**/*.md", "", "a.md", "$ARGUMENTS\n## assistant\nx", "promptweir a"},
		{"", "**/*.md", "", "a.md", "---\nsubtask: true\n---\nx", "opencode a"},
		{"", "**/*.md", "", "a.md", "---\nmode: agent\n---\nx", "vscode a"},
		{"", "**/*.md", "", "a.md", "${input:x}", "vscode a"},
		{"", "**/*.md", "", "a.md", "---\ntools: [x]\nmodel: y\n---\nx", "promptweir a"},
		{"", "**/*.md", "", "commands/a.prompt.md", "x", "vscode a"},
		{"", "**/*.md", "", "commands/a/SKILL.md", "x", "skill a"},
		{"", ".claude/commands/**/*.md", "", ".claude/commands/plan.prompt.md", "x", "claude plan.prompt"},
		{"", ".claude/commands/**/*.md", "", ".claude/commands/_x.md", "x", "claude _x"},
		{"", ".claude/commands/**/*.md", "", ".claude/commands/.x.md", "x", "claude .x"},
		{"", ".claude/commands/**/*.md", "", ".claude/commands/.git/x.md", "x", ""},
		{"", "**/*.md", "", "_x.md", "x", ""},
		{"", ".config/opencode/command/*.md", "", ".config/opencode/command/a.md", "x", "opencode a"},
		{".claude-plugin/plugin.json", "commands/**/*.md", "", "commands/git/a.md", "x", "claude git:a"},
		{".claude-plugin/marketplace.json", "**/*.md", "", "plugins/b/commands/a.md", "x", "claude a"},
		{".claude-plugin/plugin.json", "**/*.md", "", "notes.md", "x", "promptweir notes"},
		{"x/.cursor-plugin/plugin.json", "**/*.md", "", "x/commands/a.md", "x", "cursor a"},
		{"x/opencode.json", "**/*.md", "", "x/command/a.md", "x", "opencode a"},
		{"", "ext/commands/**/*.toml", "", "ext/commands/git/a.toml", `prompt = "x"`, "gemini git:a"},
		{"", "tools/**/*.md", "claude", "tools/git/a.md", "x", "claude git:a"},
		{"", "tools/**/*.md", "claude", "tools/_a.md", "x", "claude _a"},
		{"", ".claude/commands/**/*.md", "cursor", ".claude/commands/a.md", "x", "cursor a"},
		{"", "*.md", "promptweir", "a.md", "$ARGUMENTS", "promptweir a"},
		{"", "*.md", "skill", "a.md", "x", "skill a"},
	} {
		attributes := fmt.Sprintf("files = [%q]\n", test.files)
		if test.format != "" {
			attributes += fmt.Sprintf("format = %q\n", test.format)
		}
		tr := newTree(t, "docs.hcl", "team \"docs\" {\nupstream \"a\" {\n"+attributes+"}\n}\n", test.file, test.content)
		if test.manifest != "" {
			tr.write(test.manifest, "{}")
		}
		upstreamtest.Equal(t, test.want, tr.served(), "%+v", test)
	}
	// A client's folder may be above the configuration's folder.
	tr := newTree(t, ".claude/commands/docs.hcl", team("**/*.md"), ".claude/commands/git/fix.md", "Fix.", ".claude/commands/_x.md", "X")
	tr.root = tr.path(".claude/commands")
	upstreamtest.Equal(t, "claude _x, claude git:fix", tr.served(), "a cloned folder of commands")
}

// A manifest may come while the files are served.
func TestFolder_FollowsAManifest(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("commands/*.md"), "commands/a.md", "Say it.")
	f := newFolder(tr.upstream())
	tr.expect(f, map[string]string{"a": "Say it."})
	tr.write(".claude-plugin/plugin.json", "{}")
	if l, err := f.Refresh(); err != nil || l.Prompts[0].sign.format != "claude" {
		t.Errorf("%v, %+v", err, l.Prompts)
	}
}

func TestList_ServesOnePromptOfAName(t *testing.T) {
	for _, test := range []struct {
		one, other string // files
		contents   [2]string
		want       string
		problems   []problem
	}{
		{
			".claude/commands/a.md", ".claude/skills/a/SKILL.md",
			[2]string{"A", "B"},
			"skill a",
			[]problem{{Unserved, ".claude/commands/a.md", "skills/a/SKILL.md; Claude Code prefers the skill, too."}},
		},
		{".claude/commands/a.md", ".cursor/commands/a.md", [2]string{"A", "---\ndescription: y\n---\n\nA\n"}, "claude a", nil},
		{".claude/commands/a.md", ".gemini/commands/a.toml", [2]string{"A", `prompt = "A"`}, "claude a", nil},
		{
			".claude/commands/a.md", ".cursor/commands/a.md",
			[2]string{"A", "B"},
			"claude a",
			[]problem{{Broken, ".cursor/commands/a.md", "commands/a.md; rename the file, or give each client's files an upstream of its own."}},
		},
		{
			".claude/skills/a/SKILL.md", "b/a/SKILL.md",
			[2]string{"A", "B"},
			"skill a",
			[]problem{{Broken, "b/a/SKILL.md", "skills/a/SKILL.md; rename its folder."}},
		},
		{
			"a.md", "b.md",
			[2]string{"A", "---\nname: a\n---\nB"},
			"promptweir a",
			[]problem{{Broken, "b.md", "a.md; set another name in the front matter."}},
		},
	} {
		tr := newTree(t, "docs.hcl", team(test.one, test.other), test.one, test.contents[0], test.other, test.contents[1])
		l, err := newFolder(tr.upstream()).Refresh()
		tr.check(err)
		for i := range test.problems {
			test.problems[i].place = tr.path(test.problems[i].place)
		}
		checkProblems(t, test.one+" "+test.other, l.Problems, test.problems...)
		upstreamtest.Equal(t, test.want, tr.served(), "%s and %s", test.one, test.other)
	}
}

// A prompt that is withheld is not one that broke, of which the last good text stays.
func TestFolder_DropsAPromptThatIsWithheld(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("s/SKILL.md"), "s/SKILL.md", "S")
	f := newFolder(tr.upstream())
	if l, err := f.Refresh(); err != nil || len(l.Prompts) != 1 {
		t.Fatalf("%v, %+v", err, l)
	}
	tr.write("s/SKILL.md", "---\nuser-invocable: false\n---\nS")
	tr.expect(f, map[string]string{})
}

func TestList_ReportsHarmlessKeysOnceForAFolder(t *testing.T) {
	tr := newTree(t, "docs.hcl", team(".claude/commands/**/*.md"), ".claude/commands/a.md", "---\nversion: 1\nmodel: x\n---\nA",
		".claude/commands/b.md", "---\nversion: 1\nauthor: x\n---\nB", ".claude/commands/c/d.md", "---\ntags: x\n---\nD")
	l, err := newFolder(tr.upstream()).Refresh()
	tr.check(err)
	checkProblems(t, "keys", l.Problems,
		problem{Doubtful, tr.path(".claude/commands/a.md") + ":2", "These keys have no effect in a prompt: version, author (files of this folder that have any: 2)."},
		problem{Unserved, tr.path(".claude/commands/a.md") + ":3", `"model" in the front matter has no effect in a prompt`},
		problem{Doubtful, tr.path(".claude/commands/c/d.md") + ":2", "These keys have no effect in a prompt: tags (files of this folder that have any: 1)."})
}
