package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// filesOf loads a configuration and returns the files of its only upstream that has any.
func filesOf(t *testing.T, dir string) *Files {
	t.Helper()
	for _, u := range load(t, dir).Upstreams() {
		if u.Files != nil {
			return u.Files
		}
	}
	t.Fatal("no upstream has files")
	return nil
}

func TestFiles_WithoutAllowBlocksLieBeneathTheTeamsFile(t *testing.T) {
	dir := write(t, "teams/docs.hcl", `team "docs" {
  upstream "handbook" { files = ["prompts/**/*.md"] }
}`)
	files := filesOf(t, dir)
	if want := filepath.Join(dir, "teams"); files.Folder != want || files.Root != want {
		t.Errorf("folder %s and root %s, want %s", files.Folder, files.Root, want)
	}
	if err := files.Allow(filepath.Join(dir, "teams", "prompts", "a.md")); err != nil {
		t.Errorf("Allow: %v", err)
	}
}

func TestFiles_WithAllowBlocksNeedAGrant(t *testing.T) {
	dir := write(t, "teams/docs.hcl", `team "docs" {
  upstream "handbook" { files = ["prompts/**/*.md"] }
}`, "gateway.hcl", `allow "docs" { files = ["teams/prompts/*", "shared/*.md"] }`)
	files := filesOf(t, dir)
	if files.Root != dir {
		t.Errorf("root %s, want %s", files.Root, dir)
	}
	for path, want := range map[string]bool{
		"teams/prompts/a.md": true, "teams/prompts/b/a.md": true, "shared/part.md": true,
		"teams/other/a.md": false, "teams/prompts/../other/a.md": false, "gateway.hcl": false,
	} {
		path = filepath.Join(dir, path)
		err := files.Allow(path)
		if (err == nil) != want {
			t.Errorf("Allow(%s) = %v, want allowed %t", path, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), `the platform team can add it to files in allow "docs"`) {
			t.Errorf("Allow(%s) = %v, without a remedy", path, err)
		}
	}
}

func TestFiles_ReservesWhatTheConfigurationReadsAsValues(t *testing.T) {
	dir := write(t, "gateway.hcl", `gateway {
  cursor_keys = [file("keys/cursor.md")]
  tls {
    cert_file = "tls.md"
    key_file  = "key.md"
  }
}`, "docs.hcl", `team "docs" {
  upstream "handbook" { files = ["*.md"] }
  upstream "billing" {
    url     = "https://billing.example.com/mcp"
    headers = { Authorization = file("header.md") }
  }
}`, "keys/cursor.md", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=", "header.md", "hunter2",
		"tls.md", secretFile(t, "client.crt").Reveal(), "key.md", secretFile(t, "client.key").Reveal(), "a.md", "text")
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, dir)
	for path, want := range map[string]bool{"a.md": true, "keys/cursor.md": false, "header.md": false, "tls.md": false, "key.md": false} {
		path = filepath.Join(dir, path)
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		if err := files.AllowResolved(path, path); (err == nil) != want {
			t.Errorf("AllowResolved(%s) = %v, want allowed %t", path, err, want)
		}
	}
}

func TestUpstream_FilesMakeAConnectionOfTheirOwn(t *testing.T) {
	source := `team "docs" {
  upstream "handbook" { files = ["prompts/*.md"] }
}`
	dir := write(t, "teams/docs.hcl", source)
	one, same := load(t, dir).Upstreams()[0], load(t, dir).Upstreams()[0]
	if !one.SameConnection(same) {
		t.Error("the same block makes another connection")
	}
	if got, want := one.Address(), "prompts/*.md"; got != want {
		t.Errorf("Address() = %q, want %q", got, want)
	}
	for _, change := range []func(){
		func() {
			writeFile(t, filepath.Join(dir, "teams", "docs.hcl"), strings.Replace(source, "{ files = [\"prompts/*.md\"] }", "{\n files = [\"prompts/*.md\"]\n texts = true\n}", 1))
		},
		func() { writeFile(t, filepath.Join(dir, "gateway.hcl"), `allow "docs" { files = ["*"] }`) },
	} {
		change()
		if changed := load(t, dir).Upstreams()[0]; one.SameConnection(changed) {
			t.Errorf("a changed block makes the same connection")
		}
	}
}

