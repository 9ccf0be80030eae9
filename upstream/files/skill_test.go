package files

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func skillTeam(mode string, patterns ...string) string {
	return strings.Replace(team(patterns...), "    files", "    skills = "+mode+"\n    files", 1)
}

func skillText(name string) string {
	return "---\nname: " + name + "\ndescription: D\nmetadata: {version: 1.10}\n---\nDo it."
}

// manifests returns the digests of the files of all skills in a list, by URI.
func manifests(t *testing.T, l *List) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, definition := range l.Definitions {
		entry, err := wire.ParseObject(definition)
		if err != nil {
			t.Fatal(err)
		}
		resources, _ := wire.ParseArray(entry.Get("resources")) // nil for a prompt
		for _, value := range resources {
			file := wire.Members(value)
			uri, _ := file.Text("uri")
			digest, _ := file.Text("digest")
			all[uri] = fmt.Sprintf("%s %s", digest, file.Get("size"))
		}
	}
	return all
}

func digestOf(content string) string {
	return fmt.Sprintf("sha256:%x %d", sha256.Sum256([]byte(content)), len(content))
}

func (f *folder) read(t *testing.T) *List {
	t.Helper()
	l, err := f.Refresh()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSkills_AreTheFoldersOfTheirFiles(t *testing.T) {
	x, y := skillText("refunds"), skillText("top")
	tr := newTree(t, "team.hcl", skillTeam("true", "skills/**/SKILL.md"), "skills/acme/refunds/SKILL.md", x, "skills/acme/refunds/a b/c.bin", "\xff\x00",
		"skills/acme/refunds/.git/config", "hidden", "skills/acme/refunds/.env", "hidden", "skills/top/SKILL.md", y)
	tr.link("c.bin", "skills/acme/refunds/a b/link.bin")
	f := newFolder(tr.upstream())
	l := f.read(t)
	want := map[string]string{
		"skill://acme/refunds/SKILL.md": digestOf(x), "skill://acme/refunds/a%20b/c.bin": digestOf("\xff\x00"),
		"skill://acme/refunds/a%20b/link.bin": digestOf("\xff\x00"), "skill://top/SKILL.md": digestOf(y),
	}
	if diff := cmp.Diff(want, manifests(t, l)); diff != "" {
		t.Fatal(diff)
	}
	if len(l.Prompts) != 2 || len(l.Definitions) != 4 || !strings.Contains(string(l.Definitions[2]), `"metadata":{"version":1.10}`) {
		t.Errorf("%d prompts, %s", len(l.Prompts), l.Definitions)
	}
	source := f.upstreams[0].Files
	result, err := l.ReadSkill(source, "skill://acme/refunds/a%20b/c.bin")
	if err != nil || !strings.Contains(string(result), base64.StdEncoding.EncodeToString([]byte("\xff\x00"))) {
		t.Errorf("%s, %v", result, err)
	}
	if result, err = l.ReadSkill(source, "skill://top/SKILL.md"); err != nil || !strings.Contains(string(result), `"text":"---\nname: top`) {
		t.Errorf("%s, %v", result, err)
	}
	for _, uri := range []string{"skill://top/../top/SKILL.md", "skill://acme/refunds/.env", "skill://top", "skill://top/none"} {
		if result, err := l.ReadSkill(source, uri); err == nil {
			t.Errorf("%s: %s", uri, result)
		}
	}
}

func TestSkills_PathBeginsBelowWhatThePatternSpellsOut(t *testing.T) {
	for pattern, want := range map[string]string{
		"a/b/SKILL.md": "skill://b/SKILL.md", "a/*/SKILL.md": "skill://b/SKILL.md", "**/SKILL.md": "skill://a/b/SKILL.md", "*/b/SKILL.md": "skill://a/b/SKILL.md",
	} {
		tr := newTree(t, "team.hcl", skillTeam(`"only"`, pattern), "a/b/SKILL.md", skillText("b"))
		l := newFolder(tr.upstream()).read(t)
		if diff := cmp.Diff(map[string]string{want: digestOf(skillText("b"))}, manifests(t, l)); diff != "" || len(l.Prompts) > 0 {
			t.Errorf("%s: %d prompts, %s", pattern, len(l.Prompts), diff)
		}
	}
}

// A change of one file reads the files of its skill, and SKILL.md for its front matter.
func TestSkills_ChangeCostsOneSkill(t *testing.T) {
	files := []string{"team.hcl", skillTeam(`"only"`, "skills/**/SKILL.md")}
	for i := range 50 {
		folder := fmt.Sprintf("skills/s%d/", i)
		files = append(files, folder+"SKILL.md", skillText(fmt.Sprintf("s%d", i)), folder+"a.txt", "a", folder+"b.txt", "b")
	}
	tr := newTree(t, files...)
	f := newFolder(tr.upstream())
	tr.age()
	f.pass()
	before := f.read(t)
	reads := f.reads
	if again := f.read(t); again != before || f.reads != reads {
		t.Errorf("a pass without a change reads %d files", f.reads-reads)
	}
	tr.write("skills/s7/a.txt", "changed")
	after := f.read(t)
	upstreamtest.Equal(t, digestOf("changed"), manifests(t, after)["skill://s7/a.txt"], "digest of the changed file")
	upstreamtest.Equal(t, 4, f.reads-reads, "files that the change reads")
	tr.remove("skills/s7/b.txt")
	if l := f.read(t); len(manifests(t, l)) != 149 || len(manifests(t, after)) != 150 {
		t.Error("the removal does not show")
	}
}

func TestSkills_BrokenAreLeftOutAndReported(t *testing.T) {
	tr := newTree(t, "team.hcl", skillTeam(`"only"`, "skills/**/SKILL.md"), "secret.txt", "secret", "skills/good/SKILL.md", skillText("good"),
		"skills/name/SKILL.md", skillText("other"), "skills/Upper/SKILL.md", skillText("Upper"), "skills/bare/SKILL.md", "No front matter",
		"skills/out/SKILL.md", skillText("out"), "skills/folder/SKILL.md", skillText("folder"), "skills/fifo/SKILL.md", skillText("fifo"),
		"skills/many/SKILL.md", skillText("many"), "skills/large/SKILL.md", skillText("large"), "skills/sibling/SKILL.md", skillText("sibling"))
	tr.link("../../secret.txt", "skills/out/a.txt")
	tr.link("../good/SKILL.md", "skills/sibling/a.md")
	tr.link("../good", "skills/folder/good")
	tr.check(exec.CommandContext(t.Context(), "mkfifo", tr.path("skills/fifo/pipe")).Run())
	for i := range 512 {
		tr.write(fmt.Sprintf("skills/many/%d.txt", i), "")
	}
	tr.write("skills/large/a.bin", "")
	tr.check(os.Truncate(tr.path("skills/large/a.bin"), 16<<20))
	f := newFolder(tr.upstream())
	l := f.read(t)
	upstreamtest.Equal(t, map[string]string{"skill://good/SKILL.md": digestOf(skillText("good"))}, manifests(t, l), "manifests")
	problems := fmt.Sprint(l.Broken())
	for _, want := range []string{
		"skills/name/SKILL.md:2: Broken skill: The name \"other\" must be that of the skill's folder", "Upper\" must be 1 to 64", "needs the texts name and description",
		"or of another skill", "file good is not a regular one", "file pipe is not a regular one", "more than 512 files", "more than 16777216 bytes",
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in %s", want, problems)
		}
	}
	upstreamtest.Equal(t, 9, len(l.Broken()), "problems:\n%s", problems)
	// A link that replaces a file is not followed out of the folder.
	tr.remove("skills/good/SKILL.md")
	tr.link("../../secret.txt", "skills/good/SKILL.md")
	if result, err := l.ReadSkill(f.upstreams[0].Files, "skill://good/SKILL.md"); err == nil {
		t.Errorf("a link is followed: %s", result)
	}
	// Nor is a FIFO waited for.
	tr.remove("skills/good/SKILL.md")
	tr.check(exec.CommandContext(t.Context(), "mkfifo", tr.path("skills/good/SKILL.md")).Run())
	if result, err := l.ReadSkill(f.upstreams[0].Files, "skill://good/SKILL.md"); err == nil {
		t.Errorf("a FIFO is read: %s", result)
	}
}

