package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
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

// manDir is where a release wants the pages. Their date is SOURCE_DATE_EPOCH.
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

// handbookDir is where a release wants the pages of the handbook.
var handbookDir = flag.String("handbook", "", "write the handbook to this folder") //nolint:gochecknoglobals // a flag

// The handbook of a package has the pages in the folders of the repository: a link leads to one of them,
// or to the repository for what a package does not have.
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

// What somebody keeps in the folder of a release is neither deleted nor part of the release.
func TestRelease_DeletesOnlyWhatItHasWritten(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a release is built on Linux")
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	outside := filepath.Join(t.TempDir(), "promptweir_outside")
	for name, test := range map[string]struct {
		files map[string]string
		kept  []string
	}{
		"a file of somebody's": {map[string]string{"notes.txt": "x"}, []string{"notes.txt"}},
		"one beside an earlier release": {map[string]string{
			"notes.txt": "x", "promptweir_1.deb": "deb", "SHA256SUMS": sum("deb") + "  promptweir_1.deb\n",
		}, []string{"SHA256SUMS", "notes.txt", "promptweir_1.deb"}},
		"files that others than a release have summed": {map[string]string{
			"notes.txt": "x", "promptweir_1.deb": "deb", "SHA256SUMS": sum("deb") + "  promptweir_1.deb\n" + sum("x") + "  notes.txt\n",
		}, []string{"SHA256SUMS", "notes.txt", "promptweir_1.deb"}},
		"sums of a release that is elsewhere": {map[string]string{
			"SHA256SUMS": sum("deb") + "  promptweir_1.deb\n",
		}, []string{"SHA256SUMS"}},
		"one of an earlier release that was changed": {map[string]string{
			"promptweir_1.deb": "mine", "SHA256SUMS": sum("deb") + "  promptweir_1.deb\n",
		}, []string{"SHA256SUMS", "promptweir_1.deb"}},
		"sums of somebody's": {map[string]string{
			"notes.txt": "x", "SHA256SUMS": sum("x") + "  notes.txt\n",
		}, []string{"SHA256SUMS", "notes.txt"}},
		"sums that name other folders": {map[string]string{
			"notes.txt": "x", "SHA256SUMS": sum("x") + "  " + outside + "\n" + sum("x") + "  promptweir_/../../promptweir_outside\n",
		}, []string{"SHA256SUMS", "notes.txt"}},
	} {
		writeFile(t, filepath.Dir(outside), filepath.Base(outside), "x")
		folder := t.TempDir()
		for name, text := range test.files {
			writeFile(t, folder, name, text)
		}
		release := exec.CommandContext(t.Context(), "bash", "../../.ci/release", "v0.0.0", folder)
		release.Env = append(os.Environ(), "PLATFORMS=none/none") // or it would go on to build
		said, err := release.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "has files that no release wrote, or that were changed since") {
			t.Errorf("beside %s: %v, and says %s", name, err, said)
		}
		entries, _ := os.ReadDir(folder)
		var kept []string
		for _, entry := range entries {
			kept = append(kept, entry.Name())
		}
		if !slices.Equal(kept, test.kept) {
			t.Errorf("beside %s: %q are left, want %q", name, kept, test.kept)
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("beside %s: %v", name, err)
		}
	}
}
