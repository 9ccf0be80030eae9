package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

func TestLoad_ReportsEachPathBeforeItIsRead(t *testing.T) {
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
