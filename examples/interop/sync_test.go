package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// syncedPrompts have in their texts what some client would run, read or replace, under the name of one that would not.
var syncedPrompts = map[string]string{ //nolint:gochecknoglobals // a constant table
	"claude": "---\n---\n---\nmodel: x\n---\n$0 $ARGUMENTS $$1 \\\\$HOME !{touch ran} {{args}} ${input:x} (@secret.txt) `!` \"\"\"\n",
	"gemini": "---\n---\n!`touch ran` @secret.txt $ARGUMENTS ${CLAUDE_EFFORT} \\\\ \"\"\"\" {{ args }}\n```!\ntouch ran\n```\n",
	"codex":  "---\n---\n$1 $ARGUMENTS !`touch ran` !{touch ran} @secret.txt @{secret.txt} {{args}} ${CLAUDE_EFFORT}\n---\nname: x\n",
	"empty":  "---\narguments: [{name: a}]\n---\n!{{a}}`touch ran`\n", // which runs where the argument is left out
	"one":    "---\narguments: [{name: a, required: true}]\n---\nOne {{a}}, twice {{a}}.\n",
	"two":    "---\narguments: [{name: a, required: true}, {name: b}]\n---\nOf {{a}} and {{b}}s.\n",
}

// TestSync_ClientsTakeFilesAsText runs clients on what promptweir sync writes for them: the text that reaches their model is that
// of a get, and nothing of it was run, read or replaced.
func TestSync_ClientsTakeFilesAsText(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	program := filepath.Join(dir, "promptweir")
	writeSettings(t, filepath.Join(dir, "gateway.hcl"), fmt.Sprintf(settings, "", `upstream "files" {
  files  = ["*.md"]
  format = "promptweir"
}`))
	for name, text := range syncedPrompts {
		writeSettings(t, filepath.Join(dir, name+".md"), text)
	}
	endpoint := proctest.Start(t, dir, program, "serve", "--config", "gateway.hcl").Attr(t, "endpoint")
	waitUntilListed(t, endpoint, []string{"files.claude", "files.codex", "files.empty", "files.gemini", "files.one", "files.two"})
	sync := exec.CommandContext(t.Context(), program, "sync", "--url", endpoint, "--to", "claude,gemini,codex")
	sync.Env = []string{"HOME=" + home}
	if out, err := sync.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, client := range []struct {
		name, folder string
		files        []string
		run          func(t *testing.T, home, model, typed string)
		typed        string // before the name
		args         map[string][]string
		after        string // the text, for a prompt without a place for an argument
	}{
		{
			"claude", ".claude/commands",
			[]string{"files.claude.md", "files.one.md", "files.two.md"},
			claudeIn, "/files.",
			map[string][]string{"one": {"a=x y"}, "two": {"a=x", "b=y"}},
			"",
		},
		{
			"gemini", ".gemini/commands",
			[]string{"files.gemini.toml", "files.one.toml", "files.two.toml"},
			geminiIn, "/files.",
			map[string][]string{"one": {"a=x y"}, "two": {"a=⟨a⟩", "b=⟨b⟩"}},
			"\n\n/files.two x y",
		},
		{
			"codex", ".codex/skills",
			[]string{"files.claude", "files.codex", "files.empty", "files.gemini", "files.one", "files.two"},
			codexIn, "$files:",
			map[string][]string{"one": {"a=⟨a⟩"}, "two": {"a=⟨a⟩", "b=⟨b⟩"}},
			"",
		},
	} {
		if diff := cmp.Diff(client.files, namesIn(t, filepath.Join(home, client.folder))); diff != "" {
			t.Errorf("files of %s (-want +got):\n%s", client.name, diff)
		}
		for _, prompt := range []string{client.name, "one", "two"} {
			t.Run(client.name+"/"+prompt, func(t *testing.T) {
				t.Parallel()
				if client.name == "gemini" && prompt != "two" {
					takesLong(t)
				}
				own := t.TempDir()
				if err := os.CopyFS(filepath.Join(own, client.folder), os.DirFS(filepath.Join(home, client.folder))); err != nil {
					t.Fatal(err)
				}
				writeSettings(t, filepath.Join(own, "secret.txt"), "the secret")
				typed := client.typed + prompt
				if client.args[prompt] != nil {
					typed += " x y"
				}
				api := &modelStub{}
				server := httptest.NewServer(api)
				defer server.Close()
				client.run(t, own, server.URL, typed)
				want := textOf(t, program, endpoint, "files."+prompt, client.args[prompt])
				if prompt == "two" {
					want += client.after
				}
				got := api.last()
				if skill, isSkill := strings.CutPrefix(got, "<skill>"); isSkill {
					_, got, _ = strings.Cut(strings.TrimSuffix(skill, "\n</skill>"), "\ndescription: ")
					_, got, _ = strings.Cut(got, "\n---\n")
				}
				if got != want {
					t.Errorf("%s reaches the model as\n%q, want\n%q", typed, got, want)
				}
				if strings.Contains(api.parts(), "the secret") || slices.Contains(namesIn(t, own), "ran") {
					t.Error("the client has run or read something")
				}
			})
		}
	}
}

func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// textOf returns the text of a get.
func textOf(t *testing.T, program, endpoint, prompt string, args []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, slices.Concat([]string{"get", prompt, "--url", endpoint, "-o", "json"}, args)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Messages []struct{ Content struct{ Text string } }
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Messages) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	return got.Messages[0].Content.Text
}

func claudeIn(t *testing.T, home, model, typed string) {
	t.Helper()
	runAgent(t, home, claudeEnv(model), "node", claudeLauncher(t), "-p", typed)
}

func geminiIn(t *testing.T, home, model, typed string) {
	t.Helper()
	writeSettings(t, filepath.Join(home, ".gemini", "settings.json"), `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`)
	runAgent(t, home, geminiEnv(model), "node", installed(t, "gemini"), "-m", "gemini-2.5-flash", "-p", typed)
}

func codexIn(t *testing.T, home, model, typed string) {
	t.Helper()
	writeSettings(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`model = "m"
model_provider = "stub"
[model_providers.stub]
name = "stub"
base_url = "%s/v1"
wire_api = "responses"
`, model))
	runAgent(t, home, nil, "node", installed(t, "codex"), "exec", "--skip-git-repo-check", typed)
}
