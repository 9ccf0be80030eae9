package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// tree is a folder in which a test changes files.
type tree struct {
	t    testing.TB
	root string
}

func newTree(t testing.TB, files ...string) *tree {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{t, root}
	for i := 0; i < len(files); i += 2 {
		tr.write(files[i], files[i+1])
	}
	return tr
}

func (tr *tree) path(file string) string { return filepath.Join(tr.root, file) }

// write replaces a file as a whole.
func (tr *tree) write(file, content string) {
	tr.t.Helper()
	path := tr.path(file)
	tr.check(os.MkdirAll(filepath.Dir(path), 0o700))
	tr.check(os.WriteFile(path+"~", []byte(content), 0o600))
	tr.check(os.Rename(path+"~", path))
}

func (tr *tree) link(target, file string) {
	tr.t.Helper()
	tr.check(os.MkdirAll(filepath.Dir(tr.path(file)), 0o700))
	tr.check(os.Symlink(target, tr.path(file)))
}

func (tr *tree) remove(file string) {
	tr.t.Helper()
	tr.check(os.RemoveAll(tr.path(file)))
}

func (tr *tree) check(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// upstream loads the configuration in the tree and returns its first upstream.
func (tr *tree) upstream() config.Upstream {
	tr.t.Helper()
	return tr.upstreams()[0]
}

// team is a team's file with one upstream.
func team(patterns ...string) string {
	return "team \"docs\" {\n  upstream \"a\" {\n    files = [\"" + strings.Join(patterns, `", "`) + "\"]\n  }\n}\n"
}

// texts returns the texts of all prompts by name.
func texts(t rapid.TB, l *List) map[string]string {
	all := map[string]string{}
	for _, p := range l.Prompts {
		result, err := p.Render(nil)
		if err != nil {
			t.Fatal(err)
		}
		all[p.Name] = string(result)
	}
	return all
}

func text(s string) string {
	return `{"messages":[{"role":"user","content":{"type":"text","text":"` + s + `"}}]}`
}

// folder reads the files of upstreams as a team does.
type folder struct {
	Team

	upstreams []config.Upstream
}

func newFolder(upstreams ...config.Upstream) *folder { return &folder{upstreams: upstreams} }

// pass returns the results of a pass for all upstreams.
func (f *folder) pass() []Result {
	results, err := f.Team.Refresh(context.Background(), f.upstreams)
	if err != nil {
		panic(err)
	}
	return results
}

// Refresh returns what a whole pass makes of the first upstream.
func (f *folder) Refresh() (*List, error) {
	first := f.pass()[0]
	return first.List, first.Err
}

// expectError expects the first upstream to have an error at its block, or none where it is empty.
func (tr *tree) expectError(want string) {
	tr.t.Helper()
	_, err := newFolder(tr.upstream()).Refresh()
	got := ""
	if p, ok := errors.AsType[Problem](err); ok {
		got = p.Detail
	}
	if got != want {
		tr.t.Errorf("Refresh: %v, want %q", err, want)
	}
}

func (tr *tree) expect(f *folder, want map[string]string, problems ...problem) {
	tr.t.Helper()
	l, err := f.Refresh()
	tr.check(err)
	full := map[string]string{}
	for name, s := range want {
		full[name] = text(s)
	}
	if diff := cmp.Diff(full, texts(tr.t, l)); diff != "" {
		tr.t.Errorf("prompts (-want +got):\n%s", diff)
	}
	for i := range problems {
		problems[i].place = tr.path(problems[i].place)
	}
	if t, ok := tr.t.(*testing.T); ok {
		checkProblems(t, tr.root, l.Problems, problems...)
	}
}

func TestFolder_ReadsWhatThePatternsMatch(t *testing.T) {
	tr := newTree(t, "teams/docs.hcl", team("prompts/**/*.md", ".github/prompts/**/*.md"),
		"teams/prompts/a.md", "A", "teams/prompts/b/c.md", "C {{> ../_parts/d.md}}", "teams/prompts/_parts/d.md", "D", "teams/prompts/_e.md", "E",
		"teams/prompts/.git/f.md", "F", "teams/prompts/g.txt", "G", "teams/other/h.md", "H", "teams/.github/prompts/i.prompt.md", "I", "j.md", "J")
	f := newFolder(tr.upstream())
	tr.expect(f, map[string]string{"a": "A", "c": "C D", "i": "I"})
	before, _ := f.Refresh()
	if again, _ := f.Refresh(); again != before {
		t.Error("nothing has changed, and the list is another one")
	}
}

// The commands of a repository may be a link to a folder that several tools share.
func TestFolder_FollowsALinkInAFolderWithADot(t *testing.T) {
	for _, at := range []string{"", "teams/"} {
		tr := newTree(t, at+"a.hcl", team(".claude/commands/*.md"), at+"shared/one.md", "One.")
		tr.link("../shared", at+".claude/commands")
		if l, err := newFolder(tr.upstream()).Refresh(); err != nil || l.Prompt("one") == nil {
			t.Errorf("%q: the prompt is not found: %v %v", at, l.Problems, err)
		}
	}
}

// However files change between two passes, each prompt is as its file and the partial are now or, where they are broken, as it was.
func TestFolder_SeesEachKindOfChange(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/*.md"))
	u := tr.upstream() // once, as that takes longer than all the rest
	change := rapid.SampledFrom([]string{"replace", "write", "remove", "rename", "include", "exclude"})
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	content := rapid.SampledFrom([]string{"1", "2", "{{> _part.md}}", "---\nbroken: [\n---\n"})
	rapid.Check(t, func(t *rapid.T) {
		tr.remove("p")
		tr.write("p/always.md", "A")
		f, disk, part, want := newFolder(u), map[string]string{"always": "A"}, "", map[string]string{}
		for range rapid.IntRange(1, 8).Draw(t, "passes") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				file, other := name.Draw(t, "file"), name.Draw(t, "other")
				path := "p/" + file + ".md"
				switch change.Draw(t, "change") {
				case "replace":
					disk[file] = content.Draw(t, "text")
					tr.write(path, disk[file])
				case "write": // in place, often as long as before
					disk[file] = content.Draw(t, "text")
					tr.check(os.WriteFile(tr.path(path), []byte(disk[file]), 0o600))
				case "remove":
					tr.remove(path)
					delete(disk, file)
				case "rename":
					if moved, ok := disk[file]; ok {
						tr.check(os.Rename(tr.path(path), tr.path("p/"+other+".md")))
						delete(disk, file)
						disk[other] = moved
					}
				case "include":
					part = rapid.SampledFrom([]string{"3", "4"}).Draw(t, "part")
					tr.write("p/_part.md", part)
				case "exclude":
					part = ""
					tr.remove("p/_part.md")
				}
			}
			maps.DeleteFunc(want, func(name, _ string) bool { _, isThere := disk[name]; return !isThere })
			for name, content := range disk {
				whole := strings.Replace(content, "{{> _part.md}}", part, 1)
				if len(whole) == 1 {
					want[name] = text(whole)
				}
			}
			l, err := f.Refresh()
			if diff := cmp.Diff(want, texts(t, l)); err != nil || diff != "" {
				t.Fatalf("prompts of %q: %v (-want +got):\n%s", disk, err, diff)
			}
		}
	})
}

func TestFolder_SeesTheSwapOfAConfigMap(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/**/*.md"), "p/..2026_11_22_05_00_00.123/a.md", "A", "p/..2026_11_22_05_00_00.123/sub/b.md", "B")
	tr.link("..2026_11_22_05_00_00.123", "p/..data")
	tr.link("..data/a.md", "p/a.md")
	tr.link("..data/sub", "p/sub")
	f := newFolder(tr.upstream())
	tr.expect(f, map[string]string{"a": "A", "b": "B"})
	tr.write("p/..2026_11_22_06_00_00.456/a.md", "A2")
	tr.write("p/..2026_11_22_06_00_00.456/sub/b.md", "B2")
	tr.link("..2026_11_22_06_00_00.456", "p/..data_tmp")
	tr.check(os.Rename(tr.path("p/..data_tmp"), tr.path("p/..data")))
	tr.remove("p/..2026_11_22_05_00_00.123")
	tr.expect(f, map[string]string{"a": "A2", "b": "B2"})
}

func TestFolder_KeepsAllPromptsOfAFolderThatCannotBeRead(t *testing.T) {
	tr := newTree(t, "docs.hcl", "team \"docs\" {\n  upstream \"a\" {\n    files = [\"p/*.md\"]\n    max_prompts = 2\n  }\n}\n", "p/a.md", "A", "p/b.md", "B")
	f := newFolder(tr.upstream())
	tr.expect(f, map[string]string{"a": "A", "b": "B"})
	refused := func(want string) {
		t.Helper()
		l, err := f.Refresh()
		p, ok := errors.AsType[Problem](err)
		if !ok || !strings.Contains(err.Error(), want) || p.Path != tr.path("docs.hcl") || p.Line != 2 {
			t.Errorf("Refresh: %v, want %s at the block", err, want)
		}
		upstreamtest.Equal(t, 2, len(l.Prompts), "prompts that were good")
	}
	tr.write("p/c.md", "C")
	refused("There are more files than max_prompts = 2")
	tr.remove("p")
	refused("There is no folder " + tr.path("p"))
	tr.write("p/a.md", "A2")
	tr.expect(f, map[string]string{"a": "A2"})
}

func TestFolder_ReportsAPatternThatMatchesNothing(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/*.md", "p/x*.md"), "p/a.md", "A")
	tr.expect(newFolder(tr.upstream()), map[string]string{"a": "A"}, problem{Doubtful, "docs.hcl:2", `No file matches "p/x*.md" of files`})
}

func TestFolder_RefusesWhatIsNotTheTeams(t *testing.T) {
	outside := newTree(t, "secret.md", "SECRET", "folder/x.md", "SECRET")
	tr := newTree(t, "teams/docs.hcl", team("p/**/*.md", ".secrets/*.md"), "gateway.hcl", "gateway {\n  cursor_keys = [file(\"teams/p/key.md\")]\n}\n",
		"teams/p/good.md", "good", "teams/p/key.md", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=", "teams/p/rules.hcl", "", "other/o.md", "SECRET", "other/o.png", "SECRET",
		"teams/.secrets/s.md", "SECRET", "teams/p/token.txt", "SECRET", "teams/p/big.md", strings.Repeat("x", 1<<20+1),
		"teams/p/partial.md", "{{> ../../other/o.md}}", "teams/p/image.md", "![](../../other/o.png)", "teams/p/includes.md", "{{> key.md}}", "teams/p/hidden.md", "{{> ../.secrets/s.md}}")
	tr.link(outside.path("secret.md"), "teams/p/link.md")
	tr.link("../../other/o.md", "teams/p/other.md")
	tr.link(outside.path("folder"), "teams/p/folder")
	tr.link("rules.hcl", "teams/p/hcl.md")
	tr.link("token.txt", "teams/p/txt.md")
	tr.write("teams/.private/s.md", "SECRET")
	tr.link("../.private/s.md", "teams/p/shy.md")
	tr.link("nowhere.md", "teams/p/dangling.md")
	tr.link(".", "teams/p/loop")
	tr.check(exec.CommandContext(t.Context(), "mkfifo", tr.path("teams/p/pipe.md")).Run())
	tr.write("teams/p/huge.md", "")
	tr.check(os.Truncate(tr.path("teams/p/huge.md"), 100<<20))
	tr.write("teams/p/picture.md", "text\n![](huge.png)")
	tr.write("teams/p/huge.png", "")
	tr.check(os.Truncate(tr.path("teams/p/huge.png"), 4<<20+1))
	tr.expect(newFolder(tr.upstream()), map[string]string{"good": "good"},
		problem{Broken, "teams/.secrets/s.md", "hidden, as .secrets begins with a dot"},
		problem{Broken, "teams/p/big.md", "larger than 1048576 bytes"},
		problem{Broken, "teams/p/dangling.md", "no such file"},
		problem{Broken, "teams/p/hcl.md", "a link to a file of another kind"},
		problem{Broken, "teams/p/hidden.md:1", "is hidden"},
		problem{Broken, "teams/p/huge.md", "larger than 1048576 bytes"},
		problem{Broken, "teams/p/image.md:1", "leads out of the folder"},
		problem{Broken, "teams/p/includes.md:1", "he configuration reads it as a value"},
		problem{Broken, "teams/p/key.md", "he configuration reads it as a value"},
		problem{Broken, "teams/p/link.md", "a link that leads out of"},
		problem{Broken, "teams/p/other.md", "a link that leads out of"},
		problem{Broken, "teams/p/partial.md:1", "leads out of the folder"},
		problem{Broken, "teams/p/picture.md:2", "larger than 4194304 bytes"},
		problem{Broken, "teams/p/pipe.md", "not a regular file"},
		problem{Broken, "teams/p/shy.md", "is hidden"},
		problem{Broken, "teams/p/txt.md", "a link to a file of another kind"})
}

// A link that leads out gets the same report for any target, which reveals nothing about the machine.
func TestFolder_TellsNothingOfWhatIsOutside(t *testing.T) {
	outside := newTree(t, "there.md", "SECRET", "folder/x.md", "SECRET", "there.png", "SECRET")
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/good.md", "good")
	tr.link(outside.root, "parts")
	var want []problem
	for i, target := range []string{"there.md", "gone.md", "folder", "folder/x.md", "folder/gone.md", "there.md/below"} {
		name := fmt.Sprintf("p/%d.md", i)
		tr.link(outside.path(target), name)
		want = append(want, problem{Broken, name, fmt.Sprintf("The file %d.md is a link that leads out of", i)})
	}
	for i, text := range []string{"{{> ../parts/there.md}}", "{{> ../parts/gone.md}}", "![](../parts/there.png)", "![](../parts/gone.png)"} {
		name := fmt.Sprintf("p/in%d.md", i)
		tr.write(name, text)
		want = append(want, problem{Broken, name + ":1", "is a link that leads out of"})
	}
	tr.expect(newFolder(tr.upstream()), map[string]string{"good": "good"}, want...)
	for _, target := range []string{"folder", "gone", "there.md"} {
		tr := newTree(t, "docs.hcl", team("link/*.md"))
		tr.link(outside.path(target), "link")
		tr.expectError("The link " + tr.path("link") + " leads to nothing inside of " + tr.root + "; put a folder in its place, or correct files.")
	}
}

func TestFolder_SaysWhyAFolderCannotBeRead(t *testing.T) {
	for pattern, want := range map[string]string{
		"gone/*.md":         "There is no folder %s/gone; make it, or correct files.",
		"p/gone/below/x.md": "There is no folder %s/p/gone; make it, or correct files.",
		"a.md/*.md":         "The path %s/a.md is not a folder; put one in its place, or correct files.",
		"p/*.md":            "",
	} {
		tr := newTree(t, "docs.hcl", team("p/*.md", pattern), "a.md", "A", "p/x.md", "X")
		if want != "" {
			want = strings.ReplaceAll(want, "%s", tr.root)
		}
		tr.expectError(want)
	}
}

func TestFolder_NeedsAGrantForEachFileWhereAllowBlocksExist(t *testing.T) {
	tr := newTree(t, "teams/docs.hcl", team("p/*.md"), "gateway.hcl", `allow "docs" { files = ["teams/p/*", "shared/*"] }`,
		"teams/p/a.md", "{{> ../../shared/_style.md}}", "shared/_style.md", "style", "teams/p/b.md", "{{> ../../teams/q/x.md}}", "teams/q/x.md", "SECRET",
		"teams/p/c.md", "![](../q/x.png)", "teams/q/x.png", "SECRET")
	tr.link("../q/x.md", "teams/p/d.md")
	tr.expect(newFolder(tr.upstream()), map[string]string{"a": "style"},
		problem{Broken, "teams/p/b.md:1", `Team "docs" may not use the file "q/x.md"; the platform team can add it to files in allow "docs"`},
		problem{Broken, "teams/p/c.md:1", `may not use the file "q/x.png"`},
		problem{Broken, "teams/p/d.md", `may not use the file "p/d.md"`})

	tr.write("gateway.hcl", `allow "other" { files = ["*"] }`)
	tr.write("teams/other.hcl", "team \"other\" {}\n")
	l, err := newFolder(tr.upstream()).Refresh()
	if err != nil || len(l.Prompts) != 0 {
		t.Errorf("%d prompts of a team without an allow block, want none (%v)", len(l.Prompts), err)
	}
}

func TestFolder_DoesNotFollowALinkThatIsSwappedWhileItReads(t *testing.T) {
	tr := newTree(t, "teams/docs.hcl", team("p/*.md"), "gateway.hcl", `allow "docs" { files = ["teams/p/*", "teams/mine/*"] }`,
		"teams/mine/a.md", "mine", "teams/other/a.md", "SECRET")
	outside := newTree(t, "a.md", "SECRET")
	tr.link("../mine/a.md", "teams/p/a.md")
	u := tr.upstream()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// Both a link and a folder above the file change places.
			target := []string{"../mine/a.md", "../other/a.md", outside.path("a.md")}[i%3]
			_ = os.Remove(tr.path("teams/p/a.md~"))
			_ = os.Symlink(target, tr.path("teams/p/a.md~"))
			_ = os.Rename(tr.path("teams/p/a.md~"), tr.path("teams/p/a.md"))
			if i%5 == 0 {
				_ = os.Rename(tr.path("teams/mine"), tr.path("teams/away"))
				_ = os.Symlink("other", tr.path("teams/mine"))
				runtime.Gosched()
				_ = os.Remove(tr.path("teams/mine"))
				_ = os.Rename(tr.path("teams/away"), tr.path("teams/mine"))
			}
		}
	}()
	good := 0
	for round := 0; round < 200 || good == 0 && round < 100_000; round++ {
		l, err := newFolder(u).Refresh()
		if err != nil {
			continue
		}
		for _, got := range texts(t, l) {
			if strings.Contains(got, "SECRET") {
				t.Fatal("a swapped link leads to another team's file")
			}
			good++
		}
	}
	close(stop)
	<-done
	if good == 0 {
		t.Error("the team's own file was never read")
	}
}

func TestFolder_ReadsAFileAgainThatWasWrittenJustNow(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/a.md", "1")
	info, err := os.Stat(tr.path("p/a.md"))
	tr.check(err)
	f := newFolder(tr.upstream())
	tr.expect(f, map[string]string{"a": "1"})
	// The clock of a file system stands still for some milliseconds.
	tr.check(os.WriteFile(tr.path("p/a.md"), []byte("2"), 0o600))
	tr.check(os.Chtimes(tr.path("p/a.md"), info.ModTime(), info.ModTime()))
	tr.expect(f, map[string]string{"a": "2"})
}
