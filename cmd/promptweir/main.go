package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/system"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // also for a finding, such as a difference with --exit-code
	exitUsage  = 2
)

func main() {
	if err := system.HideMemory(); err != nil { // before child processes exist
		fmt.Fprintln(os.Stderr, "promptweir:", err)
		os.Exit(exitFailed)
	}
	os.Exit(run(serving.UntilSignal(), os.Args[1:],
		streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	a := newApp(std)
	root := newRoot(a)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	usage, wrongUsage := errors.AsType[*usageError](err)
	by, stopped := errors.AsType[*serving.SignalError](context.Cause(ctx))
	switch {
	case err == nil:
		return exitDone
	// Report the signal: most errors after it are its consequences.
	case stopped && !wrongUsage:
		fmt.Fprintf(a.err, "promptweir: %s\n", by)
		return by.ExitCode()
	case wrongUsage:
		path := strings.Fields(strings.TrimSuffix(command.CommandPath(), " help"))
		fmt.Fprintf(a.err, "promptweir: %s\nSee '%s'.\n", usage.problem,
			strings.Join(slices.Insert(path, 1, "help"), " "))
		return exitUsage
	}
	if _, isReported := errors.AsType[*reportedError](err); !isReported {
		fmt.Fprintf(a.err, "promptweir: %v\n", err)
	}
	return exitFailed
}

// usageError is an error in the command line.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

// reportedError is a failure that was already printed. Its text is for clients over stdio, which do not see
// standard error.
type reportedError struct{ cause error }

func (e *reportedError) Error() string { return e.cause.Error() }

var errReported = &reportedError{errors.New("reported")}

// newRoot returns the root command with the global flags and all commands.
func newRoot(a *app) *cobra.Command {
	var asksVersion bool
	root := &cobra.Command{
		Use:           "promptweir",
		Short:         "Serve the prompts of many MCP servers at one MCP endpoint",
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		Example: "  promptweir try\n" +
			"  promptweir init promptweir\n" +
			"  promptweir validate --config promptweir\n" +
			"  promptweir list --config promptweir\n" +
			"  promptweir serve --config promptweir\n" +
			"  promptweir get handbook.incident_report --url http://127.0.0.1:8080/mcp",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case asksVersion:
				return a.printf("%s\n", thisBuild())
			case len(args) > 0:
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	// Do not use cobra's own --version: it needs templates, for which the linker keeps 14 MB of methods.
	root.Flags().BoolVar(&asksVersion, "version", false, "print the version")
	flags := root.PersistentFlags()
	a.flags, a.logLevel = flags, "info"
	flags.StringVar(&a.config, "config", os.Getenv("PROMPTWEIR_CONFIG"),
		"configuration at `PATH`, a file or a folder of *.hcl files (PROMPTWEIR_CONFIG)")
	completeFlag(root, "config", aFile)
	addChoice(root, flags, &a.logFormat, "log-format", "",
		"`FORMAT` of the log on standard error: text or json (default: coloured on a terminal)",
		"text", "json")
	flags.Lookup("log-format").DefValue = "" // otherwise help would print a second default
	addChoice(root, flags, &a.logLevel, "log-level", "",
		"lowest `LEVEL` to log: debug, info, warn or error", "debug", "info", "warn", "error")
	// By default, words and flags are not completed as file names.
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	// Help lists the commands in this order, in which people need them.
	addGroup(root, "Run a gateway:", tryCommand(a), serveCommand(a), stdioCommand(a), reloadCommand(a), consoleCommand(a),
		healthcheckCommand(a))
	addGroup(root, "Look at prompts and servers:", listCommand(a), getCommand(a), explainCommand(a), usageCommand(a), syncCommand(a))
	addGroup(root, "Write and review a configuration:", initCommand(a), importCommand(a),
		validateCommand(a), diffCommand(a), fmtCommand(a), lockCommand(a), tokenCommand(a),
		clientCommand(a))
	root.AddCommand(completionCommand(a), versionCommand(a))
	return root
}

// addGroup adds commands below a title in help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// helpCommand replaces cobra's help command: it also explains the blocks of a configuration, and an unknown
// topic is a usage error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [TOPIC]", Short: "Print help on a command or a configuration block",
		Long: "Print the commands, a command's flags and examples, or the attributes of a configuration\n" +
			"block: " + strings.Join(config.BlockTypes(), ", ") + ".",
		Example: "  promptweir help list\n  promptweir help upstream",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			if len(args) == 0 {
				names = append(names, config.BlockTypes()...)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				name := strings.Join(args, " ")
				if text := config.BlockHelp(name); text != "" {
					_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
					return err
				}
				return unknownCommand(cmd.Root(), name, config.BlockTypes()...)
			}
			topic.InitDefaultHelpFlag() // cobra adds it only on execution
			return topic.Help()
		},
	}
}

// unknownCommand returns the error for an unknown command. It suggests a command that has this name in other
// programs (SuggestFor), or a similar name. known contains further names to suggest, which are not commands.
func unknownCommand(root *cobra.Command, name string, known ...string) error {
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if slices.Contains(c.SuggestFor, strings.ToLower(name)) {
			return &usageError{fmt.Sprintf("unknown command %q. Did you mean %q?", name, c.Name())}
		}
		known = append(known, c.Name())
	}
	return &usageError{fmt.Sprintf("unknown command %q%s", name, config.Suggest(name, known))}
}
