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

// fencesOf returns the fenced blocks of a Markdown file by their languages.
func fencesOf(t *testing.T, file string) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks, language, open := map[string][]string{}, "", false
	var block strings.Builder
	for line := range strings.Lines(string(content)) {
		mark, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case !isFence:
			block.WriteString(line)
		case open && mark != "":
			t.Fatalf("the block of %q is not closed before one of %q begins", language, mark)
		case open:
			blocks[language] = append(blocks[language], block.String())
			open = false
		default:
			language, open = mark, true
			block.Reset()
		}
	}
	if open {
		t.Fatalf("the block of %q is not closed", language)
	}
	return blocks
}

// The README's commands run as they stand, apart from the address. Instead of make run, this test starts the quickstart.
func TestREADME_CommandsPrintWhatItShows(t *testing.T) {
	quickstart := start(t, "quickstart", "")
	root := filepath.Dir(filepath.Dir(quickstart.binary))
	proctest.CopyExample(t, filepath.Join(root, "examples", "two-teams"), "two-teams")
	ran := 0
	for _, c := range commandsOf(t, "../README.md") {
		if strings.HasPrefix(c.line, "bin/promptweir ") {
			address := strings.NewReplacer("http://127.0.0.1:8080/mcp", quickstart.endpoint)
			c.prints = address.Replace(c.prints)
			c.runs(t, root, address.Replace(c.line))
			ran++
		} else if !strings.HasPrefix(c.line, "make ") {
			t.Errorf("the README shows %q, which this test does not run", c.line)
		}
	}
	if ran == 0 {
		t.Error("the README shows no command of the binary")
	}
}

func TestREADME_ConfigurationsLoad(t *testing.T) {
	blocks := fencesOf(t, "../README.md")["hcl"]
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
