package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
)

// The formats of --output.
const (
	formatTable  = "table"
	formatWide   = "wide"
	formatText   = "text"
	formatJSON   = "json"
	formatGitHub = "github"
)

// addOutput declares the flag --output, whose value is one of the formats; the first is the default. Other values are wrong usage
// before the command runs.
func addOutput(command *cobra.Command, output *string, formats ...string) {
	*output = formats[0]
	command.Flags().VarP(&formatFlag{output, formats}, "output", "o", "`FORMAT` of the result: "+terminal.OrList(formats))
	completeFlag(command, "output", oneOf(formats...))
}

// formatFlag is the value of --output.
type formatFlag struct {
	value   *string
	formats []string
}

// Set implements pflag.Value.
func (f *formatFlag) Set(format string) error {
	if !slices.Contains(f.formats, format) {
		return fmt.Errorf("use %s", terminal.OrList(f.formats))
	}
	*f.value = format
	return nil
}

// String and Type implement pflag.Value.
func (f *formatFlag) String() string { return *f.value }

// Type implements pflag.Value.
func (f *formatFlag) Type() string { return "string" }
