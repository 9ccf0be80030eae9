package main

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// app contains the standard streams and the global flags, for all commands.
type app struct {
	// out and err replace characters that are invisible or control a terminal.
	in       io.Reader
	out, err io.Writer
	// raw contains the process's streams, for MCP messages and for diagnostics with colours.
	raw streams
	// flags contains the flags, to distinguish a flag on the command line from a default.
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

func newApp(std streams) *app {
	return &app{
		in: std.in, out: terminal.Printable(std.out), err: terminal.Printable(std.err),
		raw: std,
	}
}

// warn prints a sentence to standard error, in one line of at most about 500 bytes. The command continues.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintln(a.err, "promptweir:", terminal.OneLine(fmt.Sprintf(format, args...)))
}

// printf prints to standard output.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

var errNoConfig = &usageError{"--config PATH is required (or PROMPTWEIR_CONFIG)"}

// whichConfig describes, for the help of a command, which configuration setConfig chooses.
const whichConfig = `default: --config, else what lies here:
promptweir, gateway.hcl, or this folder if it has gateway.hcl and teams`

// setConfig sets the configuration of a command: its argument, else the path in --config or PROMPTWEIR_CONFIG,
// else the configuration in the working directory. It warns if that is only the teams of a larger configuration.
func (a *app) setConfig(command string, args []string) error {
	switch {
	case len(args) > 0 && a.configGiven():
		return &usageError{"PATH and --config are mutually exclusive; leave one out"}
	case len(args) > 0:
		a.config = args[0]
	default:
		a.config = cmp.Or(a.config, configHere())
	}
	if a.config == "" {
		return &usageError{fmt.Sprintf("%[1]s needs a configuration, and this folder has neither "+
			"promptweir/ nor gateway.hcl: promptweir %[1]s PATH", command)}
	}
	folder := a.config
	if isKind(folder, 0) {
		folder = filepath.Join(folder, "..")
		if left, _ := filepath.Glob(filepath.Join(folder, "teams", "*.hcl")); len(left) > 0 && command != "fmt" && filepath.Base(a.config) == "gateway.hcl" {
			a.warn("%s does not apply: it is outside of %s. For the whole configuration: promptweir %s %s", left[0], a.config, command, folder)
		}
	}
	above, isPart := filepath.Join(folder, ".."), !isKind(filepath.Join(folder, "gateway.hcl"), 0)
	if platform := filepath.Join(above, "gateway.hcl"); isPart && isKind(platform, 0) && command != "fmt" {
		a.warn("%s does not apply: it is outside of %s. For the whole configuration: promptweir %s %s", platform, a.config, command, above)
	}
	return nil
}

// configHere returns the path of a configuration with a usual name in the working directory, or "" if there is
// none.
func configHere() string {
	switch {
	case isKind("promptweir", fs.ModeDir): // a folder, not the program that a build leaves here
		return "promptweir"
	case isKind("gateway.hcl", 0) && isKind("teams", fs.ModeDir): // gateway.hcl alone would lack the teams
		return "."
	case isKind("gateway.hcl", 0):
		return "gateway.hcl"
	}
	return ""
}

// isKind reports whether a path leads to a file of a type: fs.ModeDir for a folder, 0 for a regular file. It
// follows links.
func isKind(path string, kind fs.FileMode) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == kind
}

// configGiven reports whether --config is on the command line, not just in the environment.
func (a *app) configGiven() bool { return a.flags.Changed("config") }

// load loads the configuration of --config or, without it, of the working directory, and prints its
// diagnostics. If they have errors, it returns errReported. get and list call load only with --config:
// otherwise they would start the servers of whichever configuration lies in this folder.
func (a *app) load(options config.Options) (*config.Config, error) {
	if a.config = cmp.Or(a.config, configHere()); a.config == "" {
		return nil, errNoConfig
	}
	cfg, diagnostics := config.Load(a.config, options)
	return cfg, a.report(diagnostics)
}

// report prints diagnostics. If they have errors, it returns errReported.
func (a *app) report(diagnostics config.Diagnostics) error {
	if err := a.printDiagnostics(diagnostics); err != nil {
		return err
	}
	if diagnostics.HasErrors() {
		return errReported
	}
	return nil
}

func (a *app) printDiagnostics(diagnostics config.Diagnostics) error {
	width, color := terminal.Style(a.raw.err)
	return diagnostics.Write(a.raw.err, width, color)
}

// quietLogger returns the logger of commands that print a result. It logs only errors to standard error,
// unless --log-level is set.
func (a *app) quietLogger() *slog.Logger {
	if !a.flags.Changed("log-level") {
		a.logLevel = "error"
	}
	return slog.New(a.logHandler(a.logOutput()))
}

// servingOptions returns the options of a command that serves, and a function that writes the last log
// records. next returns the next steps for a person at a terminal; it may be nil.
func (a *app) servingOptions(next func(serving.Addresses) string) (opts serving.Options, flush func(), err error) {
	if a.config == "" {
		return serving.Options{}, nil, errNoConfig
	}
	logger, between, flush := serving.NewLogger(a.logOutput(), a.logHandler)
	report := func(diagnostics config.Diagnostics, isUsable bool) error {
		if err := a.printDiagnostics(diagnostics); err != nil || isUsable {
			return err
		}
		return &reportedError{diagnostics.Err()}
	}
	opts = serving.Options{
		Config: a.config, Report: report, Version: buildVersion(), Commit: thisBuild().Commit, Logger: logger,
	}
	if a.logsToTerminal() && next != nil {
		opts.Listening = func(at serving.Addresses) {
			// Do not log this: the log may be exported, and the link is only for this terminal.
			_, _ = io.WriteString(terminal.Printable(between), next(at))
		}
	}
	return opts, flush, nil
}

// logsToTerminal reports whether the log is for a person: standard error is a terminal, and
// --log-format is not set.
func (a *app) logsToTerminal() bool {
	_, isTerminal := terminal.Width(a.raw.err)
	return isTerminal && !a.flags.Changed("log-format")
}

func (a *app) logOutput() io.Writer {
	if a.logsToTerminal() {
		// The raw stream accepts colours; showable makes the attributes printable.
		return a.raw.err
	}
	return a.err
}

// showable makes an attribute printable, because the handler writes escape sequences unchanged.
func showable(_ []string, a slog.Attr) slog.Attr {
	if text := a.Value.String(); text != wire.Printable(text) {
		a.Value = slog.StringValue(terminal.Line(text))
	}
	return a
}

func (a *app) logHandler(w io.Writer) slog.Handler {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.logLevel)) // addChoice has checked the level
	if a.logsToTerminal() {
		_, color := terminal.Style(a.raw.err)
		return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !color, ReplaceAttr: showable})
	}
	options := &slog.HandlerOptions{Level: level}
	if a.logFormat == formatJSON {
		return slog.NewJSONHandler(terminal.PrintableJSON(w), options)
	}
	return slog.NewTextHandler(w, options)
}
