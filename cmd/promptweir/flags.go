package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
)

// noBound is for commands that take any number of arguments.
const noBound = math.MaxInt

// takes checks the number of arguments. The error names what is needed.
func takes(least, most int, needed string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		use, _, _ := strings.Cut(cmd.Use, " [")
		switch {
		case len(args) < least:
			return &usageError{fmt.Sprintf("%s needs %s: promptweir %s", cmd.Name(), needed, use)}
		case most == 0 && len(args) > 0:
			return &usageError{fmt.Sprintf("%s takes no arguments: promptweir %s", cmd.Name(), use)}
		case len(args) > most:
			return &usageError{fmt.Sprintf("%s takes only %s, not %q too: promptweir %s",
				cmd.Name(), needed, args[most], use)}
		}
		return nil
	}
}

// flagError is an error in the flags of a command. It suggests the flag that was most likely meant
// by an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := "--" + invalid.GetFlag().Name
		if short := invalid.GetFlag().Shorthand; short != "" {
			flag = "-" + short
		}
		return &usageError{fmt.Sprintf("%s %q: %v", flag, invalid.GetValue(), invalid.Unwrap())}
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return &usageError{err.Error()}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	return &usageError{err.Error() + config.Suggest("--"+unknown.GetSpecifiedName(), known)}
}

// The formats of --output.
const (
	formatTable  = "table"
	formatWide   = "wide"
	formatText   = "text"
	formatJSON   = "json"
	formatGitHub = "github"
)

// addOutput declares the flag --output, whose value is one of the formats; the first is the
// default. Other values are wrong usage before the command runs.
func addOutput(command *cobra.Command, output *string, formats ...string) {
	*output = formats[0]
	command.Flags().VarP(&formatFlag{output, formats}, "output", "o",
		"`FORMAT` of the result: "+terminal.OrList(formats))
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

// completeFlag sets how the values of a flag, which exists, are completed.
func completeFlag(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // only for a flag that does not exist, or twice
	}
}

// aFile completes the path of a file or folder.
func aFile(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// oneOf completes a word with one of some values.
func oneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
