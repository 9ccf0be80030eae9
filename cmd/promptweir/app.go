package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app holds what all commands share: the standard streams and the global flags.
type app struct {
	streams

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

// usageError is an error in the command line.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

// errReported is a failure that has already been printed.
var errReported = errors.New("reported")

// takes makes a failed check of the number of arguments a usage error.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{cmd.Name() + ": " + err.Error()}
		}
		return nil
	}
}

// logger returns a logger that writes to standard error, because standard output belongs to results and to stdio clients.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, &usageError{fmt.Sprintf("--log-level %q: use debug, info, warn or error", a.logLevel)}
	}
	options := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(a.err, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.err, options)), nil
	}
	return nil, &usageError{fmt.Sprintf("--log-format %q: use text or json", a.logFormat)}
}

// quietLogger is logger for commands that print a result and end: it logs errors only, unless --log-level is set.
func (a *app) quietLogger() (*slog.Logger, error) {
	if !a.flags.Changed("log-level") {
		a.logLevel = "error"
	}
	return a.logger()
}