// A linked skill folder outside of the team's folder is refused like a linked file. The report reveals nothing about the target.
func TestSkills_LinkedFoldersOutsideAreReported(t *testing.T) {
	outside := newTree(t, "there/SKILL.md", skillText("there"), "there/a.txt", "SECRET")
	for pattern, reported := range map[string][]string{
		"skills/*/SKILL.md":         {"there", "gone"},
		".claude/skills/**/*.md":    {"there", "gone"},
		"prompts/**/SKILL.md":       {"there", "gone"},
		"prompts/**/*.md":           nil, // it may be any folder
		"skills/**/REFERENCE.md":    nil,
		"skills/{there,x}/SKILL.md": {"there"},
	} {
		for _, mode := range []string{"false", "true", `"only"`} {
			t.Run(pattern+" with skills = "+mode, func(t *testing.T) {
				base, _, _ := strings.Cut(pattern, "/*")
				base, _, _ = strings.Cut(base, "/{")
				tr := newTree(t, "team.hcl", skillTeam(mode, pattern))
				tr.check(os.MkdirAll(tr.path(base), 0o700))
				for _, name := range []string{"there", "gone"} {
					tr.link(outside.path(name), path.Join(base, name))
				}
				l := newFolder(tr.upstream()).read(t)
				if len(l.Definitions) > 0 {
					t.Errorf("listed: %s", l.Definitions)
				}
				places := map[string]bool{}
				for _, p := range l.Broken() {
					places[p.Place()] = true
					if !strings.Contains(p.Detail, "leads out of "+tr.root+"; put a copy in its place") {
						t.Errorf("problem %s", p)
					}
				}
				want := map[string]bool{}
				for _, name := range reported {
					want[tr.path(path.Join(base, name, "SKILL.md"))] = true
				}
				upstreamtest.Equal(t, want, places, "reported")
			})
		}
	}
}

