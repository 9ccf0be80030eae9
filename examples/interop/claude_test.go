package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// claudeFiles are commands and a skill of Claude Code, by their paths in its project.
var claudeFiles = map[string]string{ //nolint:gochecknoglobals // a constant table
	".claude/commands/git/fix.md":   "---\narguments: [title, branch, owner]\n---\nFix $title ($0) on $branch for $owner; costs \\$1 or $5.\n",
	".claude/commands/explain.md":   "# Explain\n\n$ARGUMENTS: $0, then $1.\n",
	".claude/commands/standup.md":   "---\nargument-hint: [day]\n---\nWrite a standup.",
	".claude/skills/pdf/SKILL.md":   "---\nname: pdf\ndescription: Fill in forms\narguments: form language\n---\nFill in $form in $language, $ARGUMENTS[0].\n",
	".claude/skills/plain/SKILL.md": "---\nname: plain\ndescription: Takes nothing\n---\nSay hello.\n",
}

// TestInterop_ClaudeCodeGetsCommandsAsFromItsOwnFolder runs Claude Code without a terminal, against a stub of its API, and compares
// what reaches the model: of its own command or skill, and of the same file behind the gateway.
func TestInterop_ClaudeCodeGetsCommandsAsFromItsOwnFolder(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for name, content := range claudeFiles {
		path := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings := fmt.Sprintf(settings, "", `upstream "files" { files = [".claude/commands/**/*.md", ".claude/skills/*/SKILL.md"] }`)
	file := filepath.Join(project, "gateway.hcl")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "promptweir")
	proctest.Build(t, filepath.Dir(program), "./cmd/promptweir")
	endpoint := proctest.Start(t, project, program, "serve", "--config", file).Attr(t, "endpoint")
	waitUntilListed(t, endpoint, []string{"files.explain", "files.git:fix", "files.pdf", "files.plain", "files.standup"})
	servers := fmt.Sprintf(`{"mcpServers": {"gateway": {"type": "http", "url": %q}}}`, endpoint)

	for _, typed := range []string{
		`git:fix "login page" main`, `git:fix 12 'main' "ann"`, `git:fix 12`, `git:fix`,
		`explain weirs`, `explain "weirs"`, `explain`, `standup monday`, `standup`,
		`pdf 'W-9'`, `pdf a b`, `plain`,
	} {
		t.Run(typed, func(t *testing.T) {
			t.Parallel()
			own := askClaude(t, project, "/"+typed)
			// Of a skill, it says where that is.
			if rest, isSkill := strings.CutPrefix(own, "Base directory for this skill: "); isSkill {
				_, own, _ = strings.Cut(rest, "\n\n")
			}
			got := askClaude(t, t.TempDir(), "/mcp__gateway__files."+typed, "--mcp-config", servers, "--strict-mcp-config")
			if want := strings.TrimSuffix(own, "\n"); got != want || want == "" {
				t.Errorf("/%s reaches the model as\n%q, want\n%q", typed, got, want)
			}
		})
	}
}

// askClaude runs Claude Code with a prompt in a folder, and returns what the prompt became: the last text of the user's message.
func askClaude(t *testing.T, folder, prompt string, args ...string) string {
	t.Helper()
	api := &modelStub{}
	server := httptest.NewServer(api)
	defer server.Close()
	launcher, err := filepath.Abs("node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{launcher, "-p", prompt}, args...)...)
	cmd.Dir, cmd.WaitDelay = folder, 5*time.Second
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Claude Code with %q: %v\n%s", prompt, err, out)
	}
	return api.last()
}

// modelStub is the API of Anthropic: every message gets the answer "ok".
type modelStub struct {
	mu   sync.Mutex
	text string // the last one that was not the client's own
}

func (s *modelStub) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

func (s *modelStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if r.URL.Path != "/v1/messages" || json.NewDecoder(r.Body).Decode(&sent) != nil {
		http.Error(w, `{"type":"error","error":{"type":"not_found_error","message":"not here"}}`, http.StatusNotFound)
		return
	}
	s.mu.Lock()
	for _, message := range sent.Messages {
		var parts []struct{ Text string }
		if message.Role != "user" || json.Unmarshal(message.Content, &parts) != nil {
			continue
		}
		for _, part := range parts {
			if !strings.HasPrefix(part.Text, "<system-reminder>") && part.Text != "" {
				s.text = part.Text
			}
		}
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	var events bytes.Buffer
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`,
		`{"type":"message_stop"}`,
	} {
		kind, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
		fmt.Fprintf(&events, "event: %s\ndata: %s\n\n", kind, event)
	}
	_, _ = w.Write(events.Bytes())
}
