package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// diffFlags are the flags of diff.
type diffFlags struct {
	app   *app
	lists listSource

	output   string
	exitCode bool
}

func diffCommand(a *app) *cobra.Command {
	d := &diffFlags{app: a, lists: listSource{app: a}}
	command := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Print what a change of a configuration exposes, hides or renames, and for whom",
		Args:  wantArgs(2, 2, "an old and a new configuration"),
		Long: `Print what a change of a configuration exposes (+), hides (-) or renames (!), and
for whom. OLD and NEW are each a file or a folder.

The configurations alone show which rules change, and what becomes of prompts in files (~ where
the definition or the text changes). With --state or --live, diff also prints which prompts of
servers are affected.`,
		Example: "  promptweir diff main pull-request\n" +
			"  promptweir diff main pull-request --state lists.json --exit-code",
		SuggestFor: []string{"compare", "plan"},
		RunE:       func(cmd *cobra.Command, args []string) error { return d.diff(cmd.Context(), args[0], args[1]) },
	}
	command.ValidArgsFunction = aFile
	d.lists.addTo(command)
	addOutput(command, &d.output, formatText, formatJSON)
	command.Flags().BoolVar(&d.exitCode, "exit-code", false, "exit with 1 if there are differences")
	return command
}

func (d *diffFlags) diff(ctx context.Context, oldPath, newPath string) error {
	if err := d.lists.check(); err != nil {
		return err
	}
	before, err := d.app.loadPath(oldPath, d.lists.options())
	if err != nil {
		return err
	}
	after, kept, err := d.loadAfter(before, newPath)
	if err != nil {
		return err
	}
	listsBefore, listsAfter, err := d.listsOfBoth(ctx, before, after)
	if err != nil {
		return err
	}
	evaluatedBefore, err := snapshot.Evaluate(ctx, before, listsBefore, snapshot.Options{})
	if err != nil {
		return err
	}
	evaluatedAfter, err := snapshot.Evaluate(ctx, after, listsAfter, snapshot.Options{})
	if err != nil {
		return err
	}
	comparison := inspect.Compare(evaluatedBefore, evaluatedAfter)
	if err := d.print(comparison, kept); err != nil {
		return err
	}
	if len(kept) > 0 || d.exitCode && isDifferent(comparison) {
		return errReported
	}
	return nil
}

// loadAfter loads the new configuration as a gateway would that has the old one in use: what it
// does with teams' files that have mistakes is part of the difference.
func (d *diffFlags) loadAfter(before *config.Config, path string) (after *config.Config, kept []config.Kept, err error) {
	inUse := func(string) config.TeamFiles { return before.TeamFiles }
	after, kept, diagnostics := config.LoadLastGood(path, d.lists.options(), inUse)
	if err := d.app.printDiagnostics(diagnostics); err != nil {
		return nil, nil, err
	}
	if after == nil {
		return nil, nil, errReported
	}
	return after, kept, nil
}

func isDifferent(c inspect.Comparison) bool { return len(c.Changes)+len(c.Prompts) > 0 }

// listsOfBoth returns the lists of both configurations' upstreams. Where both mean the same server
// they are the same, so that only the configurations make a difference.
func (d *diffFlags) listsOfBoth(ctx context.Context, before, after *config.Config) (listsBefore, listsAfter snapshot.Lists, err error) {
	if !d.lists.live {
		lists, err := d.savedListsOfBoth(before, after)
		return lists, lists, err
	}
	if listsBefore, err = d.liveLists(ctx, before); err != nil {
		return nil, nil, err
	}
	if listsAfter, err = d.liveLists(ctx, after); err != nil {
		return nil, nil, err
	}
	for name, list := range listsBefore {
		if other, ok := listsAfter[name]; !ok || other.Server == list.Server {
			listsAfter[name] = list
		}
	}
	for name, list := range listsAfter { // a server may have been listed the second time only
		if _, ok := listsBefore[name]; !ok {
			listsBefore[name] = list
		}
	}
	return listsBefore, listsAfter, nil
}

func (d *diffFlags) liveLists(ctx context.Context, cfg *config.Config) (lists snapshot.Lists, err error) {
	err = d.app.withUpstreams(ctx, cfg, func(g *gateway.Gateway) error {
		lists = g.Snapshot().Lists()
		return nil
	})
	return lists, err
}

// savedListsOfBoth is listsOfBoth for --state. Lists in the output of list -o json name no server:
// they belong to the old configuration, under whose names they were printed.
func (d *diffFlags) savedListsOfBoth(before, after *config.Config) (snapshot.Lists, error) {
	lists, err := d.lists.savedLists(before)
	if err != nil || d.lists.state == "" {
		return lists, err
	}
	// problems with the files were printed above
	more, _, err := snapshot.ReadLists(after, d.lists.state)
	for name, list := range more {
		if _, known := lists[name]; !known && list.Server != "" {
			lists[name] = list
		}
	}
	return lists, err
}

func (d *diffFlags) print(c inspect.Comparison, kept []config.Kept) error {
	if d.output == formatJSON {
		return terminal.PrintJSON(d.app.out, struct {
			inspect.Comparison
			Kept []config.Kept `json:"kept,omitempty"`
		}{c, kept})
	}
	var text strings.Builder
	for _, k := range kept {
		fmt.Fprintf(&text, "# %s\n", terminal.OneLine(k.String()))
	}
	if !isDifferent(c) {
		fmt.Fprintln(&text, "# No prompt changes its name, its upstream or its visibility.")
	}
	for _, change := range c.Changes {
		fmt.Fprintf(&text, "%s %s%s\n", change.Sign,
			terminal.OneLine(change.Text), terminal.InBrackets(change.Rule))
	}
	if !d.lists.given() && len(c.Unknown) > 0 {
		fmt.Fprintln(&text, "# The affected prompts are not known: "+chooseSource+".")
	}
	if len(c.Prompts) > 0 {
		fmt.Fprintln(&text, "# Affected prompts:")
	}
	for _, change := range c.Prompts {
		fmt.Fprintln(&text, promptLine(change))
	}
	if d.lists.given() && len(c.Unknown) > 0 {
		fmt.Fprintf(&text, "# The prompts of %s are not known.\n", strings.Join(c.Unknown, ", "))
	}
	_, err := io.WriteString(d.app.out, text.String())
	return err
}

func promptLine(p inspect.PromptChange) string {
	name := terminal.Line(p.Name)
	switch p.Kind {
	case inspect.Renamed:
		return fmt.Sprintf("! %s was called %s", name, terminal.Line(p.Before))
	case inspect.Changed:
		return fmt.Sprintf("~ %s has %s", name, p.Reason)
	case inspect.Exposed:
		return fmt.Sprintf("+ %s is exposed to %s%s", name, readers(p), terminal.InBrackets(p.Rule))
	}
	why := strings.Trim(p.Rule+", "+terminal.OneLine(p.Reason), ", ")
	return fmt.Sprintf("- %s is hidden from %s%s", name, readers(p), terminal.InBrackets(why))
}

// readers names those who gain or lose a prompt, and those among them for whom nothing changes.
func readers(p inspect.PromptChange) string {
	to := strings.Join(p.To, ", ")
	if to == string(config.Anybody) {
		to = "everybody"
	}
	if len(p.But) == 0 {
		return to
	}
	but := strings.Join(p.But, ", ")
	if p.Kind == inspect.Exposed {
		return to + "; it was already visible to " + but
	}
	return to + " except " + but
}