func TestFiles_AreBoundedByTheTeamsAllowBlockOrElseTheGateway(t *testing.T) {
	source := "team \"docs\" {\n  upstream \"handbook\" { files = [\"*.md\"] }\n}"
	for platform, want := range map[string]struct {
		max   int
		raise string
	}{
		"":                             {DefaultMaxFiles, "raise max_files in the gateway block"},
		"gateway { max_files = 4096 }": {4096, "raise max_files in the gateway block"},
		"gateway { max_files = 4096 }\nallow \"docs\" {}":                   {4096, `the platform team can raise max_files in allow "docs"`},
		"gateway { max_files = 4096 }\nallow \"docs\" { max_files = 8192 }": {8192, `the platform team can raise max_files in allow "docs"`},
	} {
		files := filesOf(t, write(t, "docs.hcl", source, "gateway.hcl", platform+"\n"))
		if files.Max != want.max || files.Raise() != want.raise {
			t.Errorf("%s: at most %d, %s; want %d, %s", platform, files.Max, files.Raise(), want.max, want.raise)
		}
	}
}

func TestPathPattern_MatchesWithinAndOverFolders(t *testing.T) {
	for _, test := range []struct {
		pattern string
		match   []string
		differs []string
	}{
		{"prompts/*.md", []string{"prompts/a.md"}, []string{"a.md", "prompts/b/a.md", "prompts/a.txt", "prompts/.a.md", "prompts/_a.md", "prompts/README.md"}},
		{"prompts/**/*.md", []string{"prompts/a.md", "prompts/b/a.md", "prompts/b/c/a.md"}, []string{"a.md", "prompts/.git/a.md", "prompts/_parts/a.md", "other/prompts/a.md"}},
		{"**/*.prompt.md", []string{"a.prompt.md", "x/y/a.prompt.md"}, []string{"a.md", ".github/prompts/a.prompt.md"}},
		{".claude/commands/**/*.md", []string{".claude/commands/a.md", ".claude/commands/git/a.md"}, []string{"claude/commands/a.md", ".claude/a.md"}},
		{"**/SKILL.md", []string{"SKILL.md", "a/SKILL.md", "a/b/SKILL.md"}, []string{"SKILLS.md", "a/skill.md"}},
		{"a/**/b/**/c.md", []string{"a/b/c.md", "a/x/b/y/z/c.md", "a/b/b/c.md"}, []string{"a/c.md", "b/c.md"}},
		{"_drafts/?[ab].md", []string{"_drafts/xa.md"}, []string{"drafts/xa.md", "_drafts/xc.md"}},
		{"..2026/README.md", []string{"..2026/README.md"}, []string{"2026/README.md", "..2026/readme.md"}},
		{"{de,en}/*.md", []string{"de/a.md", "en/a.md"}, []string{"fr/a.md"}},
		{"**/_drafts/*.md", []string{"a/_drafts/b.md"}, []string{"a/_parts/_drafts/b.md", "a/_drafts/_b.md", "a/_drafts/readme.md"}},
		{"ü.md", []string{"ü.md", "u\u0308.md"}, []string{"u.md"}},
	} {
		p, err := parsePathPattern(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range test.match {
			if !p.Match(path) {
				t.Errorf("%s does not match %s", test.pattern, path)
			}
		}
		for _, path := range test.differs {
			if p.Match(path) {
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
		if got := p.Enters(folder); got != want {
			t.Errorf("Enters(%s) = %t, want %t", folder, got, want)
		}
	}
	if got := p.Folder(); got != "prompts" {
		t.Errorf("Folder() = %s, want prompts", got)
	}
}
