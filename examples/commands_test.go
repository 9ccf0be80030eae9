package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// The examples of the page about the commands run one after another, unchanged except for the addresses.
func TestCommandReference_CommandsPrintWhatItShows(t *testing.T) {
	commands := commandsOf(t, "../cmd/promptweir/README.md")
	if len(commands) == 0 || commands[0].line != "make run" {
		t.Fatalf("the page has %d commands, want make run and those after it", len(commands))
	}
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	proctest.Build(t, bin, "./cmd/promptweir", "./examples/servers/...")
	handbook := proctest.Start(t, root, filepath.Join(bin, "handbook"), "-listen", "127.0.0.1:0", "-change-every", "0")
	server := host(t, handbook.Attr(t, "endpoint"))
	for _, example := range []string{"quickstart", "two-teams"} {
		proctest.CopyExample(t, filepath.Join(root, "examples", example), example, "127.0.0.1:9090", server)
	}
	if err := os.WriteFile(filepath.Join(root, "examples", "client.json"), []byte(text(t, "client.json")), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := proctest.Start(t, root, filepath.Join(bin, "promptweir"), "serve", "--config", "examples/quickstart")
	addresses := strings.NewReplacer("127.0.0.1:8080", host(t, gateway.Attr(t, "endpoint")),
		"127.0.0.1:8081", host(t, gateway.Attr(t, "admin")), "127.0.0.1:9090", server)

	shown := map[string]bool{}
	for _, c := range commands[1:] {
		c.prints = addresses.Replace(c.prints)
		c.runs(t, root, addresses.Replace(c.line))
		for _, part := range strings.Split(c.line, "bin/promptweir ")[1:] {
			shown[strings.Fields(part)[0]] = true
		}
	}
	for _, command := range []string{
		"stdio", "validate", "list", "get", "explain", "diff", "lock", "fmt", "token", "init", "import", "client", "probe", "healthcheck", "version", "drain", "undrain",
	} {
		if !shown[command] {
			t.Errorf("the page has no example of %s", command)
		}
	}
}
