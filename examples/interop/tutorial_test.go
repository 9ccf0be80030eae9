package interop_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// The tutorial's commands run one after another, unchanged except for the addresses, and print what the text shows. This test copies
// the folder, has the packages of npm, and starts both programs itself.
func TestTutorial_CommandsPrintWhatItShows(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "tutorial")
	proctest.Build(t, root, "./cmd/promptweir")
	if err := os.CopyFS(folder, os.DirFS("../tutorial")); err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Abs("node_modules")
	if err == nil {
		err = os.Symlink(modules, filepath.Join(folder, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", root+":"+os.Getenv("PATH"))
	edit := func(path string, oldnew ...string) {
		content, err := os.ReadFile(filepath.Join(folder, path))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, path), []byte(strings.NewReplacer(oldnew...).Replace(string(content))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit("idp.mjs", "127.0.0.1:9400", "127.0.0.1:0")
	provider := exec.CommandContext(t.Context(), "node", "idp.mjs")
	provider.Dir, provider.Stderr = folder, t.Output()
	out, err := provider.StdoutPipe()
	if err == nil {
		err = provider.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Wait() }) // killed
	issuer := bufio.NewScanner(out)
	if !issuer.Scan() {
		t.Fatal("the provider ended")
	}
	edit("idp.mjs", "http://127.0.0.1:0", issuer.Text())
	edit("company/gateway.hcl", "http://127.0.0.1:9400", issuer.Text(), `listen = "127.0.0.1:8080"`, `listen = "127.0.0.1:0"`, "127.0.0.1:8081", "127.0.0.1:0")
	gateway := proctest.Start(t, folder, filepath.Join(root, "promptweir"), "serve", "company")
	addresses := strings.NewReplacer("http://127.0.0.1:8080/mcp", gateway.Attr(t, "endpoint"), "http://127.0.0.1:8081", gateway.Attr(t, "admin"))
	ran := 0
	for _, c := range proctest.Commands(t, "../tutorial/README.md") {
		switch {
		case strings.HasPrefix(c.Line, "cp -r examples/tutorial "), c.Line == "cd bin/tutorial", strings.HasPrefix(c.Line, "export PATH="),
			c.Line == "npm install", c.Line == "node idp.mjs", c.Line == "promptweir serve company":
			continue
		}
		c.Runs(t, folder, addresses.Replace(c.Line))
		ran++
	}
	if ran < 15 {
		t.Errorf("only %d commands ran", ran)
	}
}
