package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
)

// app holds what all commands share: the standard streams and the global flags.
type app struct {
	streams // which only print what can be seen

	// raw are the streams of the process, for MCP messages and for diagnostics, which are in colour on a terminal.
	raw streams
	// flags tell a flag on the command line from a default.
	flags     *pflag.FlagSet
	config    string
	logFormat string
	logLevel  string
}

// streams are the standard streams of the process; tests pass their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// printable returns the streams for what commands print.
func (s streams) printable() streams {
	return streams{s.in, terminal.Printable(s.out), terminal.Printable(s.err)}
}

// usageError is an error in the command line.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

// errReported is a failure that has already been printed.
var errReported = errors.New("reported")

// reportedError is errReported with its cause, for a client that does not see standard error.
type reportedError struct{ cause error }

func (e *reportedError) Error() string { return e.cause.Error() }

// Is makes it errReported.
func (e *reportedError) Is(target error) bool { return target == errReported }

// takes makes a failed check of the number of arguments a usage error.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{fmt.Sprintf("%s: %v; write promptweir %s", cmd.Name(), err, cmd.Use)}
		}
		return nil
	}
}
