package config

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// teamFile returns the file of a team with one upstream and some more text.
func teamFile(team, upstream, more string) string {
	return fmt.Sprintf("team %q {\n  members = [\"user:ann\"]\n  upstream %q { url = \"https://example.com/mcp\" }\n  %s\n}\n", team, upstream, more)
}

// summary says of each file with errors what is in use, and "refused" if nothing is.
func summary(cfg *Config, kept []Kept) string {
	if cfg == nil {
		return "refused"
	}
	var all []string
	for _, k := range kept {
		became := "kept"
		if k.Out {
			became = "out"
		}
		all = append(all, strings.Join(append([]string{became, k.File}, k.Teams...), " "))
	}
	return strings.Join(all, ", ")
}

func TestLoadTolerant_OneTeamsErrorHoldsUpNobodyElse(t *testing.T) {
	const platform = "gateway {}\n"
	good := map[string]string{"gateway.hcl": platform, "teams/a.hcl": teamFile("a", "one", ""), "teams/b.hcl": teamFile("b", "two", "")}
	prefixed := func(prefix string) string {
		return "upstream \"x\" {\n  url = \"https://example.com/x\"\n  prefix = \"" + prefix + "\"\n}"
	}
	for name, test := range map[string]struct {
		// changes are later texts of files; one that is empty removes the file.
		changes map[string]string
		// reload is the result in a running gateway, start in a new one.
		reload, start string
	}{
		"a good change":  {map[string]string{"teams/a.hcl": teamFile("a", "other", "")}, "", ""},
		"a removed file": {map[string]string{"teams/b.hcl": ""}, "", ""},
		"a syntax error": {map[string]string{"teams/a.hcl": `team "a" {`}, "kept teams/a.hcl a", "out teams/a.hcl a"},
		"an error, and another team's good change": {
			map[string]string{"teams/a.hcl": teamFile("a", "one", "colour = 1"), "teams/b.hcl": teamFile("b", "new", "")},
			"kept teams/a.hcl a", "out teams/a.hcl a",
		},
		"two errors": {
			map[string]string{"teams/a.hcl": teamFile("a", "one", "colour = 1"), "teams/b.hcl": `team "b" { = }`},
			"kept teams/a.hcl a, kept teams/b.hcl b", "out teams/a.hcl a, out teams/b.hcl b",
		},
		"a new file": {map[string]string{"teams/c.hcl": `team "c" {`}, "out teams/c.hcl c", "out teams/c.hcl c"},
		"a file that is too large": {
			map[string]string{"teams/b.hcl": teamFile("b", "two", strings.Repeat("# much\n", 1<<16))}, "kept teams/b.hcl b", "out teams/b.hcl b",
		},
		"a pipe": {map[string]string{"teams/b.hcl": "PIPE"}, "kept teams/b.hcl b", "refused"},
		"a new file that does not say whose it is": {map[string]string{"teams/c.hcl": `hid "h" {`}, "refused", "refused"},
		"a team's file with garbage":               {map[string]string{"teams/a.hcl": "<<<<"}, "kept teams/a.hcl a", "refused"},
		"a team's file with a block of the platform": {
			map[string]string{"teams/a.hcl": "hide \"h\" { prompts = [\"one.*\"] }\n" + teamFile("a", "one", "")}, "kept teams/a.hcl a", "refused",
		},
		"a file of the platform in the place of a team's": {map[string]string{"teams/a.hcl": "hide \"h\" { colour = 1 }\n"}, "refused", "refused"},
		"the platform's file":                             {map[string]string{"gateway.hcl": platform + "gateway {"}, "refused", "refused"},
		"the platform's file with a team's block":         {map[string]string{"gateway.hcl": platform + "team \"p\" {"}, "refused", "refused"},
		"the platform's and a team's file": {
			map[string]string{"gateway.hcl": platform + "colour = 1\n", "teams/a.hcl": `team "a" {`}, "refused", "refused",
		},
		"a new file that claims a team's prefix": {
			map[string]string{"teams/0.hcl": teamFile("c", "x", prefixed("one"))},
			"out teams/0.hcl c, kept teams/a.hcl a", "out teams/0.hcl c, out teams/a.hcl a",
		},
		"a new file that claims a team's upstream": {
			map[string]string{"teams/0.hcl": teamFile("c", "one", "")},
			"out teams/0.hcl c, kept teams/a.hcl a", "out teams/0.hcl c, out teams/a.hcl a",
		},
		"a new prefix that looks like a team's": {
			map[string]string{"teams/0.hcl": teamFile("c", "y", prefixed("оne"))},
			"out teams/0.hcl c, kept teams/a.hcl a", "out teams/0.hcl c, out teams/a.hcl a",
		},
		"a right file that claims the prefix of a previous text": {
			map[string]string{"teams/a.hcl": `team "a" {`, "teams/b.hcl": teamFile("b", "one", "")}, "refused", "out teams/a.hcl a",
		},
		"a removed file of a team that has an allow block": {
			map[string]string{"gateway.hcl": platform + "allow \"a\" { hosts = [\"*\"] }\nallow \"b\" { hosts = [\"*\"] }\n", "teams/b.hcl": ""}, "", "",
		},
		"a grant that is gone while the file is broken": {
			map[string]string{"gateway.hcl": platform + "allow \"a\" {}\nallow \"b\" { hosts = [\"*\"] }\n", "teams/a.hcl": `team "a" {`},
			"refused", "out teams/a.hcl a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var files []string
			for name, text := range good {
				files = append(files, name, text)
			}
			dir := write(t, files...)
			inUse := load(t, dir)
			for name, text := range test.changes {
				change(t, filepath.Join(dir, name), text)
			}
			cfg, kept, diags := LoadTolerant(dir, Options{}, inUse.TeamFiles)
			if got := summary(cfg, kept); got != test.reload {
				t.Errorf("a reload: %q, want %q; %v", got, test.reload, diags.Err())
			}
			if diags.HasErrors() != (test.reload != "") {
				t.Error("the error is not reported")
			}
			for _, k := range kept {
				if text, ok := cfg.TeamFiles[k.File]; ok == k.Out || text != inUse.TeamFiles[k.File] {
					t.Errorf("%s is not what it was", k.File)
				}
			}
			cfg, kept, diags = LoadTolerant(dir, Options{}, nil)
			if got := summary(cfg, kept); got != test.start {
				t.Errorf("a start: %q, want %q; %v", got, test.start, diags.Err())
			}
			if strict, _ := Load(dir, Options{}); (strict == nil) != (test.start != "") {
				t.Error("the command validate does not fail")
			}
		})
	}
}

