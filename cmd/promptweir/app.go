package main

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// app is what all commands share: the standard streams and the global flags.
type app struct {
	// out and err print only what can be seen.
	in       io.Reader
	out, err io.Writer
	// raw are the streams of the process, for MCP messages and for diagnostics, which are in colour
	// on a terminal.
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

func newApp(std streams) *app {
	return &app{
		in: std.in, out: terminal.Printable(std.out), err: terminal.Printable(std.err),
		raw: std,
	}
}

// warn prints a sentence to standard error that does not end the command.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintln(a.err, "promptweir:", terminal.OneLine(fmt.Sprintf(format, args...)))
}

var errNoConfig = &usageError{"--config PATH is required (or PROMPTWEIR_CONFIG)"}

// whichConfig says in the help of a command which configuration setConfig chooses.
const whichConfig = `default: --config, else what lies here:
promptweir, gateway.hcl, or this folder if it has gateway.hcl and teams`

// setConfig sets the configuration of a command that has its path as an argument: the argument, else
// --config or its variable, else the one in the working directory.
func (a *app) setConfig(command string, args []string) error {
	switch {
	case len(args) > 0 && a.configGiven():
		return &usageError{"PATH and --config are mutually exclusive"}
	case len(args) > 0:
		a.config = args[0]
	default:
		a.config = cmp.Or(a.config, configHere())
	}
	if a.config == "" {
		return &usageError{fmt.Sprintf("%[1]s needs a configuration, and this folder has neither "+
			"promptweir/ nor gateway.hcl: promptweir %[1]s PATH", command)}
	}
	return nil
}

// configHere returns the configuration in the working directory, by its usual names; empty for none.
func configHere() string {
	switch {
	case isKind("promptweir", fs.ModeDir): // a program in the folder where it was built is none
		return "promptweir"
	case isKind("gateway.hcl", 0) && isKind("teams", fs.ModeDir): // gateway.hcl alone lacks the teams
		return "."
	case isKind("gateway.hcl", 0):
		return "gateway.hcl"
	}
	return ""
}

// isKind reports whether there is a file of a kind.
func isKind(path string, kind fs.FileMode) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == kind
}

// configGiven reports whether --config is on the command line, and not only in the environment.
func (a *app) configGiven() bool { return a.flags.Changed("config") }

// load loads the configuration of --config, or the one in the working directory, see loadPath.
// Commands that start its servers without --live require --config before: see doc.go.
func (a *app) load(options config.Options) (*config.Config, error) {
	if a.config = cmp.Or(a.config, configHere()); a.config == "" {
		return nil, errNoConfig
	}
	return a.loadPath(a.config, options)
}

// loadPath loads a configuration and prints its diagnostics. The error is errReported if there are
// errors among them.
func (a *app) loadPath(path string, options config.Options) (*config.Config, error) {
	cfg, diagnostics := config.Load(path, options)
	return cfg, a.report(diagnostics)
}

// report prints diagnostics. The error is errReported if there are errors among them.
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

// quietLogger returns the logger of commands that print a result and end: it logs errors only,
// unless --log-level is set. It writes to standard error, because standard output belongs to
// results.
func (a *app) quietLogger() *slog.Logger {
	if !a.flags.Changed("log-level") {
		a.logLevel = "error"
	}
	return slog.New(a.logHandler(a.logOutput()))
}

// servingOptions returns the options of a command that serves, and a function that writes the last
// records of its log. A person at a terminal is told next, unless it is nil.
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
			// Past the log, which may be exported: the link is for this terminal alone.
			_, _ = io.WriteString(terminal.Printable(between), next(at))
		}
	}
	return opts, flush, nil
}

// logsToTerminal reports whether a person reads the log as it is written: at a terminal, unless
// --log-format says otherwise.
func (a *app) logsToTerminal() bool {
	_, isTerminal := terminal.Width(a.raw.err)
	return isTerminal && !a.flags.Changed("log-format")
}

// logOutput returns where the log goes.
func (a *app) logOutput() io.Writer {
	if a.logsToTerminal() {
		// because of the colours: nothing else in it acts on the terminal
		return a.raw.err
	}
	return a.err
}

// showable makes one printable line of an attribute that would act on the terminal: the handler writes
// escape sequences as they are.
func showable(_ []string, a slog.Attr) slog.Attr {
	if text := a.Value.String(); text != wire.Printable(text) {
		a.Value = slog.StringValue(terminal.Line(text))
	}
	return a
}

func (a *app) logHandler(w io.Writer) slog.Handler {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.logLevel)) // the flag has checked it
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
