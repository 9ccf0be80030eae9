package gateway

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// LastGood says which files of the configuration had a mistake when the gateway started, so that their last good texts are in
// use until a reload succeeds.
type LastGood struct {
	// Files are the files' paths in the folder of the configuration.
	Files []string
	// Mistakes are the errors of the configuration as it is.
	Mistakes config.Diagnostics
}

// LoadLastGood loads a configuration for a start, see [config.LoadLastGood], with the texts that a gateway has kept in the
// state_dir. LastGood is nil where the files are in use as they are. The Config is nil if the configuration cannot be used;
// then the Diagnostics have errors. They have them, too, where last good texts are in use.
func LoadLastGood(path string, opts config.Options, logger *slog.Logger) (*config.Config, *LastGood, config.Diagnostics) {
	cfg, files, diags := config.LoadLastGood(path, opts, func(stateDir string) config.TeamFiles {
		kept, err := snapshot.ReadTeamFiles(stateDir, path)
		if err != nil {
			logger.Warn("saved team files ignored", slog.Any("error", err))
		}
		return kept
	})
	if len(files) == 0 {
		return cfg, nil, diags
	}
	return cfg, &LastGood{Files: files, Mistakes: diags}, diags
}

// startedWith says what became of the configuration that the gateway starts with, and logs what is not in use.
func (g *Gateway) startedWith(lastGood *LastGood, warnings []string) *admin.ConfigurationState {
	now := time.Now()
	state := admin.Loaded(now, warnings)
	if lastGood == nil {
		return state
	}
	err := lastGood.Mistakes.Err()
	g.logger.ErrorContext(context.Background(), "started with the last good texts of team files that have mistakes",
		slog.String("files", strings.Join(lastGood.Files, ", ")), slog.Any("error", err))
	state.LastGood = lastGood.Files
	return admin.Refused(state, now, err)
}
