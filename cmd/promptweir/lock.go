package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

type lockFlags struct {
	app   *app
	lists listSource

	// filter selects the prompts to approve.
	filter              listFilter
	diff, exitCode, yes bool
	output              string
}

func lockCommand(a *app) *cobra.Command {
	l := &lockFlags{app: a, lists: listSource{app: a}}
	command := &cobra.Command{
		Use: "lock [NAME]...", Short: "Approve the upstreams' current definitions",
		Args: cobra.ArbitraryArgs,
		Long: "Write " + config.LockFile +
			" beside the configuration. It approves every definition in the upstreams' lists\n" +
			"or, of these, the NAMEs and the prompts of --team. At a terminal, lock shows the differences and\n" +
			"asks first.\n\n" +
			"With --diff, print the differences from the lock file, and write nothing. An upstream\n" +
			"without a known list keeps its approved definitions.",
		Example: "  promptweir lock --config promptweir --live\n" +
			"  promptweir lock billing.invoice --config promptweir --live\n" +
			"  promptweir lock --config promptweir --live --diff --exit-code",
		SuggestFor: []string{"approve"},
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := l.filter.parse(names, false); err != nil {
				return err
			}
			return l.lock(cmd.Context())
		},
	}
	l.lists.addTo(command)
	command.Flags().BoolVar(&l.diff, "diff", false,
		"write nothing; print each difference between approved and listed definitions")
	command.Flags().BoolVar(&l.exitCode, "exit-code", false,
		"with --diff, exit with 1 if there are differences")
	command.Flags().StringVar(&l.filter.team, "team", "", "approve only the prompts of the `TEAM`")
	completeFlag(command, "team", a.completeTeam)
	command.Flags().BoolVar(&l.yes, "yes", false, "approve without asking")
	command.ValidArgsFunction = (&query{app: a}).completePrompts(noBound)
	addOutput(command, &l.output, formatText, formatJSON)
	addEnvFile(command)
	return command
}

func (l *lockFlags) lock(ctx context.Context) error {
	if l.exitCode && !l.diff {
		return &usageError{"--exit-code requires --diff"}
	}
	options := l.lists.options()
	options.SkipLockFile = true // the lock file would hide new prompts
	cfg, err := l.app.load(options)
	if err != nil {
		return err
	}
	if !l.lists.suffices(cfg, nil) {
		return &usageError{"lock needs the upstreams' lists: use --live to connect to the upstreams"}
	}
	if err := l.filter.checkTeam(cfg); err != nil {
		return err
	}
	path := config.LockPath(l.app.config)
	before, err := l.app.readLock(path)
	if err != nil {
		return err
	}
	return l.lists.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		listed := inspect.Lock(s)
		names := exslices.CastFunc(slices.Concat(before, listed), func(p config.LockedPrompt) string { return p.Name })
		if err := l.filter.check(names); err != nil {
			return err
		}
		after := l.updated(before, listed, s)
		changes := config.DiffLocks(before, after)
		l.printDifferences(s)
		if l.diff {
			return l.printDiff(path, len(after), changes)
		}
		if len(changes) == 0 && len(l.filter.patterns) > 0 {
			l.app.warn("there is no change of prompts%s", &l.filter)
		}
		if yes, err := l.isWanted(ctx, changes); err != nil || !yes {
			return cmp.Or(err, errors.New("nothing was approved"))
		}
		if err := replaceFile(filepath.Dir(path), path, after.Format()); err != nil {
			return err
		}
		if l.output == formatJSON {
			return l.printJSON(path, len(after), changes)
		}
		for _, c := range changes {
			fmt.Fprintf(l.app.out, "%s: %s\n", terminal.OneLine(cmp.Or(c.After, c.Before).Name), kindOf(c))
		}
		return l.app.printf("%s approves %s: %s\n", path,
			terminal.Count(len(after), "prompt"), summary(changes))
	})
}

// isWanted shows the changes to a user at a terminal, and asks for approval. With --yes, without changes, or if
// there is no terminal, it returns true.
func (l *lockFlags) isWanted(ctx context.Context, changes []config.LockChange) (bool, error) {
	prompter := terminal.NewPrompter(l.app.in)
	if l.yes || prompter == nil || len(changes) == 0 {
		return true, nil
	}
	if err := l.printChanges(changes); err != nil {
		return false, err
	}
	return prompter.Confirm(ctx, "Approve "+terminal.Count(len(changes), "change")+"?")
}

