package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// tries starts promptweir try in a folder, at free ports.
func tries(t *testing.T, folder string, args ...string) *gatewayProcess {
	t.Helper()
	return startGateway(t, program(t, "promptweir"), "", func(p *gatewayProcess) {
		p.Args = append([]string{p.Args[0], "try", "--port", "0", "--log-format", "json", "--log-level", "info"}, args...)
		p.Dir, p.Env = folder, append(p.Env, "HOME="+filepath.Join(folder, "home"), "GREETING=hello")
	})
}

func TestTry_ServesWhatIsNamedWithoutAConfiguration(t *testing.T) {
	folder := t.TempDir()
	for path, text := range map[string]string{
		"notes/a.md": "A {{x}}", "notes/sub/b.md": "B", "notes/.hidden/c.md": "C", "one [1].md": "One", "other.md": "Other",
		"home/.claude/commands/git/fix.md": "Fix $0, $1.", "home/.claude/skills/pdf/SKILL.md": "Fill in.", "home/README.md": "No prompt.",
		"project/.claude/commands/deploy.md": "Deploy.", "project/.github/prompts/doc.prompt.md": "Write.", "project/README.md": "No prompt.",
		"others/.codex/prompts/a.md": "Fix $WHAT.", "others/.cursor/commands/b.md": "B", "others/.gemini/commands/git/c.toml": `prompt = "C"`,
		"others/.opencode/command/d.md": "D", "others/README.md": "No prompt.",
		"both/.claude/commands/a.md": "A", "both/.cursor/commands/a.md": "A\n", "both/.cursor/commands/b.md": "B",
		"unlike/.claude/commands/a.md": "A", "unlike/.claude/skills/s/SKILL.md": "S", "unlike/.cursor/commands/a.md": "B",
		"agents/.agents/skills/x/SKILL.md": "X", "agents/.github/skills/y/SKILL.md": "Y", "agents/.gemini/skills/z/SKILL.md": "Z",
		"plugin/.claude-plugin/plugin.json": "{}", "plugin/commands/git/a.md": "A", "plugin/skills/s/SKILL.md": "S", "plugin/README.md": "No prompt.",
		"dotfiles/claude/commands/git/fix.md": "Fix.", "dotfiles/claude/commands/_own.md": "Own.", "dotfiles/claude/skills/pdf/SKILL.md": "PDF",
		"dotfiles/gemini/commands/a.toml": `prompt = "A"`, "own/x.md": "X",
		"skills/x/SKILL.md": "X", "skills/x/FORMS.md": "No prompt.",
		"project/.mcp.json": fmt.Sprintf(`{"mcpServers": {"web": {"url": %q}, "child": {"command": %q, "env": {"SECRET_KEY": "hunter2"}}}}`,
			serveOverHTTP(t, newGreeter()), program(t, "greeter")),
	} {
		putFile(t, folder, path, text)
	}
	for link, target := range map[string]string{
		"linked/.claude": "dotfiles/claude", "linked/.gemini/commands": "dotfiles/gemini/commands", "cloned/.claude/commands": "own",
	} {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(link)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(folder, target), filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	const greeter = "%[1]s.hello %[1]s.pid %[1]s.slow %[1]s.wip_bye"
	url := serveOverHTTP(t, newGreeter())
	for _, test := range []struct{ in, args, want string }{
		{".", "notes", "notes.a notes.b"},
		{".", "one [1].md", filepath.Base(folder) + ".one [1]"},
		{".", "home/.claude/commands", "commands.git:fix"},
		{".", "home/.claude/commands/git/fix.md", "git.git:fix"},
		{".", "home/.claude/skills/pdf", "pdf.pdf"},
		{".", "skills", "skills.x"},
		{".", "project", "project.deploy project.doc"},
		{".", "others", "others.b others.d others.git:c"}, // Codex reads no custom prompts
		{".", "both", "both.a both.b"},
		{".", "unlike", "claude.a claude.s cursor.a"},
		{".", "agents", "agents.x agents.y agents.z"},
		{".", "plugin", "plugin.git:a plugin.s"},
		{".", "linked", "claude._own claude.git:fix claude.pdf gemini.a"},
		{".", "linked/.claude", "claude._own claude.git:fix claude.pdf"},
		{".", "linked/.claude/commands", "commands._own commands.git:fix"},
		{".", "linked/.claude/commands/git/fix.md", "git.git:fix"},
		{".", "linked/.gemini/commands", "commands.a"},
		{".", "cloned/.claude/commands", "commands.x"},
		{".", "home/.claude", "claude.git:fix claude.pdf"},
		{".", "others/.gemini/commands/git/c.toml", "git.git:c"},
		{".", url, fmt.Sprintf(greeter, "server")},
		{".", "project/.mcp.json", fmt.Sprintf(greeter, "web")},
		{".", "project/.mcp.json\x00--yes", fmt.Sprintf(greeter+" ", "child") + fmt.Sprintf(greeter, "web")},
		{".", "", "home.git:fix home.pdf"},
		{"project", "", "project.deploy project.doc"}, // the caller did not name .mcp.json
		{"project", "--yes", fmt.Sprintf(greeter, "child") + " project.deploy project.doc " + fmt.Sprintf(greeter, "web")},
		{".", "notes\x00project\x00" + url, "notes.a notes.b project.deploy project.doc " + fmt.Sprintf(greeter, "server")},
	} {
		t.Run(test.in+" "+test.args, func(t *testing.T) {
			t.Parallel()
			p := tries(t, filepath.Join(folder, test.in), strings.FieldsFunc(test.args, func(r rune) bool { return r == 0 })...)
			got := ""
			eventually(t, "the list is "+test.want, func() bool { got = p.list(t, "").names(); return got == test.want || t.Failed() })
			for _, address := range []string{p.endpoint, p.admin} {
				if !strings.Contains(address, "127.0.0.1:") {
					t.Errorf("it listens at %s", address)
				}
			}
			if log := p.logged(); strings.Contains(log, "hunter2") || strings.Contains(log, "code=") {
				t.Errorf("the log has a secret:\n%s", log)
			}
		})
	}
}

// A prompt that is edited during try is in the next list.
func TestTry_FollowsTheFiles(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	writeFile(t, folder, "a.md", "A")
	writeFile(t, other, "c.md", "C")
	p := tries(t, folder, folder, other)
	name, last := filepath.Base(folder)+".", " "+filepath.Base(other)+".c"
	eventually(t, "a is listed", func() bool { return p.list(t, "").names() == name+"a"+last })
	if _, body := p.page(t, "/api/upstreams"); !strings.Contains(body, fmt.Sprintf(`"place": %q`, folder)) {
		t.Errorf("the place is not the folder: %s", body)
	}
	writeFile(t, folder, "b.md", "B")
	eventually(t, "b is listed", func() bool { return p.list(t, "").names() == name+"a "+name+"b"+last })
	upstreamtest.Equal(t, 0, p.stop(t), "exit code")
	if log := p.logged(); !strings.Contains(log, "promptweir: stopped\n") { // the log may come after it
		t.Errorf("it ends without a word:\n%s", log)
	}
}

func TestTry_SaysWhatItServesOnceItIsKnown(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, folder, "a.md", "A")
	writeFile(t, folder, "mcp.json", fmt.Sprintf(`{"mcpServers": {"child": {"command": %q}, "gone": {"url": "http://127.0.0.1:1/mcp"}}}`,
		program(t, "greeter")))
	p := tries(t, folder, "a.md", "mcp.json", "--yes")
	for _, want := range []string{"promptweir: starting greeter for child\n", "promptweir: serving 5 prompts from 2 of 3 sources\n"} {
		eventually(t, "it says: "+want, func() bool { return strings.Contains(p.logged(), want) })
	}
}

