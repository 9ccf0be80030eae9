package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// listFilter selects prompts of a list. The zero value selects all.
type listFilter struct {
	patterns []config.Pattern
	team     string
}

func (f *listFilter) addTo(command *cobra.Command) {
	command.Flags().StringVar(&f.team, "team", "", "with --config, only the prompts of the `TEAM`")
}

// parse takes up the arguments of the command. A running gateway does not tell which team owns a prompt.
func (f *listFilter) parse(patterns []string, isRunning bool) error {
	if f.team != "" && isRunning {
		return &usageError{"--team requires --config: a running gateway does not say which team owns a prompt"}
	}
	for _, text := range patterns {
		pattern, err := config.ParsePattern(text)
		if err != nil {
			return &usageError{err.Error()}
		}
		f.patterns = append(f.patterns, pattern)
	}
	return nil
}

// check refuses a team that the configuration does not have.
func (f *listFilter) check(cfg *config.Config) error {
	var teams []string
	for _, team := range cfg.Teams {
		teams = append(teams, team.Name)
	}
	if f.team == "" || slices.Contains(teams, f.team) {
		return nil
	}
	return &usageError{fmt.Sprintf("--team %q: the configuration has no such team%s", f.team, config.Suggest(f.team, teams))}
}

// apply returns the listing with the selected prompts only.
func (f *listFilter) apply(l listing) listing {
	selected := listing{partial: l.partial}
	for _, p := range l.prompts {
		name, _ := wire.Members(p.definition).Text("name")
		matches := func(pattern config.Pattern) bool { return pattern.Match(name) }
		if (f.team == "" || p.team == f.team) && (len(f.patterns) == 0 || slices.ContainsFunc(f.patterns, matches)) {
			selected.prompts = append(selected.prompts, p)
		}
	}
	return selected
}

// String says which prompts are selected, to go on after the word prompts; empty for all.
func (f *listFilter) String() string {
	var text strings.Builder
	if f.team != "" {
		text.WriteString(" of team " + f.team)
	}
	for i, pattern := range f.patterns {
		word := " or "
		if i == 0 {
			word = " named "
		}
		text.WriteString(word + pattern.String())
	}
	return text.String()
}
