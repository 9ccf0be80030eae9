package config

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// teamFile returns the file of a team with one upstream and some more text.
func teamFile(team, upstream, more string) string {
	return fmt.Sprintf("team %q {\n  members = [\"user:ann\"]\n  upstream %q { url = \"https://example.com/mcp\" }\n  %s\n}\n", team, upstream, more)
}

func TestLoadLastGood_ReplacesTeamFilesWithMistakes(t *testing.T) {
	const platform = "gateway {\n  state_dir = \"state\"\n}\n"
	good := map[string]string{
		"gateway.hcl": platform, "teams/a.hcl": teamFile("a", "one", ""), "teams/b.hcl": teamFile("b", "two", ""),
	}
	for _, test := range []struct {
		name string
		// changes are later texts of files; one that is empty removes the file.
		changes map[string]string
		// want are the files that are not in use as they are, with their teams; nil if the load
		// fails.
		want []string
	}{
		{"nothing", nil, []string{}},
		{"a good change", map[string]string{"teams/a.hcl": teamFile("a", "other", "")}, []string{}},
		{"a syntax error", map[string]string{"teams/a.hcl": `team "a" {`}, []string{"teams/a.hcl a"}},
		{"an error and another team's good change", map[string]string{
			"teams/a.hcl": teamFile("a", "one", "colour = 1"), "teams/b.hcl": teamFile("b", "new", ""),
		}, []string{"teams/a.hcl a"}},
		{"two errors", map[string]string{
			"teams/a.hcl": teamFile("a", "one", "colour = 1"), "teams/b.hcl": "garbage = ",
		}, []string{"teams/a.hcl a", "teams/b.hcl b"}},
		{"an error in another file than the change", map[string]string{"teams/a.hcl": teamFile("a", "two", "")}, []string{"teams/a.hcl a"}},
		{"a file that is too large", map[string]string{"teams/b.hcl": teamFile("b", "two", strings.Repeat("# much\n", 1<<18))}, []string{"teams/b.hcl b"}},
		{"a pipe", map[string]string{"teams/b.hcl": "PIPE"}, []string{"teams/b.hcl b"}},
		{"a new pipe", map[string]string{"teams/c.hcl": "PIPE"}, []string{"out teams/c.hcl"}},
		{"a new file that is too large", map[string]string{
			"teams/c.hcl": teamFile("c", "three", strings.Repeat("# much\n", 1<<18)),
		}, []string{"out teams/c.hcl"}},
		{"a new link that leads nowhere", map[string]string{"teams/c.hcl": "LINK"}, []string{"out teams/c.hcl"}},
		{"a new link that leads nowhere, beside the platform's file", map[string]string{"c.hcl": "LINK"}, nil},
		{"the platform's file as a link that leads nowhere", map[string]string{"gateway.hcl": "LINK"}, nil},
		{"another name for the platform's file that leads nowhere", map[string]string{"gateway.hcl": "", "gw.hcl": "LINK"}, nil},
		{"the platform's folder with too many files", map[string]string{"./": "FLOOD"}, nil},
		{"the platform's file", map[string]string{"gateway.hcl": platform + "gateway {"}, nil},
		{"the platform's and a team's file", map[string]string{"gateway.hcl": platform + "colour = 1\n", "teams/a.hcl": `team "a" {`}, nil},
		{"a team's file with a block of the platform", map[string]string{
			"teams/a.hcl": "hide \"h\" { prompts = [\"one.*\"] }\n" + teamFile("a", "one", ""),
		}, []string{"teams/a.hcl a"}},
		{"a file of the platform in the place of a team's", map[string]string{"teams/a.hcl": "hide \"h\" { colour = 1 }\n"}, nil},
		{"skills of a team, which the platform's screens would break", map[string]string{
			"gateway.hcl": strings.Replace(platform, "}", "  screen \"s\" {\n    invisible = true\n    action = \"strip\"\n  }\n}", 1),
			"teams/a.hcl": teamFile("a", "one", "upstream \"x\" {\n  url = \"https://example.com/x\"\n  skills = true\n}"),
		}, []string{"teams/a.hcl a"}},
		{"a new file", map[string]string{"teams/c.hcl": `team "c" {`}, []string{"out teams/c.hcl c"}},
		{"a new file that does not say whose it is", map[string]string{"teams/c.hcl": `hid "h" {`}, nil},
		{"a new file that takes a team's prefix", map[string]string{"teams/0.hcl": teamFile("c", "one", "")}, []string{"out teams/0.hcl c"}},
		{"a right file that takes the prefix of a kept one", map[string]string{
			"teams/a.hcl": `team "a" {`, "teams/b.hcl": teamFile("b", "one", ""),
		}, []string{"out teams/a.hcl a"}},
		{"a right file that takes the label of a broken one", map[string]string{
			"teams/a.hcl": `team "a" {`, "teams/c.hcl": teamFile("a", "three", ""),
		}, []string{"teams/a.hcl a", "out teams/c.hcl"}},
		{"a right file that takes all of a broken one, and comes first", map[string]string{
			"teams/a.hcl": `team "a" {`, "teams/0.hcl": teamFile("a", "one", ""),
		}, []string{"out teams/0.hcl", "teams/a.hcl a"}},
		{"a right file that takes the label of one that cannot be read", map[string]string{
			"teams/a.hcl": "PIPE", "teams/c.hcl": teamFile("a", "three", ""),
		}, []string{"teams/a.hcl a", "out teams/c.hcl"}},
		{"a right file that takes the label of a broken one without its grant", map[string]string{
			"gateway.hcl": platform + "allow \"a\" {\n  hosts = [\"other.example.com\"]\n}\nallow \"b\" {\n  hosts = [\"*\"]\n}\n",
			"teams/a.hcl": `team "a" {`, "teams/0.hcl": `team "a" {}`,
		}, []string{"out teams/0.hcl", "out teams/a.hcl a"}},
		{"the label of a file that is gone", map[string]string{
			"teams/a.hcl": "", "teams/b.hcl": `team "b" {`, "teams/c.hcl": teamFile("a", "three", ""),
		}, []string{"teams/b.hcl b"}},
		{"the label that a broken file gives up", map[string]string{
			"teams/a.hcl": `team "x" {`, "teams/c.hcl": teamFile("a", "three", ""),
		}, []string{"out teams/a.hcl x"}},
		{"a prefix that looks like that of an unchanged file", map[string]string{
			"teams/a.hcl": teamFile("a", "one", `upstream "x" {
  url = "https://example.com/x"
  prefix = "twо"
}`),
		}, []string{"teams/a.hcl a"}},
		{"a new file whose prefix looks like that of an unchanged one", map[string]string{
			"teams/0.hcl": teamFile("c", "three", `upstream "x" {
  url = "https://example.com/x"
  prefix = "оne"
}`),
		}, []string{"out teams/0.hcl c"}},
		{"a prefix that looks like that of a changed file", map[string]string{
			"teams/0.hcl": teamFile("c", "three", `upstream "x" {
  url = "https://example.com/x"
  prefix = "оne"
}`), "teams/a.hcl": teamFile("a", "one", "# changed"),
		}, []string{"out teams/0.hcl c"}},
		{"a prefix that a changed file had", map[string]string{
			"teams/a.hcl": teamFile("a", "x", ""), "teams/b.hcl": teamFile("b", "two", "# changed"),
			"teams/0.hcl": teamFile("c", "y", "upstream \"z\" {\n  url = \"https://example.com/x\"\n  prefix = lower(\"TWO\")\n}"),
		}, []string{"out teams/0.hcl c"}},
		{"an upstream that a changed file had", map[string]string{
			"teams/a.hcl": teamFile("a", "two", ""), "teams/b.hcl": teamFile("b", "two", "# changed"),
		}, []string{"teams/a.hcl a"}},
		{"a team that a changed file had", map[string]string{
			"teams/a.hcl": teamFile("b", "three", ""), "teams/b.hcl": teamFile("b", "two", "# changed"),
		}, []string{"out teams/a.hcl"}},
		{"a prefix that a changed file gives up", map[string]string{
			"teams/a.hcl": teamFile("a", "two", ""), "teams/b.hcl": teamFile("b", "one", ""),
		}, []string{}},
		{"a right file whose prefix looks like that of a kept one", map[string]string{
			"teams/a.hcl": `team "a" {`, "teams/b.hcl": teamFile("b", "two", `upstream "x" {
  url = "https://example.com/x"
  prefix = "оne"
}`),
		}, []string{"out teams/a.hcl a"}},
		{"a mistake that reaches into a right file", map[string]string{
			"teams/a.hcl": teamFile("a", "new", "colour = 1"), "teams/b.hcl": teamFile("b", "new", ""),
		}, []string{"teams/a.hcl a"}},
		{"a grant that is gone", map[string]string{
			"gateway.hcl": platform + "allow \"a\" {\n  hosts = [\"other.example.com\"]\n}\nallow \"b\" {\n  hosts = [\"*\"]\n}\n", "teams/a.hcl": `team "a" {`,
		}, []string{"out teams/a.hcl a"}},
		{"a file about another team", map[string]string{"teams/a.hcl": `team "x" {`}, []string{"out teams/a.hcl x"}},
		{"a team that others name leaves", map[string]string{
			"teams/a.hcl": `team "a" {`, "teams/b.hcl": teamFile("b", "one", "expose \"x\" {\n  prompts = [\"one.*\"]\n  to = [\"team:a\"]\n}"),
		}, []string{"out teams/a.hcl a"}},
		{"a team that another names renames itself", map[string]string{
			"teams/a.hcl": teamFile("renamed", "one", ""), "teams/b.hcl": teamFile("b", "two", "expose \"x\" {\n  prompts = [\"two.*\"]\n  to = [\"team:a\"]\n}"),
		}, []string{}},
		{"a removed file", map[string]string{"teams/b.hcl": ""}, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var files []string
			for name, text := range good {
				files = append(files, name, text)
			}
			dir := write(t, files...)
			cfg := load(t, dir)
			if n := len(cfg.TeamFiles.Texts); n != 2 {
				t.Fatalf("%d team files, want 2", n)
			}
			for name, text := range test.changes {
				change(t, filepath.Join(dir, name), text)
			}
			later, replaced, diags := LoadLastGood(dir, Options{}, func(stateDir string) TeamFiles {
				if stateDir != "state" && test.want != nil {
					t.Errorf("state_dir is %q", stateDir)
				}
				return cfg.TeamFiles
			})
			var got []string
			for _, k := range replaced {
				entry := strings.Join(append([]string{k.File}, k.Teams...), " ")
				if k.Out {
					entry = "out " + entry
				}
				got = append(got, entry)
			}
			if (later == nil) != (test.want == nil) || !slices.Equal(got, test.want) {
				t.Fatalf("in place of files %q, want %q; %v", got, test.want, diags.Err())
			}
			if mistaken := test.want == nil || len(test.want) > 0; mistaken && !diags.HasErrors() {
				t.Error("the mistake is not reported")
			}
			if later != nil {
				again, _, diags := LoadLastGood(dir, Options{}, later.LastGood)
				if again == nil || len(again.Upstreams()) != len(later.Upstreams()) {
					t.Errorf("a second load is another one: %v", diags.Err())
				}
			}
			for _, k := range replaced {
				text := later.TeamFiles.Texts[k.File]
				if k.Out && strings.Contains(text.Reveal(), "upstream") || !k.Out && text != cfg.TeamFiles.Texts[k.File] {
					t.Errorf("%s is not what it was", k.File)
				}
				isOfTeam := func(team Team) bool {
					return slices.Contains(k.Teams, team.Name) && strings.HasSuffix(team.Place.File, k.File)
				}
				if i := slices.IndexFunc(later.Teams, isOfTeam); i >= 0 && k.Out && len(later.Teams[i].Upstreams)+len(later.Teams[i].Members) > 0 {
					t.Errorf("team %s is out, and has %+v", later.Teams[i].Name, later.Teams[i])
				}
			}
		})
	}
}

