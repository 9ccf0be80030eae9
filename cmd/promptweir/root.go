package main

import (
	"os"

	"github.com/spf13/cobra"
)

// newRoot returns the command line: the global flags and all commands.
func newRoot(std streams) *cobra.Command {
	a := &app{streams: std.printable(), raw: std}
	var showVersion bool
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
		Example: "  promptweir validate --config promptweir\n" +
			"  promptweir list --config promptweir\n" +
			"  promptweir serve --config promptweir\n" +
			"  promptweir get handbook.incident_report --url http://127.0.0.1:8080/mcp",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknownCommand(cmd, args[0])
			case showVersion:
				return thisBuild().print(a.out)
			}
			return cmd.Help()
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(std.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.Flags().BoolVar(&showVersion, "version", false, "print the version, as the command version does")
	flags := root.PersistentFlags()
	a.flags = flags
	flags.StringVar(&a.config, "config", os.Getenv("PROMPTWEIR_CONFIG"),
		"configuration at `PATH`, a file or a folder of *.hcl files (PROMPTWEIR_CONFIG)")
	flags.StringVar(&a.logFormat, "log-format", "text", "`FORMAT` of the log on standard error: text or json; if it is not set, the log on a terminal is for people")
	flags.StringVar(&a.logLevel, "log-level", "info", "lowest `LEVEL` to log: debug, info, warn or error")
	completeFlag(root, "config", aFile)
	completeFlag(root, "log-format", oneOf("text", "json"))
	completeFlag(root, "log-level", oneOf("debug", "info", "warn", "error"))
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // where nothing else is said
	addGroups(root)
	root.AddCommand(inGroup(groupServe, a.serveCommand(), a.stdioCommand(), a.drainCommand(), a.undrainCommand(), a.healthcheckCommand())...)
	root.AddCommand(inGroup(groupPrompts, a.listCommand(), a.getCommand(), a.explainCommand(), a.probeCommand())...)
	root.AddCommand(inGroup(groupConfigure,
		a.initCommand(), a.importCommand(), a.validateCommand(), a.diffCommand(), a.fmtCommand(), a.lockCommand(), a.tokenCommand(), a.clientCommand(),
	)...)
	root.AddCommand(a.completionCommand(), a.versionCommand())
	return root
}
