package main

import (
	"flag"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// manDir is the folder of a release's manual pages. Their date is SOURCE_DATE_EPOCH.
var manDir = flag.String("man", "", "write the man pages to this folder") //nolint:gochecknoglobals // a flag

func TestMan_HasAPageOfEachCommand(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := newRoot(newApp(streams{in: strings.NewReader(""), out: t.Output(), err: t.Output()}))
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "promptweir", Manual: "promptweir"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	for _, command := range append(root.Commands(), root) {
		if !command.IsAvailableCommand() {
			continue
		}
		name := strings.ReplaceAll(command.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		command.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(string(page), `--`+f.Name+`\fP`) {
				t.Errorf("%s lacks --%s", name, f.Name)
			}
		})
	}
}

// handbookDir is the folder of a release's handbook.
var handbookDir = flag.String("handbook", "", "write the handbook to this folder") //nolint:gochecknoglobals // a flag

// The handbook has the pages in the folders of the repository. A link leads to one of them, or to the
// repository for other files.
func TestHandbook_LinksLeadSomewhere(t *testing.T) {
	dir := *handbookDir
	if dir == "" {
		dir = t.TempDir()
	}
	const repository = "https://github.com/promptweir/promptweir/blob/main/"
	handbook := []string{
		"README.md", "CHANGELOG.md", "SECURITY.md", "cmd/promptweir/README.md", "cmd/promptweir/OPERATING.md",
		"cmd/promptweir/ALERTS.md", "config/README.md", "gateway/README.md", "upstream/README.md",
	}
	link := regexp.MustCompile(`(\]\(|src="|srcset=")([^)"#:]+)([)"#])`)
	inside := 0
	for _, name := range handbook {
		page, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		text := link.ReplaceAllStringFunc(string(page), func(whole string) string {
			part := link.FindStringSubmatch(whole)
			to := path.Join(path.Dir(name), part[2])
			if slices.Contains(handbook, to) {
				inside++
				return whole
			}
			if _, err := os.Stat(filepath.Join("..", "..", to)); err != nil {
				return whole // an example of a link
			}
			return part[1] + repository + to + part[3]
		})
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil { //nolint:gosec // documents
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // documents
			t.Fatal(err)
		}
	}
	for _, name := range handbook {
		page, _ := os.ReadFile(filepath.Join(dir, name)) // written above
		for _, part := range link.FindAllStringSubmatch(string(page), -1) {
			to := path.Join(path.Dir(name), part[2])
			_, gone := os.Stat(filepath.Join(dir, to))
			if _, err := os.Stat(filepath.Join("..", "..", to)); err == nil && gone != nil {
				t.Errorf("%s of the package leads to %s, which it does not have", name, to)
			}
		}
	}
	if inside == 0 {
		t.Error("no page leads to another one")
	}
}

// A release is made from a tag, not from the working folder.
func TestRelease_RefusesACommitWithoutTheTag(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a release is built on Linux")
	}
	said, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "release", "VERSION=v0.0.0-none").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "this commit has no tag 'v0.0.0-none'") {
		t.Errorf("%v, and says %s", err, said)
	}
}

// Tests do not run goreleaser, so only a release would notice a renamed file.
func TestRelease_NamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)(?:src|main|postinstall|preremove|dockerfile): ([\w./-]+)|bash (\.ci/[\w-]+)`).FindAllStringSubmatch(string(text), -1)
	if len(named) < 10 {
		t.Errorf("only %d files are named", len(named))
	}
	for _, match := range named {
		name := match[1] + match[2]
		if _, err := os.Stat(filepath.Join("..", "..", name)); err != nil && !strings.HasPrefix(name, "bin/") {
			t.Error(err)
		}
	}
}