// A file that is out may be in any state: it is its team's as long as it is there, with the team's label.
func TestLoadLastGood_AFileThatIsOutHoldsUpNothing(t *testing.T) {
	const platform, granted = "gateway {}\nallow \"b\" {\n  hosts = [\"*\"]\n}\n", "allow \"a\" {\n  hosts = [\"*\"]\n}\n"
	dir := write(t, "gateway.hcl", platform+granted, "a.hcl", teamFile("a", "one", ""), "b.hcl", teamFile("b", "two", ""))
	cfg := load(t, dir)
	for _, change := range []struct{ file, text, out string }{
		{"a.hcl", "garbage = ", ""},
		{"gateway.hcl", platform, "a.hcl"},
		{"b.hcl", teamFile("b", "two", "# changed"), "a.hcl"},
		{"c.hcl", teamFile("a", "three", ""), "a.hcl c.hcl"},
		{"gateway.hcl", platform + granted, "a.hcl c.hcl"},
		{"a.hcl", "<<<<", "a.hcl c.hcl"},
	} {
		writeFile(t, filepath.Join(dir, change.file), change.text)
		later, kept, diags := LoadLastGood(dir, Options{}, cfg.LastGood)
		if later == nil {
			t.Fatalf("%v holds up everything: %v", change, diags.Err())
		}
		var out []string
		for _, k := range kept {
			if k.Out {
				out = append(out, k.File)
			}
		}
		if got := strings.Join(out, " "); got != change.out {
			t.Errorf("%v: %q are out, want %q", change, got, change.out)
		}
		cfg = later
	}
}

