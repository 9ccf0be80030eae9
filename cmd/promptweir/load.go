package main

import (
	"log/slog"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/watch"
	"github.com/promptweir/promptweir/gateway"
)

var errNoConfig = &usageError{"--config PATH is required (or PROMPTWEIR_CONFIG)"}

// configGiven reports whether --config is on the command line, and not only in the environment.
func (a *app) configGiven() bool { return a.flags.Changed("config") }

// load loads the configuration of --config and prints its diagnostics. If lenient, unset environment variables are warnings.
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

// loadWatched is load for a gateway that reloads: it also has the files watched. Where a team's file has a mistake, its last good
// text may be used; the diagnostics are printed all the same.
func (a *app) loadWatched(files *watch.Watcher, logger *slog.Logger) (*watchedConfig, error) {
	if a.config == "" {
		return nil, errNoConfig
	}
	var (
		cfg      *config.Config
		lastGood *gateway.LastGood
	)
	var diagnostics config.Diagnostics
	files.Record(func(visit func(path string)) {
		cfg, lastGood, diagnostics = gateway.LoadLastGood(a.config, config.Options{OnRead: visit}, logger)
	})
	if err := a.printDiagnostics(diagnostics); err != nil {
		return nil, err
	}
	if cfg == nil {
		return nil, &reportedError{diagnostics.Err()}
	}
	return &watchedConfig{cfg, lastGood, diagnostics.Warnings()}, nil
}

// watchedConfig is the configuration that a gateway starts with.
type watchedConfig struct {
	*config.Config

	// lastGood is nil where the configuration is what its files say.
	lastGood *gateway.LastGood
	warnings []string
}

// readWatched loads the configuration again, after before, and has every file and folder that it reads watched, failed reads
// included: a reload can succeed as soon as the missing file appears.
func (a *app) readWatched(files *watch.Watcher, before *config.Config) (cfg *config.Config, diagnostics config.Diagnostics) {
	files.Record(func(visit func(path string)) {
		cfg, diagnostics = config.Load(a.config, config.Options{Before: before, OnRead: visit})
	})
	return cfg, diagnostics
}

// loadWith prints the diagnostics of a load. The error is errReported if there are errors among them.
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
