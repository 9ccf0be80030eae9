package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
)

// These are set by the linker when a release is built.
var (
	version string
	commit  string //nolint:gochecknoglobals // as version
	date    string //nolint:gochecknoglobals // of the commit, in RFC 3339
)

// build says which program this is, in reports of mistakes for example.
type build struct {
	Version string `json:"version"`
	// Commit and Date are empty where neither the linker nor the Go toolchain knew them.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild returns what the linker knew, and else what the Go toolchain recorded.
func thisBuild() build {
	b := build{
		Version: version, Commit: commit, Date: date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	orElse := func(value *string, other string) {
		if *value == "" {
			*value = other
		}
	}
	orElse(&b.Version, info.Main.Version)
	orElse(&b.Version, "(devel)")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			orElse(&b.Commit, s.Value)
		case "vcs.time":
			orElse(&b.Date, s.Value)
		}
	}
	return b
}

// buildVersion returns the release or, in other builds, the module version that the Go toolchain
// recorded.
func buildVersion() string { return thisBuild().Version }

// print prints the build on one line, which begins with the name of the program and its version.
func (b build) print(w io.Writer) error {
	details := []string{b.Go, b.Platform}
	if b.Commit != "" {
		details = append([]string{strings.TrimSpace("commit " + b.Commit + " " + b.Date)},
			details...)
	}
	_, err := fmt.Fprintf(w, "promptweir %s (%s)\n", b.Version, strings.Join(details, ", "))
	return err
}

func versionCommand(a *app) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use: "version", Short: "Print the version, with commit, date, Go and platform",
		Args: takes(0, 0, ""),
		Example: "  promptweir version\n" +
			"  promptweir version -o json",
		RunE: func(*cobra.Command, []string) error {
			if output == formatJSON {
				return terminal.PrintJSON(a.out, thisBuild())
			}
			return thisBuild().print(a.out)
		},
	}
	addOutput(command, &output, formatText, formatJSON)
	return command
}
