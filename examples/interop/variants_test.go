package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// TestVariants_ToolsServeAClientOfTools has the AI SDK, which knows no prompts, find and get them in both eras.
func TestVariants_ToolsServeAClientOfTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	everything := fmt.Sprintf("upstream \"everything\" { command = [%q, \"stdio\"] }", installed(t, "mcp-server-everything"))
	file := filepath.Join(dir, "gateway.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, settings, `variants = ["tools"]`, everything), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file).Attr(t, "endpoint")
	waitUntilListed(t, endpoint, []string{
		"everything.args-prompt", "everything.completable-prompt", "everything.resource-prompt", "everything.simple-prompt",
	})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		out, err := runNode(t, patience, "aisdk.mjs", endpoint+"/tools", revision)
		if err != nil {
			t.Fatal(err)
		}
		type result struct {
			Revision     string
			Tools, Found []string
			Got          string
			Unknown      []any
		}
		var got result
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if len(got.Found) > 0 { // the others have one word or another
			got.Found = got.Found[:1]
		}
		want := result{
			revision,
			[]string{"get_prompt", "list_prompts"},
			[]string{"everything.args-prompt"},
			"What's weather in Oslo, Norway?",
			[]any{true, "Unknown prompt: everything.none"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", revision, diff)
		}
	}
}

// TestVariants_FlatReachesTheModelWhole runs clients against a stub of their models' APIs: at the plain endpoint they lose some of
// these prompts, at /flat nothing but images, which are named.
func TestVariants_FlatReachesTheModelWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	files := map[string]string{
		"gateway.hcl": fmt.Sprintf(settings, `variants = ["flat"]`, `upstream "files" { files = ["*.md"] }`),
		"many.md":     "---\ndescription: Messages\n---\n## user\nAsk.\n## assistant\nAnswer.\n## user\nAsk again.\n",
		"two.md":      "---\ndescription: Two\narguments: [{name: a}, {name: b, required: true}]\n---\nOf {{b}}.\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	endpoint := proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", "gateway.hcl").Attr(t, "endpoint")
	waitUntilListed(t, endpoint, []string{"files.many", "files.two"})
	parts := []string{"Ask.", "Answer.", "Ask again."}
	for _, client := range []agent{{name: "gemini", run: runGemini}, {name: "claude-code", run: runClaude}} {
		for variant, whole := range map[string]bool{"": client.name != "gemini", "/flat": true} {
			t.Run(client.name+variant, func(t *testing.T) {
				t.Parallel()
				if client.name == "gemini" && variant == "" {
					takesLong(t)
				}
				model := &modelStub{}
				server := httptest.NewServer(model)
				defer server.Close()
				client.run(t, endpoint+variant, server.URL, "files.many")
				got, rest, all := model.parts(), model.parts(), true
				for _, part := range parts {
					_, after, ok := strings.Cut(rest, part)
					rest, all = after, all && ok
				}
				if all != whole {
					t.Errorf("everything reaches the model: %t, want %t: %s", all, whole, got)
				}
				if variant == "/flat" && (strings.Count(got, "user: ") != 1 || !strings.Contains(got, "## assistant")) {
					t.Errorf("the model gets\n%s\nwant one message with headings", got)
				}
			})
		}
	}
	t.Run("gemini/flat/arguments", func(t *testing.T) {
		t.Parallel()
		model := &modelStub{}
		server := httptest.NewServer(model)
		defer server.Close()
		runGemini(t, endpoint+"/flat", server.URL, "files.two", "b c") // of two arguments, the required one is the text
		if got := model.parts(); !strings.Contains(got, "Of b c.") {
			t.Errorf("the model gets %s", got)
		}
	})
}
