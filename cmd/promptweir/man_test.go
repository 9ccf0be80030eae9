package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
		eachFlag(command, func(f *pflag.Flag) {
			if !strings.Contains(string(page), `--`+f.Name+`\fP`) {
				t.Errorf("%s lacks --%s", name, f.Name)
			}
		})
	}
}

func eachFlag(command *cobra.Command, do func(*pflag.Flag)) {
	command.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			do(f)
		}
	})
}