func TestLoadLastGood_SaysWhoseLabelAFileTakes(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {}\n", "a.hcl", teamFile("a", "one", ""))
	cfg := load(t, dir)
	writeFile(t, filepath.Join(dir, "a.hcl"), `team "a" {`)
	writeFile(t, filepath.Join(dir, "b.hcl"), teamFile("a", "two", ""))
	_, _, diags := LoadLastGood(dir, Options{}, cfg.LastGood)
	want := filepath.Join(dir, "b.hcl") + `:1: Duplicate name: The team "a" is already defined at ` + filepath.Join(dir, "a.hcl") + ":1;"
	if got := diags.Err().Error(); !strings.Contains(got, want) {
		t.Errorf("want %s in:\n%s", want, got)
	}
	if shown := printed(t, diags); !strings.Contains(shown, `1: team "a" {`) {
		t.Errorf("the broken line is not shown:\n%s", shown)
	}
}

// A link to another team's folder would else show its files at a path that has no text in use.
func TestLoadLastGood_NoLinkCostsAnotherTeam(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {}\n", "a/a.hcl", teamFile("a", "one", ""), "b/b.hcl", teamFile("b", "two", ""))
	cfg := load(t, dir)
	link(t, "../b", filepath.Join(dir, "a", "b"))
	change(t, filepath.Join(dir, "b", "b.hcl"), teamFile("b", "two", "colour = 1"))
	later, kept, diags := LoadLastGood(dir, Options{}, cfg.LastGood)
	if later == nil || len(later.Upstreams()) != 2 || len(kept) != 1 || kept[0].File != "b/b.hcl" || kept[0].Out {
		t.Errorf("in place of files %v, want the text of b/b.hcl: %v", kept, diags.Err())
	}
}

