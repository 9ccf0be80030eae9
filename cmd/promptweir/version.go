package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
)

// The linker sets these variables in a release.
var (
	version string
	commit  string //nolint:gochecknoglobals // set by the linker
	date    string //nolint:gochecknoglobals // of the commit, in RFC 3339
)

// build identifies this program's build, for example in bug reports.
type build struct {
	Version string `json:"version"`
	// Commit and Date are empty if neither the linker nor the Go toolchain recorded them.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild returns the values that the linker set or, without them, those that the Go toolchain recorded.
func thisBuild() build {
	recorded := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		recorded["version"] = info.Main.Version
		for _, s := range info.Settings {
			recorded[s.Key] = s.Value
		}
	}
	return build{
		Version: cmp.Or(version, recorded["version"], "(devel)"),
		Commit:  cmp.Or(commit, recorded["vcs.revision"]),
		Date:    cmp.Or(date, recorded["vcs.time"]),
		Go:      runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// buildVersion returns the release or, in other builds, the toolchain's module version.
func buildVersion() string { return thisBuild().Version }

// String describes the build in one line.
func (b build) String() string {
	commit := ""
	if b.Commit != "" {
		commit = strings.TrimSpace("commit "+b.Commit+" "+b.Date) + ", "
	}
	return fmt.Sprintf("promptweir %s (%s%s, %s)", b.Version, commit, b.Go, b.Platform)
}

func versionCommand(a *app) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use: "version", Short: "Print the version, with commit, date, Go and platform",
		Args: wantArgs(0, 0, ""),
		Example: "  promptweir version\n" +
			"  promptweir version -o json",
		RunE: func(*cobra.Command, []string) error {
			if output == formatJSON {
				return terminal.PrintJSON(a.out, thisBuild())
			}
			return a.printf("%s\n", thisBuild())
		},
	}
	addOutput(command, &output, formatText, formatJSON)
	return command
}
