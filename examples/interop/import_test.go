package interop_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// clientFiles are what the documentation of each client shows, with the server that is installed here, and a gateway at the address
// that is their argument.
var clientFiles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"claude_desktop_config.json": `{
  "mcpServers": {
    "everything": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"] }
  }
}`,
	".mcp.json": `{
  "mcpServers": {
    "everything": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-everything", "stdio"],
      "env": { "CACHE_DIR": "${CACHE_DIR:-/tmp}" }
    },
    "api-server": {
      "type": "http",
      "url": "${API_BASE_URL:-%s}",
      "headers": { "X-Api-Key": "${API_KEY}" }
    }
  }
}`,
	"cursor.json": `{
  "mcpServers": {
    "everything": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-everything"],
      "env": { "API_KEY": "value" }
    },
    "api-server": { "url": "%s", "headers": { "API_KEY": "${env:API_KEY}" } }
  }
}`,
	"vscode.json": `{
  "inputs": [
    { "type": "promptString", "id": "api-key", "description": "An API key", "password": true },
  ],
  "servers": {
    // It has prompts of all kinds.
    "everything": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-everything"],
      "env": { "API_KEY": "${input:api-key}" },
    },
    "api-server": { "type": "http", "url": "%s" },
  },
}`,
	"windsurf.json": `{
  "mcpServers": {
    "everything": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-everything"],
      "env": { "API_KEY": "<YOUR_API_KEY>" }
    },
    "api-server": { "serverUrl": "%s", "headers": { "Authorization": "Bearer ${env:API_KEY}" } }
  }
}`,
}

// TestImport_ClientsFilesAreServedWithoutAnEdit takes over the file of each client, checks it, and lists the prompts of its servers.
func TestImport_ClientsFilesAreServedWithoutAnEdit(t *testing.T) {
	url, dir := newServer(t, false).url, t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil { // where npx finds the server
		t.Fatal(err)
	}
	for name, text := range clientFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			promptweir := func(args ...string) string {
				t.Helper()
				command := exec.CommandContext(t.Context(), filepath.Join(dir, "promptweir"), args...)
				command.Dir, command.Env = dir, append(os.Environ(), "API_KEY=key", "API_KEY_2=key") // which the files say that they need
				var stdout, stderr strings.Builder
				command.Stdout, command.Stderr = &stdout, &stderr
				if err := command.Run(); err != nil || stderr.Len() > 0 {
					t.Fatalf("promptweir %q: %v\n%s%s", args, err, stdout.String(), stderr.String())
				}
				return stdout.String()
			}
			want := []string{"everything.args-prompt", "everything.simple-prompt"}
			if strings.Contains(text, "%s") {
				text = fmt.Sprintf(text, url)
				want = append(want, "api-server.greet")
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			team := strings.TrimSuffix(strings.TrimPrefix(name, "."), ".json") + ".hcl"
			if err := os.WriteFile(filepath.Join(dir, team), []byte(promptweir("import", name)), 0o600); err != nil {
				t.Fatal(err)
			}
			promptweir("validate", "--config", team, "--strict")
			listed := promptweir("list", "--config", team)
			for _, prompt := range want {
				if !strings.Contains(listed, "\n"+prompt+" ") {
					t.Errorf("list has no %s:\n%s", prompt, listed)
				}
			}
		})
	}
}
