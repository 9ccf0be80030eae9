package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// The README's commands run as they stand, apart from the address. Instead of make run, this test starts the quickstart.
func TestREADME_CommandsPrintWhatItShows(t *testing.T) {
	quickstart := start(t, "quickstart", "")
	root := filepath.Dir(filepath.Dir(quickstart.binary))
	proctest.CopyExample(t, filepath.Join(root, "examples", "two-teams"), "two-teams")
	ran := 0
	for _, c := range proctest.Commands(t, "../README.md") {
		if strings.HasPrefix(c.Line, "bin/promptweir ") {
			address := strings.NewReplacer("http://127.0.0.1:8080/mcp", quickstart.endpoint)
			c.Prints = address.Replace(c.Prints)
			c.Runs(t, root, address.Replace(c.Line))
			ran++
		} else if !strings.HasPrefix(c.Line, "make ") {
			t.Errorf("the README shows %q, which this test does not run", c.Line)
		}
	}
	if ran == 0 {
		t.Error("the README shows no command of the binary")
	}
}

// Ports of a container's loopback cannot be published, so that a container on a Mac speaks over its standard input and output.
func TestREADME_ContainerServesAClientOverStdio(t *testing.T) {
	_, line, found := strings.Cut(text(t, "../README.md"), "`docker run --rm -i ")
	line, _, _ = strings.Cut(line, "`")
	_, command, isCommand := strings.Cut(line, `"$PWD/examples/quickstart:/etc/promptweir:ro" promptweir `)
	if !found || !isCommand {
		t.Fatalf("README has no line for a client: %q", line)
	}
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	proctest.CopyExample(t, filepath.Join(dir, "quickstart"), "quickstart")
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "promptweir"),
		strings.Fields(strings.ReplaceAll(command, "/etc/promptweir", filepath.Join(dir, "quickstart")))...)
	run.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"prompts/list"}` + "\n")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), `"reviews.code_review"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestREADME_ConfigurationsLoad(t *testing.T) {
	blocks := proctest.Fences(t, "../README.md")["hcl"]
	if len(blocks) == 0 {
		t.Fatal("the README shows no configuration")
	}
	folder := t.TempDir()
	for i, block := range blocks {
		path := filepath.Join(folder, strconv.Itoa(i)+".hcl")
		if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, diagnostics := config.Load(folder, config.Options{AllowUnsetEnv: true}); diagnostics.HasErrors() {
		t.Error(diagnostics.Err())
	}
}

func TestMakefile_FirstBuildHasSomethingToRead(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "make", "-C", "..", "-n", "build").CombinedOutput()
	said, _, _ := strings.Cut(string(out), "go build")
	_, path, ok := strings.Cut(said, "read a prompt and who sees it: ")
	path, _, _ = strings.Cut(path, "'")
	if _, missing := os.Stat(filepath.Join("..", path)); err != nil || !ok || missing != nil {
		t.Errorf("make build begins with %q: %v, %v", said, err, missing)
	}
}
