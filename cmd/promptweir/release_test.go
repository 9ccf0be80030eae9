package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		}, []string{"notes.txt"}},
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
