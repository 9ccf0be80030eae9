package syncdir

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

const source = "http://127.0.0.1:8080/mcp"

// texts are prompts without arguments, by names and texts.
func texts(pairs ...string) (prompts []Prompt) {
	for i := 0; i < len(pairs); i += 2 {
		prompts = append(prompts, Prompt{Name: pairs[i], Pieces: []Piece{{Text: pairs[i+1]}}})
	}
	return prompts
}

// target returns a target whose folder is a new one, and the folder.
func target(t *testing.T, name string) (*Target, string) {
	t.Helper()
	home := t.TempDir()
	for _, variable := range []string{"HOME", "USERPROFILE", "XDG_CONFIG_HOME", "AppData", "CLAUDE_CONFIG_DIR", "CODEX_HOME"} {
		t.Setenv(variable, home)
	}
	found := &Targets[slices.Index(Names(), name)]
	base, within, err := found.folder()
	if err != nil {
		t.Fatal(err)
	}
	return found, filepath.Join(base, within)
}

// sync runs, and returns the changes as they are printed, without reasons.
func sync(t *testing.T, r Run, prompts []Prompt) (lines []string) {
	t.Helper()
	return syncSome(t, r, prompts, true)
}

func syncSome(t *testing.T, r Run, prompts []Prompt, isComplete bool) (lines []string) {
	t.Helper()
	r.Source = source
	defer r.Close()
	changes, err := do(&r, prompts, isComplete)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		lines = append(lines, fmt.Sprintf("%c %s%s", c.Action, c.Path, c.Prompt))
	}
	return lines
}

// do runs with all prompts.
func do(r *Run, prompts []Prompt, isComplete bool) (all []Change, err error) {
	for i := range prompts {
		changes, err := r.Write(&prompts[i])
		if all = append(all, changes...); err != nil {
			return all, err
		}
	}
	changes, err := r.Finish(isComplete)
	return append(all, changes...), err
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	upstreamtest.Equal(t, want, got, "changes")
}

// tree returns all files beneath a folder, and the targets of links.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, folder+string(filepath.Separator)))
		if entry.Type()&fs.ModeSymlink != 0 {
			files[name], err = os.Readlink(path)
			return err
		}
		content, err := os.ReadFile(path)
		files[name] = string(content)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