// updated returns the new lock: the prompts that the filter includes come from listed, all others from
// before. If the list of an upstream is unknown, the upstream's approved definitions stay.
func (l *lockFlags) updated(before, listed config.Lock, s *snapshot.Snapshot) config.Lock {
	unlisted := s.Unlisted()
	if len(unlisted) > 0 {
		l.app.warn("the prompts of %s are not known, so their approved definitions stay", strings.Join(unlisted, ", "))
	}
	isSelected := func(p config.LockedPrompt) bool {
		i, known := s.Index(p.Upstream)
		return known && l.filter.includes(p.Name, s.Upstreams[i].Team) || l.filter.includes(p.Name, "")
	}
	kept := slices.DeleteFunc(slices.Clone(before), func(p config.LockedPrompt) bool {
		isKnown := !slices.Contains(unlisted, p.Upstream) || len(listed.Named(p.Name)) > 0
		return isSelected(p) && isKnown
	})
	approved := slices.DeleteFunc(slices.Clone(listed), func(p config.LockedPrompt) bool { return !isSelected(p) })
	return config.NewLock(slices.Concat(kept, approved))
}

// printDifferences warns of prompts whose upstreams have different definitions, because a lock has one
// definition for each name.
func (l *lockFlags) printDifferences(s *snapshot.Snapshot) {
	for _, r := range s.Reports() {
		if r.Kind == catalog.Difference || r.Kind == catalog.Conflict {
			l.app.warn("%s; the lock approves the first upstream's definition", r.Text)
		}
	}
}

// printDiff prints the changes. With --exit-code, it returns errReported if there are changes.
func (l *lockFlags) printDiff(path string, approved int, changes []config.LockChange) (err error) {
	if l.output == formatJSON {
		err = l.printJSON(path, approved, changes)
	} else {
		err = l.printChanges(changes)
	}
	if err == nil && l.exitCode && len(changes) > 0 {
		return errReported
	}
	return err
}

// lockedChange is the JSON form of one change to the lock file.
type lockedChange struct {
	Name     string `json:"name"`
	Upstream string `json:"upstream"`
	// Change is "added", "changed" or "removed".
	Change string `json:"change"`
	// Before is the approved definition, After the listed one. Both are canonical JSON without the name.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

func (l *lockFlags) printJSON(path string, approved int, changes []config.LockChange) error {
	listed := make([]lockedChange, 0, len(changes)) // an empty list is [], not null
	for _, c := range changes {
		prompt := cmp.Or(c.After, c.Before)
		one := lockedChange{Name: prompt.Name, Upstream: prompt.Upstream, Change: kindOf(c)}
		if c.Before != nil {
			one.Before = json.RawMessage(c.Before.Definition)
		}
		if c.After != nil {
			one.After = json.RawMessage(c.After.Definition)
		}
		listed = append(listed, one)
	}
	return terminal.PrintJSON(l.app.out, struct {
		Path string `json:"path"`
		// Approved counts the prompts in the new lock file, which --diff does not write.
		Approved int            `json:"approved"`
		Changes  []lockedChange `json:"changes"`
	}{path, approved, listed})
}

// The kinds of changes.
const (
	added   = "added"
	changed = "changed"
	removed = "removed"
)

func kindOf(c config.LockChange) string {
	switch {
	case c.Before == nil:
		return added
	case c.After == nil:
		return removed
	}
	return changed
}

// printChanges prints each change: the new definition, or the lines that differ.
func (l *lockFlags) printChanges(changes []config.LockChange) error {
	var text strings.Builder
	for _, c := range changes {
		prompt := cmp.Or(c.After, c.Before)
		name := terminal.OneLine(prompt.Name) + " of upstream " + prompt.Upstream
		switch kindOf(c) {
		case added:
			fmt.Fprintf(&text, "+ %s is not approved\n", name)
			for line := range strings.Lines(indented(c.After)) {
				text.WriteString("+" + line)
			}
		case removed:
			fmt.Fprintf(&text, "- %s is no longer listed\n", name)
		case changed:
			fmt.Fprintf(&text, "! %s differs from its approved definition\n", name)
			text.Write(unifiedDiff(c.Before, c.After))
		}
	}
	return terminal.WriteDiff(l.app.raw.out, text.String())
}

// unifiedDiff compares two definitions line by line, without file names.
func unifiedDiff(before, after *config.LockedPrompt) []byte {
	text := diff.Diff("approved", []byte(indented(before)), "listed", []byte(indented(after)))
	// Cut off the lines before the first hunk, which name the files.
	at := bytes.Index(text, []byte("\n@@"))
	return text[at+1:]
}

func indented(p *config.LockedPrompt) string {
	return wire.Indented(jsontext.Value(p.Definition)) + "\n"
}

// summary counts the changes of each kind.
func summary(changes []config.LockChange) string {
	counts := map[string]int{}
	for _, c := range changes {
		counts[kindOf(c)]++
	}
	return fmt.Sprintf("%d added, %d changed, %d removed", counts[added], counts[changed],
		counts[removed])
}