// While a team is left out, no other team can take its prefixes and its label.
func TestLoadTolerant_NobodyTakesOverATeamThatIsLeftOut(t *testing.T) {
	const allowA = "gateway {}\nallow \"a\" {\n  hosts = [\"*\"]\n  prefixes = [\"pay*\"]\n}\n"
	const allowC = "allow \"c\" {\n  hosts = [\"*\"]\n  prefixes = [\"*\"]\n}\n"
	names := "expose \"x\" {\n  prompts = [\"three.*\"]\n  to = [\"team:a\", \"user:bob\"]\n}"
	for name, test := range map[string]struct {
		broken, other, want string
	}{
		"its label": {`team "a" {`, teamFile("a", "three", ""), "out a.hcl a, out c.hcl a"},
		"its label, in a file with another error": {teamFile("a", "pay", "colour = 1"), teamFile("a", "three", ""), "out a.hcl a, out c.hcl a"},
		"its label, in a file that is too large": {
			"team \"a\" {}\n" + strings.Repeat("# much\n", 1<<16), teamFile("a", "three", ""), "out a.hcl a, out c.hcl a",
		},
		"its prefix": {`team "a" {`, teamFile("c", "pay", ""), "out a.hcl a, out c.hcl c"},
		"its prefix, which it claims in a file with another error": {teamFile("a", "pay", "colour = 1"), teamFile("c", "pay", ""), "out a.hcl a, out c.hcl c"},
		"a prefix that is granted to it, and that it does not use": {`team "a" {`, teamFile("c", "payments", ""), "out a.hcl a, out c.hcl c"},
		"another prefix":                {`team "a" {`, teamFile("c", "three", ""), "out a.hcl a"},
		"a reference from another team": {`team "a" {`, teamFile("c", "three", names), "out a.hcl a"},
	} {
		t.Run(name, func(t *testing.T) {
			allow := allowA
			if strings.Contains(test.other, `team "c"`) {
				allow += allowC
			}
			dir := write(t, "gateway.hcl", allow, "a.hcl", test.broken, "c.hcl", test.other)
			cfg, kept, diags := LoadTolerant(dir, Options{}, nil)
			if got := summary(cfg, kept); got != test.want {
				t.Fatalf("%q, want %q; %v", got, test.want, diags.Err())
			}
			warnings := strings.Join(diags.Warnings(), "\n")
			if refers := test.other == teamFile("c", "three", names); strings.Contains(warnings, `Team "a" is not in use`) != refers || (warnings != "") != refers {
				t.Errorf("warnings: %s", warnings)
			}
			isA := func(team Team) bool { return team.Name == "a" }
			if slices.ContainsFunc(cfg.Teams, isA) {
				t.Error("the team is in use")
			}
			// Nor does a reload, which has the texts in use, give it away.
			again, kept, _ := LoadTolerant(dir, Options{}, cfg.TeamFiles)
			if got := summary(again, kept); got != test.want {
				t.Errorf("a reload: %q, want %q", got, test.want)
			}
		})
	}
}

