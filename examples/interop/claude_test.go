package interop_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestInterop_QuickstartServesASkill reads the quickstart's skill as a host of skills does, and as Claude Code does without them: 2.1.332
// lists a server's skills only for accounts for which its maker has turned that on.
func TestInterop_QuickstartServesASkill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	proctest.Build(t, folder, "./cmd/promptweir")
	proctest.CopyExample(t, filepath.Join(folder, "quickstart"), "quickstart")
	endpoint := proctest.Start(t, folder, filepath.Join(folder, "promptweir"), "serve", "quickstart").Attr(t, "endpoint")
	out, err := runNode(t, patience, "skills.mjs", "2026-07-28", endpoint)
	if err != nil || !strings.Contains(out, "skill://guides/postmortem/TEMPLATE.md") {
		t.Errorf("a host verifies %s, %v", out, err)
	}
	servers := fmt.Sprintf(`{"mcpServers": {"gateway": {"type": "http", "url": %q}}}`, endpoint)
	got := askClaude(t, t.TempDir(), "/mcp__gateway__guides.postmortem", "--mcp-config", servers, "--strict-mcp-config")
	if !strings.Contains(got, "Name systems and decisions, never people.") {
		t.Errorf("the skill reaches the model as %q", got)
	}
}

// askClaude runs Claude Code with a prompt in a folder, and returns what the prompt became: the last text of the user's message.
func askClaude(t *testing.T, folder, prompt string, args ...string) string {
	t.Helper()
	api := &modelStub{}
	server := httptest.NewServer(api)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{claudeLauncher(t), "-p", prompt}, args...)...)
	cmd.Dir, cmd.WaitDelay = folder, 5*time.Second
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, claudeEnv(server.URL)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Claude Code with %q: %v\n%s", prompt, err, out)
	}
	return api.last()
}

func claudeLauncher(t *testing.T) string {
	t.Helper()
	launcher, err := filepath.Abs("node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs")
	if err != nil {
		t.Fatal(err)
	}
	return launcher
}

// claudeEnv points Claude Code at an API, and at nothing else.
func claudeEnv(api string) []string {
	return []string{
		"ANTHROPIC_BASE_URL=" + api, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	}
}
