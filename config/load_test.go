package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func team(name string) string { return "team \"" + name + "\" {}\n" }

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// places returns where the teams of a configuration were found, relative to dir.
func places(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, team := range load(t, dir).Teams {
		relative, err := filepath.Rel(dir, team.Place.File)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, relative)
	}
	return found
}

func TestAFolderIsReadRecursivelyInOrder(t *testing.T) {
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
	if diff := cmp.Diff([]string{"a/deep/er/x.hcl", "a/z.hcl", "b.hcl", "c.hcl"}, places(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestAConfigMapIsLoadedOnce(t *testing.T) {
	dir := write(t, "..2026_01_31/a.hcl", team("a"), "..2026_01_31/b.hcl", team("b"))
	link(t, "..2026_01_31", filepath.Join(dir, "..data"))
	link(t, "..data/a.hcl", filepath.Join(dir, "a.hcl"))
	link(t, "..data/b.hcl", filepath.Join(dir, "b.hcl"))
	if diff := cmp.Diff([]string{"a.hcl", "b.hcl"}, places(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestLinksNeitherLoopNorLoadTwice(t *testing.T) {
	other := write(t, "o.hcl", team("o"))
	dir := write(t, "a.hcl", team("a"))
	link(t, dir, filepath.Join(dir, "loop"))
	link(t, "a.hcl", filepath.Join(dir, "again.hcl"))
	link(t, other, filepath.Join(dir, "other"))
	link(t, "nowhere", filepath.Join(dir, "dangling"))
	if diff := cmp.Diff([]string{"a.hcl", "other/o.hcl"}, places(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestPlacesStartLikeTheArgument(t *testing.T) {
	t.Chdir(write(t, "conf/teams/a.hcl", team("a")))
	if got := load(t, "conf").Teams[0].Place.String(); got != "conf/teams/a.hcl:1" {
		t.Errorf("place = %s, want conf/teams/a.hcl:1", got)
	}
}

func TestWhatCannotBeReadIsAnErrorThatNamesThePath(t *testing.T) {
	dir := write(t, "empty/README.md", "", "x.lock.hcl", "", "dangling/a.hcl", "", "large.hcl", strings.Repeat(" ", (1<<20)+1))
	link(t, "nowhere", filepath.Join(dir, "dangling", "b.hcl"))
	for name, want := range map[string]string{
		"missing":    "no such file",
		"empty":      "contains no .hcl file",
		"x.lock.hcl": "is a lock file",
		"dangling":   "no such file",
		"large.hcl":  "split it",
	} {
		path := filepath.Join(dir, name)
		_, diags := Load(path, options())
		if err := diags.Err(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%s): %v, want the path and %q", path, err, want)
		}
	}
}

func TestGrantedFiles(t *testing.T) {
	certificate := secretFile(t, "ca.crt").Reveal() // what a tls block takes
	elsewhere := write(t, "secret", certificate, "mounted", certificate)
	dir := write(t,
		"secrets/..2026_01_31_10_11_12.3456/token", certificate,
		"secrets/payments/token", certificate,
		"..evil/secrets/payments/token", certificate,
		"..data/secrets/payments/token", certificate,
		"..2026_01_31_10_11_12.3456/secrets/payments/token", certificate,
		"secrets/..2026_01_31/payments/token", certificate,
		"teams/.keep", "",
	)
	link(t, "..2026_01_31_10_11_12.3456", filepath.Join(dir, "secrets", "..data"))
	link(t, "..data/token", filepath.Join(dir, "secrets", "token"))
	link(t, filepath.Join(elsewhere, "secret"), filepath.Join(dir, "secrets", "payments", "link"))
	link(t, elsewhere, filepath.Join(dir, "secrets", "payments", "folder"))

	loads := func(grant, upstream string) bool {
		policy := `allow "a" {` + "\n" + `files = ["` + grant + `"]` + "\n" + `commands = ["*"]` + "\n" + `hosts = ["*"]` + "\n}"
		team := `team "a" {` + "\n" + `upstream "u" {` + "\n" + upstream + "\n}\n}"
		for name, content := range map[string]string{"gateway.hcl": policy, "teams/a.hcl": team} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, _ := Load(dir, options())
		return cfg != nil
	}
	may := func(grant, path string) bool {
		t.Helper()
		function := loads(grant, `command = ["x", file("`+path+`")]`)
		block := loads(grant, `url = "https://u"`+"\n"+`tls { ca_file = "`+path+`" }`)
		if function != block {
			t.Errorf("%q grants %q to file(): %t, to a tls block: %t", grant, path, function, block)
		}
		return function
	}
	allow := func(grant, path string) {
		t.Helper()
		if !may(grant, path) {
			t.Errorf("%q does not grant %q", grant, path)
		}
	}
	deny := func(grant, path string) {
		t.Helper()
		if may(grant, path) {
			t.Errorf("%q grants %q", grant, path)
		}
	}
	allow("secrets/payments/*", "../secrets/payments/token")
	allow("secrets/payments/*", "../teams/../secrets/payments/token")
	allow("secrets/payments/*", filepath.Join(dir, "secrets/payments/token"))
	allow("secrets/token", "../secrets/token") // as Kubernetes mounts it
	allow("secrets/token", "../secrets/..data/token")
	allow(elsewhere+"/m*", filepath.Join(elsewhere, "mounted"))
	deny("secrets/payments/*", "../secrets/token")
	deny("secrets/payments/*", "../secrets/payments/../token")
	deny("secrets/payments/*", "../secrets/payments/link")
	deny("*", "../secrets/payments/link")
	deny("*", "../secrets/payments/folder/secret")
	deny("*", filepath.Join(elsewhere, "secret"))
	deny("*", "../../"+filepath.Base(elsewhere)+"/secret")
	deny("../*", "../../"+filepath.Base(elsewhere)+"/secret")
	deny("secrets/payments/*", "../..evil/secrets/payments/token")
	allow("secrets/payments/*", "../..data/secrets/payments/token") // where the folder itself is a mount
	allow("secrets/payments/*", "../..2026_01_31_10_11_12.3456/secrets/payments/token")
	deny("secrets/payments/*", "../secrets/..2026_01_31/payments/token")
}

func TestAConfigFolderThatIsAMountGrantsItsVersionsToo(t *testing.T) {
	for grant, ok := range map[string]bool{`"token"`: true, `"other"`: false} {
		const version = "..2026_01_31_10_11_12.3456"
		dir := write(t,
			version+"/gateway.hcl", "allow \"a\" {\ncommands = [\"x\"]\nfiles = ["+grant+"]\n}",
			version+"/a.hcl", "team \"a\" {\nupstream \"u\" { command = [\"x\", file(\"token\")] }\n}",
			version+"/token", "content",
		)
		link(t, version, filepath.Join(dir, "..data"))
		for _, name := range []string{"gateway.hcl", "a.hcl", "token"} {
			link(t, "..data/"+name, filepath.Join(dir, name))
		}
		if cfg, diags := Load(dir, options()); (cfg != nil) != ok {
			t.Errorf("files = [%s]: %v", grant, diags.Err())
		}
	}
}

func TestFunctions(t *testing.T) {
	for expr, want := range map[string]string{
		`upper("a")`:                           "A",
		`trimprefix("abc", "a")`:               "bc",
		`trimsuffix("abc", "c")`:               "ab",
		`trim("xax", "x")`:                     "a",
		`replace("a-b", "-", "+")`:             "a+b",
		`regex("[0-9]+", "ab12")`:              "12",
		`join(",", split("-", "a-b"))`:         "a,b",
		`format("%s-%02d", "a", 7)`:            "a-07",
		`substr("abcdef", 1, 2)`:               "bc",
		`tostring(length(["a", "b"]))`:         "2",
		`join(",", concat(["a"], ["b"]))`:      "a,b",
		`tostring(contains(["a"], "a"))`:       "true",
		`join(",", keys({ a = 1, b = 2 }))`:    "a,b",
		`join(",", values({ a = 1, b = 2 }))`:  "1,2",
		`merge({ a = "1" }, { a = "2" }).a`:    "2",
		`lookup({ a = "1" }, "b", "c")`:        "c",
		`join(",", flatten([["b"], ["a"]]))`:   "b,a",
		`join(",", sort(distinct(["b","a"])))`: "a,b",
		`coalesce(null, "a")`:                  "a",
		`join(",", compact(["", "a"]))`:        "a",
		`tostring(tonumber("1") + 1)`:          "2",
		`jsondecode("{\"a\":\"b\"}").a`:        "b",
		`jsonencode({ a = "b" })`:              `{"a":"b"}`,
		`base64encode("a")`:                    "YQ==",
		`base64decode("YQ")`:                   "a",
		`sha256("a")`:                          "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
		`urlencode("a b")`:                     "a+b",
		`env("SECRET")`:                        "hunter2-env",
		`env("UNSET", "default")`:              "default",
		`env("UNSET", "")`:                     "",
		`"<${trimspace(file("value"))}>"`:      "<content>",
		`true ? env("SECRET") : "x"`:           "hunter2-env",
		`[for s in ["a"] : upper(s)][0]`:       "A",
	} {
		dir := write(t, "x.hcl", "team \"a\" {\nupstream \"u\" {\ncommand = [\"x\"]\nenv = { V = "+expr+" }\n}\n}", "value", "content\n")
		cfg, diags := Load(filepath.Join(dir, "x.hcl"), options())
		if cfg == nil {
			t.Errorf("%s: %v", expr, diags.Err())
			continue
		}
		if got := cfg.Upstreams()[0].Env["V"].Reveal(); got != want {
			t.Errorf("%s = %q, want %q", expr, got, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*/*.hcl")
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "x.hcl")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		opts := options()
		for _, opts.AllowUnsetEnv = range []bool{false, true} {
			cfg, diags := Load(path, opts)
			if (cfg == nil) != diags.HasErrors() || (diags.Err() != nil) != diags.HasErrors() {
				t.Errorf("Load = %v with %v", cfg, diags.Err())
			}
			var out strings.Builder
			if err := diags.Write(&out, 80, true); err != nil {
				t.Error(err)
			}
			if text := out.String(); strings.Contains(text, "hunter2-env") && !strings.Contains(string(content), "hunter2") {
				t.Errorf("a secret shows in:\n%s", text)
			}
		}
	})
}

func TestDeepNestingIsAMistakeAndNotACrash(t *testing.T) {
	n := (1 << 20) / 2
	for _, content := range []string{
		"a = " + strings.Repeat("[", n),
		"a = " + strings.Repeat("!", n) + "true",
		"a = " + strings.Repeat("-", n) + "1",
		"a = " + strings.Repeat("1+", n) + "1",
		"a = " + strings.Repeat("b ? c : ", n/8) + "1",
		"a = \"" + strings.Repeat("${\"", n/4),
		"a = b" + strings.Repeat("[*]", n/4),
		"a = b" + strings.Repeat("[0]", n/4),
		"a = b" + strings.Repeat(".c", n/4),
		strings.Repeat("a {\n", n/8),
	} {
		path := filepath.Join(write(t, "x.hcl", content), "x.hcl")
		if cfg, _ := Load(path, options()); cfg != nil {
			t.Errorf("%.20s… is accepted", content)
		}
	}
}

func TestWhatIsReadIsVisited(t *testing.T) {
	dir := write(t,
		"gateway.hcl", "gateway {\n  instructions = file(\"text/motd\")\n  lock = \"warn\"\n}\n",
		"text/motd", "Hello.",
		"teams/eng.hcl", "team \"eng\" {\n  upstream \"up\" {\n    url = \"https://example.com/mcp\"\n    headers = { X-Key = file(\"none\") }\n  }\n}\n",
		"_draft.hcl", "nonsense",
	)
	var visited []string
	opts := options()
	opts.OnRead = func(path string) {
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(visited, relative) {
			visited = append(visited, relative)
		}
	}
	if _, diags := Load(dir, opts); !diags.HasErrors() {
		t.Fatal("a file is missing, and it loads")
	}
	slices.Sort(visited)
	if diff := cmp.Diff([]string{".", "gateway.hcl", "promptweir.lock.hcl", "teams", "teams/eng.hcl", "teams/none", "text", "text/motd"}, visited); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
