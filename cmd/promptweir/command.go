package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/watch"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// version is set when a release is built.
var version string

// buildVersion is the release, else what the Go toolchain knows of the build.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// streams are the process's, so that a test can have its own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// usageError is a mistake in how the command was called.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

var (
	// errReported is a failure that has been told already.
	errReported = errors.New("reported")
	errNoConfig = &usageError{"--config PATH is required (or PROMPTWEIR_CONFIG)"}
)

// run carries a command line out and returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	usage, wrongUsage := errors.AsType[*usageError](err)
	switch {
	case err == nil:
		return exitDone
	case wrongUsage:
		fmt.Fprintf(std.err, "promptweir: %s\nSee 'promptweir help'.\n", usage.problem)
		return exitUsage
	case !errors.Is(err, errReported):
		fmt.Fprintf(std.err, "promptweir: %v\n", err)
	}
	return exitFailed
}

// app is what all commands share: the streams and the common flags.
type app struct {
	streams

	// flags are the common ones as they were given.
	flags     *pflag.FlagSet
	config    string
	logFormat string
	logLevel  string
}

func newRoot(std streams) *cobra.Command {
	a := &app{streams: std}
	root := &cobra.Command{
		Use:           "promptweir",
		Short:         "One MCP endpoint in front of many MCP servers, for prompts",
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			_, err := a.logger() // a command that logs nothing refuses the flags of the log, too, where they are wrong
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
	flags.StringVar(&a.config, "config", os.Getenv("PROMPTWEIR_CONFIG"), "configuration `PATH`: a file, or a folder of *.hcl files (PROMPTWEIR_CONFIG)")
	flags.StringVar(&a.logFormat, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
	flags.StringVar(&a.logLevel, "log-level", "info", "lowest `LEVEL` that is logged: debug, info, warn or error")
	root.AddCommand(
		a.serveCommand(), a.stdioCommand(), a.validateCommand(), a.listCommand(), a.getCommand(), a.explainCommand(),
		a.diffCommand(), a.fmtCommand(), a.lockCommand(), a.tokenCommand(), a.probeCommand(), a.versionCommand(), a.healthcheckCommand(),
	)
	return root
}

// takes is cobra's check of the number of arguments, as a usage error.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{cmd.Name() + ": " + err.Error()}
		}
		return nil
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: takes(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, "promptweir", buildVersion())
			return err
		},
	}
}

// logger writes to standard error, because standard output belongs to results and to the stdio transport.
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

// configGiven reports whether --config stands on the command line, and not only in the environment.
func (a *app) configGiven() bool { return a.flags.Changed("config") }

// load reads the configuration and prints its diagnostics. With lenient, unset environment variables are warnings.
func (a *app) load(lenient bool) (*config.Config, error) {
	if a.config == "" {
		return nil, errNoConfig
	}
	return a.loadPath(a.config, lenient)
}

// loadPath is load for a configuration that is not that of --config.
func (a *app) loadPath(path string, lenient bool) (*config.Config, error) {
	return a.loadBy(func() (*config.Config, config.Diagnostics) {
		return config.Load(path, config.Options{AllowUnsetEnv: lenient})
	})
}

// loadWatched is load for a gateway that serves: what was read is watched.
func (a *app) loadWatched(files *watch.Watcher) (*config.Config, error) {
	if a.config == "" {
		return nil, errNoConfig
	}
	return a.loadBy(func() (*config.Config, config.Diagnostics) { return a.read(files) })
}

func (a *app) loadBy(read func() (*config.Config, config.Diagnostics)) (*config.Config, error) {
	cfg, diagnostics := read()
	width, color := terminal(a.err)
	if err := diagnostics.Write(a.err, width, color); err != nil {
		return nil, err
	}
	if diagnostics.HasErrors() {
		return nil, errReported
	}
	return cfg, nil
}

const defaultWidth = 100

// terminal says how wide diagnostics may be and whether they may have colours.
func terminal(w io.Writer) (width uint, color bool) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return defaultWidth, false
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil || columns <= 0 {
		return defaultWidth, os.Getenv("NO_COLOR") == ""
	}
	return uint(columns), os.Getenv("NO_COLOR") == ""
}

// errClaims is for claims of nobody.
var errClaims = &usageError{"--claims goes with --as: say whose claims they are"}

// somebody is whom a command is about.
type somebody struct{ as, claims string }

func (s *somebody) flags(command *cobra.Command, usage string) {
	command.Flags().StringVar(&s.as, "as", "", usage)
	command.Flags().StringVar(&s.claims, "claims", "", "with --as, what the issuer says of them, as a `JSON` object; not known unless set")
}

// principal reads the flags. Where there is no auth block, everybody is in every team.
func (s *somebody) principal(cfg *config.Config) (policy.Principal, error) {
	who, err := identity.ParsePrincipal(s.as)
	if err != nil {
		return policy.Principal{}, &usageError{"--as: " + err.Error()}
	}
	if s.claims != "" {
		if _, err := wire.ParseObject([]byte(s.claims)); err != nil {
			return policy.Principal{}, &usageError{"--claims: write a JSON object: " + err.Error()}
		}
	}
	who.EveryTeam, who.Claims = cfg.Auth == nil, s.claims
	who.ClaimsUnknown = s.claims == "" && cfg.Auth.MayIssue(who.Subject)
	return who, nil
}
