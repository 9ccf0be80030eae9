package interop_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// lostFiles are prompts of which some client loses something.
var lostFiles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"one.md":   "---\ndescription: One argument\narguments: [{name: topic, required: true}]\n---\nTell me about {{topic}}.\n",
	"two.md":   "---\ndescription: Two\narguments: [{name: a, required: true}, {name: b, required: true}]\n---\nOf {{a}} and {{b}}.\n",
	"lines.md": "---\ndescription: Lines\n---\nSay \"hello\",\nand goodbye.\n",
	"many.md":  "---\ndescription: Messages\n---\n## user\nAsk.\n## assistant\nAnswer.\n## user\nAsk again.\n",
	"image.md": "---\ndescription: An image\n---\n![dot](dot.png)\n\nDescribe it.\n",
}

// agent is a client that was run for the table of package clients.
type agent struct {
	name string // of --clients
	// run types a prompt and its arguments, a word and two words.
	run func(t *testing.T, endpoint, model, prompt string, words ...string)
	// want is what reaches the model: a line for each part, with its role. Of others, all does.
	want map[string]string
}

// TestClients_LoseWhatValidateSays runs clients against a stub of their models' APIs: what validate --clients says of a prompt is
// lost, and nothing else.
func TestClients_LoseWhatValidateSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	program, image := filepath.Join(dir, "promptweir"), make([]byte, base64.StdEncoding.DecodedLen(len(dot)))
	length, _ := base64.StdEncoding.Decode(image, []byte(dot))
	files := map[string]string{
		"gateway.hcl": fmt.Sprintf(settings, "", `upstream "files" { files = ["*.md"] }`), "dot.png": string(image[:length]),
	}
	for _, from := range []map[string]string{files, lostFiles} {
		for name, text := range from {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	endpoint := proctest.Start(t, dir, program, "serve", "--config", "gateway.hcl").Attr(t, "endpoint")
	waitUntilListed(t, endpoint, []string{"files.image", "files.lines", "files.many", "files.one", "files.two"})
	all := map[string]string{
		"one": "user: Tell me about a b.", "two": "user: Of a and b c.",
		"lines": "user: Say \"hello\",\nand goodbye.", "many": "user: Ask.\nassistant: Answer.\nuser: Ask again.",
		"image": "user: (image)\nuser: Describe it.",
	}
	words := map[string][]string{"one": {"a b"}, "two": {"a", "b c"}}
	for _, client := range []agent{
		{"claude-code", runClaude, map[string]string{
			"one": "user: Tell me about a.", "two": "user: Of a and b.", "many": "user: Ask.\nuser: Answer.\nuser: Ask again.",
		}},
		{"gemini", runGemini, map[string]string{
			"lines": `user: "Say \"hello\",\nand goodbye."`, "many": `user: "Ask."`, "image": "",
		}},
		{"opencode", runOpencode, map[string]string{
			"many": "user: Ask.\nAnswer.\nAsk again.", "image": "user: Describe it.",
		}},
	} {
		said := lossesSaid(t, dir, program, client.name)
		for prompt, whole := range all {
			t.Run(client.name+"/"+prompt, func(t *testing.T) {
				t.Parallel()
				if client.name != "claude-code" {
					takesLong(t)
				}
				model := &modelStub{}
				server := httptest.NewServer(model)
				defer server.Close()
				client.run(t, endpoint, server.URL, "files."+prompt, words[prompt]...)
				want, isLost := client.want[prompt]
				if !isLost {
					want = whole
				}
				got := model.parts()
				if client.name == "gemini" && !isLost { // it puts each text in quotes
					got = strings.ReplaceAll(got, `"`, "")
				}
				if got != want {
					t.Errorf("the model gets\n%s\nwant\n%s", got, want)
				}
				if said["files."+prompt] != isLost {
					t.Errorf("validate says that something is lost: %t, want %t", said["files."+prompt], isLost)
				}
			})
		}
	}
}

// lossesSaid returns of which prompts a client loses something, as validate says.
func lossesSaid(t *testing.T, dir, program, client string) map[string]bool {
	t.Helper()
	validate := exec.CommandContext(t.Context(), program, "validate", "gateway.hcl", "--clients", client, "-o", "json")
	validate.Dir = dir
	out, err := validate.Output()
	var result struct{ Clients []struct{ Prompt string } }
	if err == nil {
		err = json.Unmarshal(out, &result)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := map[string]bool{}
	for _, loss := range result.Clients {
		said[loss.Prompt] = true
	}
	return said
}

func runClaude(t *testing.T, endpoint, model, prompt string, words ...string) {
	t.Helper()
	servers := fmt.Sprintf(`{"mcpServers": {"gateway": {"type": "http", "url": %q}}}`, endpoint)
	runAgent(t, t.TempDir(), claudeEnv(model), "node", claudeLauncher(t), "-p",
		strings.Join(append([]string{"/mcp__gateway__" + prompt}, words...), " "), "--mcp-config", servers, "--strict-mcp-config")
}

// runGemini runs Gemini CLI, which ends with an error where it refuses a prompt.
func runGemini(t *testing.T, endpoint, model, prompt string, words ...string) {
	t.Helper()
	home := t.TempDir()
	typed := strings.Builder{}
	typed.WriteString("/" + prompt)
	for _, word := range words {
		fmt.Fprintf(&typed, " %q", word)
	}
	writeSettings(t, filepath.Join(home, ".gemini", "settings.json"), fmt.Sprintf(`{
		"mcpServers": {"gateway": {"httpUrl": %q}}, "general": {"disableAutoUpdate": true},
		"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}
	}`, endpoint))
	runAgent(t, home, geminiEnv(model), "node", installed(t, "gemini"), "-m", "gemini-2.5-flash", "-p", typed.String())
}

func geminiEnv(model string) []string {
	return []string{"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_CLI_TRUST_WORKSPACE=true"}
}

func runOpencode(t *testing.T, endpoint, model, prompt string, words ...string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the lock file has opencode for x64 only: npm writes no second platform into it")
	}
	home := t.TempDir()
	program, err := filepath.Abs(filepath.Join("node_modules", "opencode-linux-x64", "bin", "opencode"))
	if err != nil {
		t.Fatal(err)
	}
	writeSettings(t, filepath.Join(home, "opencode.json"), fmt.Sprintf(`{
		"autoupdate": false, "share": "disabled", "model": "stub/stub", "small_model": "stub/stub",
		"provider": {"stub": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": %q, "apiKey": "none"}, "models": {"stub": {}}}},
		"mcp": {"gateway": {"type": "remote", "url": %q}}
	}`, model+"/v1", endpoint))
	command := "gateway:" + strings.ReplaceAll(prompt, ".", "_")
	runAgent(t, home, []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
		program, slices.Concat([]string{"run", "--command", command}, strings.Fields(strings.Join(words, " ")))...)
}

// runAgent runs a client in its home folder. Whether it fails does not matter: what reaches the model does.
func runAgent(t *testing.T, home string, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = home, 5*time.Second
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%q: %v\n%s", cmd.Args, err, out)
	if ctx.Err() != nil {
		t.Fatal(ctx.Err())
	}
}

func writeSettings(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