// change replaces a file, or removes it if the text is empty. PIPE makes a pipe of it, LINK a link
// that leads nowhere, and FLOOD puts more files into a folder than are read.
func change(t *testing.T, path, text string) {
	t.Helper()
	if text == "FLOOD" {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range hclread.MaxFiles + 1 {
			writeFile(t, filepath.Join(path, fmt.Sprint("x", i, ".hcl")), "")
		}
		return
	}
	err := os.Remove(path)
	switch {
	case err != nil && !os.IsNotExist(err) || text == "":
	case text == "PIPE":
		err = exec.CommandContext(t.Context(), "mkfifo", path).Run()
	case text == "LINK":
		err = os.Symlink("nowhere", path)
	default:
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A team that goes, or takes another name, is named by other files as long as nobody changes these.
func TestLoadLastGood_OutlastsATeamThatOthersName(t *testing.T) {
	names := "expose \"x\" {\n  prompts = [\"two.*\"]\n  to = [\"team:a\"]\n}"
	dir := write(t, "gateway.hcl", "gateway {\n  state_dir = \"state\"\n}\nallow \"a\" {\n  hosts = [\"*\"]\n}\nallow \"b\" {\n  hosts = [\"*\"]\n}\n",
		"teams/a.hcl", teamFile("a", "one", ""), "teams/b.hcl", teamFile("b", "two", names))
	cfg := load(t, dir)
	for _, text := range []string{"", `team "renamed" {}`} {
		change(t, filepath.Join(dir, "teams/a.hcl"), text)
		for i := range 3 { // what was in use before is known to the first load only
			later, kept, diags := LoadLastGood(dir, Options{}, cfg.LastGood)
			if later == nil || len(kept) > 0 || len(later.Upstreams()) != 1 {
				t.Fatalf("%q, load %d: in place of files %v, %v", text, i, kept, diags.Err())
			}
			if !diags.HasErrors() {
				t.Errorf("%q, load %d: nobody is told", text, i)
			}
			cfg = later
		}
	}
}

// A value that the environment lacks is missing in the last good text too.
func TestLoadLastGood_LeavesOutATextThatFailsToday(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {\n  state_dir = \"state\"\n}\n", "a.hcl", "team \"a\" {\n  upstream \"one\" {\n    url = \"https://example.com/mcp\"\n    headers = { X-Key = env(\"KEY\") }\n  }\n}\n")
	set := Options{LookupEnv: func(string) (string, bool) { return "7", true }}
	cfg, diags := Load(dir, set)
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	unset := Options{LookupEnv: func(string) (string, bool) { return "", false }}
	later, replaced, diags := LoadLastGood(dir, unset, cfg.LastGood)
	if later == nil || !diags.HasErrors() || len(replaced) != 1 || !replaced[0].Out || len(later.Upstreams()) > 0 {
		t.Errorf("in place of files: %+v, %v", replaced, diags.Err())
	}
}

func TestTeamFiles_AreMasked(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {}\n", "a.hcl", teamFile("a", "one", "# hunter2"))
	cfg, _ := Load(dir, Options{})
	if text := fmt.Sprintf("%v %+v %#v", cfg, cfg.TeamFiles, cfg.TeamFiles); strings.Contains(text, "hunter2") {
		t.Errorf("a team's text is printed: %s", text)
	}
}

// printed returns diagnostics as a terminal shows them.
func printed(t *testing.T, diags Diagnostics) string {
	t.Helper()
	var out strings.Builder
	if err := diags.Write(&out, 0, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