func TestSkills_ShowNothingThatIsNotTheirs(t *testing.T) {
	tr := newTree(t, "team.hcl", skillTeam(`"only"`, "*/SKILL.md"), "a/SKILL.md", skillText("a"), "a/.env", "secret",
		"b/SKILL.md", skillText("b"), "c/SKILL.md", skillText("c"), "d/SKILL.md", skillText("d"), "d/.git/config", "secret",
		"e/SKILL.md", skillText("e"))
	outside := path.Join(t.TempDir(), "there")
	tr.check(os.WriteFile(outside, []byte("secret"), 0o600))
	tr.link(".env", "a/link.txt")
	tr.link(outside, "b/link.txt")
	tr.link(outside+"-not", "c/link.txt")
	tr.link(".git/config", "d/link.txt")
	for i := range wire.MaxSkillFiles {
		tr.check(os.MkdirAll(tr.path(fmt.Sprintf("e/%d", i)), 0o700))
	}
	l := newFolder(tr.upstream()).read(t)
	if len(l.Definitions) > 0 {
		t.Errorf("listed: %s", l.Definitions)
	}
	var problems []string
	for _, p := range l.Broken() {
		problems = append(problems, strings.ReplaceAll(p.Detail, tr.root, "ROOT"))
	}
	const hidden = "The file link.txt is a link to a file of another kind, or of another skill; put a copy in its place; it is left out."
	const gone = "The link link.txt leads to nothing inside of ROOT; put a copy in its place; it is left out."
	want := []string{hidden, gone, gone, hidden, "It has more than 512 folders; remove some; it is left out."}
	upstreamtest.Equal(t, want, problems, "problems")
}

// A skill may be all that there is beside a configuration in one file.
func TestSkills_HaveNoConfiguration(t *testing.T) {
	tr := newTree(t, "skill/team.hcl", skillTeam(`"only"`, "SKILL.md"), "skill/SKILL.md", skillText("skill"))
	tr.root = tr.path("skill")
	l := newFolder(tr.upstream()).read(t)
	if got := fmt.Sprint(l.Broken()); len(l.Definitions) > 0 || !strings.Contains(got, "file team.hcl is configuration, which may hold secrets") {
		t.Errorf("%s, %s", got, l.Definitions)
	}
}

// busy is a context that does something whenever a pass asks whether it has ended.
type busy struct {
	context.Context

	do func()
}

func (b busy) Err() error {
	b.do()
	return b.Context.Err()
}

// A skill is not gone while one of its files is written.
func TestSkills_StayWhileTheirFilesChange(t *testing.T) {
	tr := newTree(t, "team.hcl", skillTeam(`"only"`, "skills/**/SKILL.md"), "skills/a/SKILL.md", skillText("a"), "skills/a/a.txt", "")
	f := newFolder(tr.upstream())
	f.read(t)
	text := ""
	results, err := f.Team.Refresh(busy{t.Context(), func() {
		text += "x"
		tr.write("skills/a/a.txt", text)
	}}, f.upstreams)
	if err != nil || len(results[0].List.Definitions) != 1 {
		t.Errorf("%v, %+v", err, results)
	}
	upstreamtest.Equal(t, digestOf(text), manifests(t, f.read(t))["skill://a/a.txt"], "digest in the manifest")
}

// A host may take the front matter for more than its fields.
func TestSkills_FrontMatterIsWhatHostsSee(t *testing.T) {
	for more, want := range map[string]string{
		"<<: {allowed-tools: Bash}": ":4: Broken skill: The merge key << is not supported", "metadata: {<<: {a: b}}": ":4: Broken skill: The merge key",
		"...\nallowed-tools: Bash": "Broken skill: The front matter has two documents", "--- {allowed-tools: Bash}": "Broken skill: The front matter has two documents",
		"...": "", "# a comment": "", `"<<": a`: "",
	} {
		text := "---\nname: a\ndescription: D\n" + more + "\n---\nDo it."
		tr := newTree(t, "team.hcl", skillTeam(`"only"`, "*/SKILL.md"), "a/SKILL.md", text)
		l := newFolder(tr.upstream()).read(t)
		if got := fmt.Sprint(l.Broken()); (len(l.Definitions) > 0) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %s, %s", more, got, l.Definitions)
		}
	}
}