func TestTry_SaysWhatItLookedFor(t *testing.T) {
	p := tries(t, t.TempDir(), ".")
	const want = ". has no prompts: looked for **/*.md and, in a project, for folders of clients. Write a text into a file such as review.md\n"
	eventually(t, "it is said", func() bool { return strings.Contains(p.logged(), want) })
}

func TestTry_SaysWhatCannotBeTried(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	writeFile(t, ".", "none.json", "{}")
	writeFile(t, ".", "child.json", `{"mcpServers": {"a": {"command": "x"}}}`)
	writeFile(t, ".", "sent.json", `{"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-A": "${HOME}"}}, `+
		`"b": {"url": "http://127.0.0.1:1/mcp?b=${HOME}"}, "c": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-A": "${HOME:-none}"}}}}`)
	for args, want := range map[string]string{
		"":              "found no .mcp.json, and no .claude/commands, .agents/skills or other folder of a client, here or in the home folder",
		"nowhere":       "promptweir: nowhere: no such file or folder; name Markdown files",
		"ftp://x":       `try "ftp://x": use an http or https URL`,
		"none.json":     "it has no MCP servers",
		"child.json":    "1 server left out: without a terminal, they need --yes\npromptweir: there is nothing to serve",
		"sent.json":     "3 servers left out: without a terminal",
		"--port 100000": "--port 100000: use a number from 0 to 65535",
	} {
		_, stderr, code := runHere(t, append([]string{"try"}, strings.Fields(args)...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("try %s: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
}