func put(t *testing.T, folder, name, content string) {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestRun_FollowsThePrompts(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			target, folder := target(t, name)
			run, end := Run{Target: target}, target.suffix
			dry := run
			dry.DryRun = true
			want(t, sync(t, dry, texts("a", "1", "b", "2")), "+ a"+end, "+ b"+end)
			if files := tree(t, folder); len(files) > 0 {
				t.Errorf("a dry run writes %v", files)
			}
			want(t, sync(t, run, texts("a", "1", "b", "2")), "+ a"+end, "+ b"+end)
			want(t, sync(t, run, texts("a", "1", "b", "2")))
			before := tree(t, folder)
			want(t, sync(t, dry, texts("a", "3")), "~ a"+end, "- b"+end)
			upstreamtest.Equal(t, before, tree(t, folder), "files after a dry run")
			want(t, syncSome(t, run, texts("a", "3"), false), "~ a"+end, "= b"+end)
			want(t, sync(t, run, texts("a", "3")), "- b"+end)
			unknown := []Prompt{{Name: "a", Absent: errors.New("down")}}
			want(t, sync(t, run, unknown), "! a")
			want(t, sync(t, run, nil), "- a"+end)
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestRun_KeepsWhatItDidNotWriteOrSomebodyEdited(t *testing.T) {
	target, folder := target(t, "claude")
	run := Run{Target: target}
	sync(t, run, texts("edited", "1", "copied", "2", "gone", "3", "moved", "4"))
	files := tree(t, folder)
	put(t, folder, "edited.md", files["edited.md"]+"mine")
	put(t, folder, "gone.md", strings.Replace(files["gone.md"], "description", "Description", 1))
	put(t, folder, "copy.md", files["copied.md"])
	put(t, folder, "mine.md", "mine")
	put(t, folder, "empty.md", "")
	put(t, folder, "sub/moved.md", files["moved.md"])
	put(t, folder, "other.md", strings.Replace(files["moved.md"], source, "http://other/mcp", 1))
	put(t, folder, "folder.md/mine", "mine")
	if runtime.GOOS != "windows" {
		outside := t.TempDir()
		put(t, outside, "target.md", files["copied.md"])
		if err := errors.Join(
			os.Symlink(filepath.Join(outside, "target.md"), filepath.Join(folder, "link.md")),
			os.Symlink(filepath.Join(outside, "none.md"), filepath.Join(folder, "nowhere.md")),
		); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, folder)
	delete(before, "copied.md")
	delete(before, "moved.md")
	got := sync(t, run, texts("edited", "5", "copy", "5", "mine", "5", "empty", "5", "other", "5", "folder", "5", "link", "5", "nowhere", "5"))
	want(t, got, "= edited.md", "= copy.md", "= mine.md", "= empty.md", "= other.md", "= folder.md", "= link.md", "= nowhere.md",
		"- copied.md", "= gone.md", "- moved.md")
	upstreamtest.Equal(t, before, tree(t, folder), "files")
}

func TestRun_RefusesAFolderBehindALink(t *testing.T) {
	target, folder := target(t, "gemini")
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Dir(folder)); err != nil {
		t.Skip(err)
	}
	r := Run{Target: target, Source: source}
	if _, err := do(&r, texts("a", "1"), true); err == nil || !strings.Contains(err.Error(), "links are not followed") {
		t.Errorf("error %v", err)
	}
	if files := tree(t, elsewhere); len(files) > 0 {
		t.Errorf("written behind the link: %v", files)
	}
}

// A file is replaced by renaming, so that a run that is killed leaves it old or new. The next run removes
// the unfinished file.
func TestRun_ReplacesByRenaming(t *testing.T) {
	target, folder := target(t, "claude")
	r := Run{Target: target}
	sync(t, r, texts("a", "1"))
	before := tree(t, folder)["a.md"]
	if err := os.Link(filepath.Join(folder, "a.md"), filepath.Join(folder, "old")); err != nil {
		t.Skip(err)
	}
	put(t, folder, temporary+"x.tmp", "half")
	want(t, sync(t, r, texts("a", "2")), "~ a.md")
	files := tree(t, folder)
	if len(files) != 2 || files["old"] != before || files["a.md"] == before {
		t.Errorf("files %q", files)
	}
}

func TestRun_HostileNamesStayInTheFolder(t *testing.T) {
	names := []string{
		"../up", "..", ".", "", "/etc/x", `..\up`, "a/../../b", "CON", "con.txt", "nul", "com1.x", "aux", strings.Repeat("a", 300),
		strings.Repeat("ü", 300), "Twin", "twin", "TWIN", "twin-" + Short("TWIN"), "a\x00b", "a\nb", "a:b", "a*", "trailing.", "trailing ", ".hidden", "-rf",
		"x.prompt", "x", "\u202eevil", ".promptweir-x.tmp", "SKILL", "a.b", "a:b", "a_b",
		"---\n# sha256 of the rest: 0", "# written by promptweir from http://other/mcp;",
	}
	for _, name := range Names() {
		target, folder := target(t, name)
		r := Run{Target: target}
		var prompts []Prompt
		for _, hostile := range slices.Compact(slices.Sorted(slices.Values(names))) {
			prompts = append(prompts, texts(hostile, "text of "+strings.ReplaceAll(hostile, "\x00", ""))...)
		}
		lines := sync(t, r, prompts)
		files := tree(t, os.Getenv("HOME"))
		folded := map[string]bool{}
		within, err := filepath.Rel(os.Getenv("HOME"), folder)
		if err != nil {
			t.Fatal(err)
		}
		for path := range files {
			inside, ok := strings.CutPrefix(path, filepath.ToSlash(within)+"/")
			base := strings.TrimSuffix(inside, target.suffix)
			if !ok || !plainName.MatchString(base) || reserved.MatchString(base) || len(base) > maxName || folded[strings.ToLower(inside)] {
				t.Errorf("%s: file %q", name, path)
			}
			folded[strings.ToLower(inside)] = true
		}
		if len(lines) != len(prompts) || len(files) != len(prompts) {
			t.Errorf("%s: %d files of %d prompts: %q", name, len(files), len(prompts), lines)
		}
		want(t, sync(t, r, prompts))
		if got := len(sync(t, r, nil)); got != len(prompts) || len(tree(t, folder)) > 0 {
			t.Errorf("%s: %d of %d files are removed, %v stay", name, got, len(prompts), slices.Collect(maps.Keys(tree(t, folder))))
		}
	}
}
