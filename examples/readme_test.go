package examples_test

import (
	"os"
	"path/filepath"
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

// Only commands that begin with promptweir are run: the others need the servers that make run starts.
func TestREADME_CommandsPrintWhatItShows(t *testing.T) {
	bin, ran := t.TempDir(), 0
	proctest.Build(t, bin, "./cmd/promptweir")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, c := range commandsOf(t, "../README.md") {
		if strings.HasPrefix(c.line, "promptweir ") {
			c.runs(t, proctest.Root(), c.line)
			ran++
		}
	}
	if ran == 0 {
		t.Error("the README shows no such command")
	}
}

func TestREADME_ConfigurationsLoad(t *testing.T) {
	blocks := fencesOf(t, "../README.md")["hcl"]
	if len(blocks) == 0 {
		t.Fatal("the README shows no configuration")
	}
	folder := t.TempDir()
	for i, block := range blocks {
		name := strings.TrimSpace(strings.TrimPrefix(strings.SplitN(block, ",", 2)[0], "#"))
		if filepath.Ext(name) != ".hcl" {
			t.Fatalf("block %d does not begin with a comment that names its file: %q", i, name)
		}
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, diagnostics := config.Load(folder, config.Options{AllowUnsetEnv: true}); diagnostics.HasErrors() {
		t.Error(diagnostics.Err())
	}
}
