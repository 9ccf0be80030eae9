package hclread

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// testSchema has an attribute of each kind.
func testSchema() Schema {
	return Schema{Blocks: []BlockSchema{
		{Type: "team", Labelled: true},
		{Type: "box", Schema: Schema{
			Attributes: []Attribute{
				Plain("name", Field{}, ""), Plain("size", Field{}, ""), Plain("words", Field{}, ""),
				FromEnvironment("path", Field{}, ""), Secret("token", Field{}, ""), Secret("env", Field{}, ""),
			},
			Blocks:    []BlockSchema{{Type: "lid", Schema: Schema{Attributes: []Attribute{Plain("colour", Field{}, "")}}}},
			Misplaced: map[string]string{"label": "a team block"},
		}},
	}}
}

// write makes a folder of files, given as name and content in turns.
func write(t *testing.T, files ...string) string {
	t.Helper()
	dir, all := t.TempDir(), fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		all[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	if err := os.CopyFS(dir, all); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readPath reads files without mistakes.
func readPath(t *testing.T, path string) *Reader {
	t.Helper()
	r := New(testSchema(), Options{})
	r.ReadPath(path)
	r.Check()
	if len(r.diags) > 0 {
		t.Fatal(r.diags)
	}
	return r
}

func team(name string) string { return "team \"" + name + "\" {}\n" }

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// wantPlaces checks where the teams of a configuration were found, relative to dir.
func wantPlaces(t *testing.T, dir string, want ...string) {
	t.Helper()
	var found []string
	for _, b := range readPath(t, dir).Blocks("team") {
		relative, err := filepath.Rel(dir, b.Range().Filename)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, relative)
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestReadPath_ReadsFoldersRecursivelyInOrder(t *testing.T) {
	dir := write(t,
		"b.hcl", team("b"),
		"a/z.hcl", team("z"),
		"a/deep/er/x.hcl", team("x"),
		"c.hcl", team("c"),
		".hidden.hcl", "broken",
		".git/x.hcl", "broken",
		"_draft.hcl", "broken",
		"_drafts/x.hcl", "broken",
		"prompts.lock.hcl", "broken",
		"README.md", "broken",
	)
	wantPlaces(t, dir, "a/deep/er/x.hcl", "a/z.hcl", "b.hcl", "c.hcl")
}

func TestReadPath_LoadsAConfigMapOnce(t *testing.T) {
	dir := write(t, "..2026_01_31/a.hcl", team("a"), "..2026_01_31/b.hcl", team("b"))
	link(t, "..2026_01_31", filepath.Join(dir, "..data"))
	link(t, "..data/a.hcl", filepath.Join(dir, "a.hcl"))
	link(t, "..data/b.hcl", filepath.Join(dir, "b.hcl"))
	wantPlaces(t, dir, "a.hcl", "b.hcl")
}

func TestReadPath_FollowsLinksOnce(t *testing.T) {
	dir := write(t, "a.hcl", team("a"), ".other/o.hcl", team("o"))
	link(t, ".", filepath.Join(dir, "loop"))
	link(t, "a.hcl", filepath.Join(dir, "again.hcl"))
	link(t, ".other", filepath.Join(dir, "other"))
	link(t, "nowhere", filepath.Join(dir, "dangling"))
	wantPlaces(t, dir, "a.hcl", "other/o.hcl")
}

// Not what another team's folder, or the platform's file, is known by.
func TestReadPath_LinksStayInTheirFolder(t *testing.T) {
	dir := write(t, "a/a.hcl", team("a"), "b/b.hcl", team("b"), "b.hcl", team("p"), ".hidden/h.hcl", team("h"), "m/..1/m.hcl", team("m"))
	link(t, "..1/m.hcl", filepath.Join(dir, "m", "m.hcl"))
	for name, target := range map[string]string{"m.hcl": "../m/..1/m.hcl", "0.hcl": "../b.hcl", "b": "../b", "c": "../.hidden", "d": "../a/c"} {
		link(t, target, filepath.Join(dir, "a", name))
	}
	r := New(testSchema(), Options{})
	r.ReadPath(dir)
	var got []string
	for _, b := range r.Blocks("team") {
		got = append(got, r.InFolder(b.Range().Filename))
	}
	if diff := cmp.Diff([]string{"a/a.hcl", "b/b.hcl", "b.hcl", "m/m.hcl"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	report := r.Finish()
	if paths := report.WithErrors(); len(paths) != 1 || len(report.Diagnostics) != 3 {
		t.Errorf("files with errors %v of %v", paths, report.Diagnostics)
	}
}

func TestReadPath_ShowsNothingOfOtherFiles(t *testing.T) {
	elsewhere := write(t, "token", "hunter2\n", "o.hcl", "hunter2\n")
	for name, target := range map[string]string{
		"x.hcl": filepath.Join(elsewhere, "token"), "y.hcl": filepath.Join(elsewhere, "o.hcl"), "folder": elsewhere,
		"z.hcl": "secrets/token", "l.hcl": "promptweir.lock.hcl", "up": "../..",
	} {
		dir := write(t, "conf/a.hcl", team("a"), "conf/secrets/token", "hunter2\n", "conf/promptweir.lock.hcl", "hunter2\n")
		link(t, target, filepath.Join(dir, "conf", name))
		r := New(testSchema(), Options{})
		r.ReadPath(filepath.Join(dir, "conf"))
		if got := len(r.TopBlocks()); got != 1 {
			t.Errorf("%s -> %s: %d blocks, want that of a.hcl", name, target, got)
		}
		report := r.Finish()
		if err := report.Diagnostics; len(err) != 1 || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "and is not read") {
			t.Errorf("%s -> %s: %v, want one diagnostic with the name", name, target, err)
		}
		for _, src := range report.files {
			if strings.Contains(string(src.Content), "hunter2") {
				t.Errorf("%s -> %s: diagnostics may quote the file", name, target)
			}
		}
	}
}

func TestReadPath_RefusesTooManyFiles(t *testing.T) {
	dir := write(t, "a.hcl", team("a"))
	for i := range MaxFiles {
		if err := os.Link(filepath.Join(dir, "a.hcl"), filepath.Join(dir, strconv.Itoa(i)+".hcl")); err != nil {
			t.Fatal(err)
		}
	}
	r := New(testSchema(), Options{})
	r.ReadPath(dir)
	if diags := r.Finish().Diagnostics; len(diags) != 1 || diags[0].Summary != "Too many files" {
		t.Error(diags)
	}
}

func TestReadPath_KeepsTheSpellingOfThePath(t *testing.T) {
	t.Chdir(write(t, "conf/teams/a.hcl", team("a")))
	if got := location(readPath(t, "conf").Blocks("team")[0].Range()); got != "conf/teams/a.hcl:1" {
		t.Errorf("place = %s, want conf/teams/a.hcl:1", got)
	}
}

func TestReadPath_NamesThePathThatItCannotRead(t *testing.T) {
	dir := write(t, "empty/README.md", "", "x.lock.hcl", "", "dangling/a.hcl", "", "large.hcl", strings.Repeat(" ", maxFileSize+1))
	link(t, "nowhere", filepath.Join(dir, "dangling", "b.hcl"))
	for name, want := range map[string]string{
		"missing":    "no such file",
		"empty":      "contains no .hcl file",
		"x.lock.hcl": "is a lock file; name the configuration",
		"dangling":   "no such file",
		"large.hcl":  "split it",
	} {
		path := filepath.Join(dir, name)
		r := New(testSchema(), Options{})
		r.ReadPath(path)
		if err := r.Finish().Diagnostics; !err.HasErrors() || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadPath(%s): %v, want the path and %q", path, err, want)
		}
	}
}
