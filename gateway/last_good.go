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

// LastGood says which files of teams have a mistake, and what is in use in their place until a load
// succeeds.
type LastGood struct {
	Kept []config.Kept
	// Mistakes are the errors of the configuration as it is.
	Mistakes config.Diagnostics
}

// LoadLastGood loads a configuration for a start, see [config.LoadLastGood], with the texts that a
// gateway has kept in the state_dir; without one a mistake keeps it from starting. LastGood is nil
// where the files are in use as they are. The Config is nil if the configuration cannot be used;
// then the Diagnostics have errors. They have them, too, where LastGood is set.
func LoadLastGood(
	path string, opts config.Options, logger *slog.Logger,
) (*config.Config, *LastGood, config.Diagnostics) {
	return loadLastGood(path, opts, func(stateDir string) config.TeamFiles {
		if stateDir == "" {
			return config.TeamFiles{}
		}
		kept, err := snapshot.ReadTeamFiles(stateDir, path)
		if err != nil {
			logger.Warn("saved team files ignored", slog.Any("error", err))
		}
		return kept
	})
}

// ReloadLastGood is [LoadLastGood] for a reload, with the texts that are in use.
func ReloadLastGood(
	path string, opts config.Options, inUse *config.Config,
) (*config.Config, *LastGood, config.Diagnostics) {
	return loadLastGood(path, opts, func(string) config.TeamFiles { return inUse.TeamFiles })
}

func loadLastGood(
	path string, opts config.Options, inUse func(stateDir string) config.TeamFiles,
) (*config.Config, *LastGood, config.Diagnostics) {
	cfg, kept, diags := config.LoadLastGood(path, opts, inUse)
	if cfg == nil || !diags.HasErrors() {
		return cfg, nil, diags
	}
	return cfg, &LastGood{Kept: kept, Mistakes: diags}, diags
}

// inUse says what became of a configuration that is in use from now on, and logs what of it is not.
func (g *Gateway) inUse(lastGood *LastGood, warnings []string) *admin.ConfigurationState {
	now := time.Now()
	state := admin.Loaded(now, warnings)
	if lastGood == nil {
		return state
	}
	err := lastGood.Mistakes.Err()
	state.Teams = map[string]string{}
	for _, k := range lastGood.Kept {
		became := "kept"
		if k.Out {
			became = "out"
			state.Out = append(state.Out, k.File)
		} else {
			state.LastGood = append(state.LastGood, k.File)
		}
		for _, team := range k.Teams {
			state.Teams[team] = became
		}
	}
	g.logger.ErrorContext(context.Background(), "configuration in use, except for team files that have mistakes",
		slog.String("kept", strings.Join(state.LastGood, ", ")),
		slog.String("out", strings.Join(state.Out, ", ")), slog.Any("error", err))
	return admin.Refused(state, now, err)
}
