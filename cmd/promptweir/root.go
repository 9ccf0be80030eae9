package main

import (
	"fmt"
	"log/slog"
	"os"

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

func newRoot(std streams) *cobra.Command {
	a := &app{streams: std}
	root := &cobra.Command{
		Use:           "promptweir",
		Short:         "Serve the prompts of many MCP servers at one MCP endpoint",
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			_, err := a.logger() // so that commands that log nothing reject wrong log flags too
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Sprintf("unknown command %q", args[0])}
			}
			return cmd.Help()
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err.Error()} })
	flags := root.PersistentFlags()
	a.flags = flags
	flags.StringVar(&a.config, "config", os.Getenv("PROMPTWEIR_CONFIG"),
		"configuration at `PATH`, a file or a folder of *.hcl files (PROMPTWEIR_CONFIG)")
	flags.StringVar(&a.logFormat, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
	flags.StringVar(&a.logLevel, "log-level", "info", "lowest `LEVEL` to log: debug, info, warn or error")
	root.AddCommand(
		a.serveCommand(), a.stdioCommand(), a.validateCommand(), a.listCommand(), a.getCommand(), a.explainCommand(),
		a.diffCommand(), a.fmtCommand(), a.lockCommand(), a.tokenCommand(), a.probeCommand(), a.versionCommand(), a.healthcheckCommand(),
	)
	return root
}

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
