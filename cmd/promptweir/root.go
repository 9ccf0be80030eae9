package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// newRoot returns the command line: the global flags and all commands.
func newRoot(std streams) *cobra.Command {
	a := &app{streams: std.printable(), raw: std}
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
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err.Error()} })
	flags := root.PersistentFlags()
	a.flags = flags
	flags.StringVar(&a.config, "config", os.Getenv("PROMPTWEIR_CONFIG"),
		"configuration at `PATH`, a file or a folder of *.hcl files (PROMPTWEIR_CONFIG)")
	flags.StringVar(&a.logFormat, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
	flags.StringVar(&a.logLevel, "log-level", "info", "lowest `LEVEL` to log: debug, info, warn or error")
	root.AddCommand(
		a.serveCommand(), a.stdioCommand(), a.validateCommand(), a.listCommand(), a.getCommand(), a.explainCommand(),
		a.diffCommand(), a.fmtCommand(), a.lockCommand(), a.tokenCommand(), a.initCommand(), a.importCommand(), a.clientCommand(), a.probeCommand(), a.versionCommand(), a.healthcheckCommand(),
	)
	return root
}