// A team whose prefix is in use keeps it when it is granted to a new team whose file is broken.
func TestLoadTolerant_ANewTeamsErrorTakesNoPrefixAway(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {}\nallow \"c\" {\n  hosts = [\"*\"]\n  prefixes = [\"pay\"]\n}\n", "c.hcl", teamFile("c", "pay", ""))
	inUse := load(t, dir)
	writeFile(t, filepath.Join(dir, "new.hcl"), "allow \"a\" { prefixes = [\"pay*\"] }\n")
	writeFile(t, filepath.Join(dir, "a.hcl"), `team "a" {`)
	cfg, kept, diags := LoadTolerant(dir, Options{}, inUse.TeamFiles)
	if got := summary(cfg, kept); got != "out a.hcl a" {
		t.Errorf("%q: %v", got, diags.Err())
	}
}

// A link to another team's folder would else show its files at a path that has no previous text.
func TestLoadTolerant_NoLinkCostsAnotherTeam(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {}\n", "a/a.hcl", teamFile("a", "one", ""), "b/b.hcl", teamFile("b", "two", ""))
	cfg := load(t, dir)
	link(t, "../b", filepath.Join(dir, "a", "b"))
	change(t, filepath.Join(dir, "b", "b.hcl"), teamFile("b", "two", "colour = 1"))
	later, kept, diags := LoadTolerant(dir, Options{}, cfg.TeamFiles)
	if got := summary(later, kept); got != "kept b/b.hcl b" || len(later.Upstreams()) != 2 {
		t.Errorf("%s: %v", got, diags.Err())
	}
}

// A file within the bounds is read in moments, however many of its blocks have errors.
func TestLoadTolerant_TakesMomentsForManyErrors(t *testing.T) {
	for name, text := range map[string]string{
		"rules of a team": "team \"a\" {\n" + strings.Repeat("expose \"\" {}\n", 8_000) + "}\n",
		"upstreams":       "team \"a\" {\n" + strings.Repeat("upstream \"\" {}\n", 8_000) + "}\n",
		"prompt blocks":   "team \"a\" {\n" + strings.Repeat("prompt \"x\" {}\n", 8_000) + "}\n",
		"hide blocks":     strings.Repeat("hide \"\" {}\n", 8_000),
		"teams":           strings.Repeat("team \"a\" {}\n", 8_000),
	} {
		path := filepath.Join(t.TempDir(), "file.hcl")
		change(t, path, text)
		begun := time.Now()
		if _, _, diags := LoadTolerant(filepath.Dir(path), Options{}, nil); !diags.HasErrors() || time.Since(begun) > 20*time.Second {
			t.Errorf("%s: errors: %t, after %v", name, diags.HasErrors(), time.Since(begun))
		}
	}
}

func TestTeamFiles_AreMasked(t *testing.T) {
	dir := write(t, "gateway.hcl", "gateway {}\n", "a.hcl", teamFile("a", "one", "# hunter2"))
	cfg, _ := Load(dir, Options{})
	if text := fmt.Sprintf("%v %+v %#v", cfg, cfg.TeamFiles, cfg.TeamFiles); strings.Contains(text, "hunter2") {
		t.Errorf("a team's text is printed: %s", text)
	}
}

// change replaces a file, or removes it if the text is empty. PIPE makes a pipe of it.
func change(t *testing.T, path, text string) {
	t.Helper()
	err := os.Remove(path)
	switch {
	case err != nil && !os.IsNotExist(err) || text == "":
	case text == "PIPE":
		err = exec.CommandContext(t.Context(), "mkfifo", path).Run()
	default:
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
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
