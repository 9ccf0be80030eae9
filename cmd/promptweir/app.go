package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
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
func (a *app) warn(text string) {
	fmt.Fprintln(a.err, "promptweir:", terminal.OneLine(text, terminal.MaxReport))
}

var errNoConfig = &usageError{"--config PATH is required (or PROMPTWEIR_CONFIG)"}

// configGiven reports whether --config is on the command line, and not only in the environment.
func (a *app) configGiven() bool { return a.flags.Changed("config") }

// load loads the configuration of --config and prints its diagnostics. If lenient, unset
// environment variables are warnings.
func (a *app) load(lenient bool) (*config.Config, error) {
	if a.config == "" {
		return nil, errNoConfig
	}
	return a.loadPath(a.config, lenient)
}

// loadPath is load for a configuration other than that of --config.
func (a *app) loadPath(path string, lenient bool) (*config.Config, error) {
	return a.loadWith(func() (*config.Config, config.Diagnostics) {
		return config.Load(path, config.Options{AllowUnsetEnv: lenient})
	})
}

// loadWith prints the diagnostics of a load. The error is errReported if there are errors among
// them.
func (a *app) loadWith(load func() (*config.Config, config.Diagnostics)) (*config.Config, error) {
	cfg, diagnostics := load()
	if err := a.printDiagnostics(diagnostics); err != nil {
		return nil, err
	}
	if diagnostics.HasErrors() {
		return nil, errReported
	}
	return cfg, nil
}

func (a *app) printDiagnostics(diagnostics config.Diagnostics) error {
	width, color := terminal.Style(a.raw.err)
	return diagnostics.Write(a.raw.err, width, color)
}

// logger returns a logger that writes to standard error, because standard output belongs to results
// and to stdio clients.
func (a *app) logger() (*slog.Logger, error) {
	handler, err := a.logHandler(a.logOutput())
	if err != nil {
		return nil, err
	}
	return slog.New(handler), nil
}

// quietLogger is logger for commands that print a result and end: it logs errors only, unless
// --log-level is set.
func (a *app) quietLogger() (*slog.Logger, error) {
	if !a.flags.Changed("log-level") {
		a.logLevel = "error"
	}
	return a.logger()
}

// servingOptions returns the options of a command that serves, and a function that writes the last
// records of its log.
func (a *app) servingOptions() (opts serving.Options, flush func(), err error) {
	if a.config == "" {
		return serving.Options{}, nil, errNoConfig
	}
	logger, flush, err := serving.NewLogger(a.logOutput(), a.logHandler)
	if err != nil {
		return serving.Options{}, nil, err
	}
	report := func(diagnostics config.Diagnostics, usable bool) error {
		if err := a.printDiagnostics(diagnostics); err != nil {
			return err
		}
		if !usable {
			return &reportedError{diagnostics.Err()}
		}
		return nil
	}
	return serving.Options{
		Config: a.config, Report: report, Version: buildVersion(),
		Logger: logger,
	}, flush, nil
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
		// because of the colours: its handler lets nothing else act on the terminal
		return a.raw.err
	}
	return a.err
}

func (a *app) logHandler(w io.Writer) (slog.Handler, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, &usageError{fmt.Sprintf("--log-level %q: use debug, info, warn or error",
			a.logLevel)}
	}
	if a.logsToTerminal() {
		_, color := terminal.Style(a.raw.err)
		return terminal.NewLogHandler(w, level, color), nil
	}
	options := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		return slog.NewTextHandler(w, options), nil
	case "json":
		return slog.NewJSONHandler(terminal.PrintableJSON(w), options), nil
	}
	return nil, &usageError{fmt.Sprintf("--log-format %q: use text or json", a.logFormat)}
}
