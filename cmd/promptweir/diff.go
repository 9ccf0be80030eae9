package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// comparing is the diff command's call.
type comparing struct {
	origin

	output   string
	exitCode bool
}

func (a *app) diffCommand() *cobra.Command {
	c := &comparing{origin: origin{app: a}}
	command := &cobra.Command{
		Use: "diff OLD NEW", Short: "Say what a change of a configuration exposes, hides or renames, and to whom", Args: takes(cobra.ExactArgs(2)),
		Long: "Say what a change of a configuration exposes (+), hides (-) or renames (!), and to whom. OLD and NEW are each a file or a folder.\n\n" +
			"What the rules say is known from the configurations alone. Which prompts that concerns is known with --state or --live.",
		RunE: func(cmd *cobra.Command, args []string) error { return c.compare(cmd.Context(), args[0], args[1]) },
	}
	c.flags(command)
	command.Flags().StringVarP(&c.output, "output", "o", "text", "`FORMAT` of the result: text, as for a pull request, or json")
	command.Flags().BoolVar(&c.exitCode, "exit-code", false, "exit with 1 if there are differences")
	return command
}

func (c *comparing) compare(ctx context.Context, before, after string) error {
	if c.output != "text" && c.output != "json" {
		return &usageError{fmt.Sprintf("-o %q: use text or json", c.output)}
	}
	if err := c.check(); err != nil {
		return err
	}
	was, err := c.loadPath(before, !c.live)
	if err != nil {
		return err
	}
	is, err := c.loadPath(after, !c.live)
	if err != nil {
		return err
	}
	lists, err := c.lists(ctx, was, is)
	if err != nil {
		return err
	}
	old, err := snapshot.Evaluate(was, lists, snapshot.Options{})
	if err != nil {
		return err
	}
	next, err := snapshot.Evaluate(is, lists, snapshot.Options{})
	if err != nil {
		return err
	}
	difference := inspect.Compare(old, next)
	if err := c.print(difference); err != nil {
		return err
	}
	if c.exitCode && len(difference.Changes)+len(difference.Prompts) > 0 {
		return errReported
	}
	return nil
}

// lists are those of the earlier configuration's upstreams, and of those that only the later one has.
func (c *comparing) lists(ctx context.Context, was, is *config.Config) (snapshot.Lists, error) {
	if !c.live {
		return c.savedOf(was, is)
	}
	lists := snapshot.Lists{}
	for _, cfg := range []*config.Config{is, was} { // the same server's list is the earlier configuration's, once
		err := c.running(ctx, cfg, func(g *gateway.Gateway) error {
			maps.Copy(lists, g.Snapshot().Lists())
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// savedOf are the saved lists of the earlier configuration's upstreams, under whose names they were saved, and those of
// upstreams that only the later one has.
func (c *comparing) savedOf(was, is *config.Config) (snapshot.Lists, error) {
	lists, err := c.saved(was)
	if err != nil || c.state == "" {
		return lists, err
	}
	more, _, err := snapshot.ReadLists(is, c.state) // what is wrong with the files was said
	for name, list := range more {
		if _, known := lists[name]; !known && list.Server != "" {
			lists[name] = list
		}
	}
	return lists, err
}

func (c *comparing) print(difference inspect.Comparison) error {
	if c.output == "json" {
		return printJSON(c.out, difference)
	}
	var text strings.Builder
	if len(difference.Changes)+len(difference.Prompts) == 0 {
		fmt.Fprintln(&text, "# Nothing changes in who sees what.")
	}
	for _, change := range difference.Changes {
		fmt.Fprintf(&text, "%s %s%s\n", change.Sign, oneLine(change.Text, maxReport), inBrackets(change.Rule))
	}
	switch {
	case !c.known():
		fmt.Fprintln(&text, "# Which prompts that concerns is not known: "+remedy+".")
	case len(difference.Prompts) > 0:
		fmt.Fprintln(&text, "# Of the prompts that are known:")
	}
	for _, change := range difference.Prompts {
		fmt.Fprintln(&text, promptLine(change))
	}
	if c.known() && len(difference.Unknown) > 0 {
		fmt.Fprintf(&text, "# Not known are the prompts of %s.\n", strings.Join(difference.Unknown, ", "))
	}
	_, err := io.WriteString(c.out, text.String())
	return err
}

func promptLine(p inspect.PromptChange) string {
	name := oneLine(p.Name, len(p.Name))
	switch p.Kind {
	case inspect.Renamed:
		return fmt.Sprintf("! %s was called %s", name, oneLine(p.Before, len(p.Before)))
	case inspect.Exposed:
		return fmt.Sprintf("+ %s is exposed to %s%s", name, people(p), inBrackets(p.Rule))
	}
	return fmt.Sprintf("- %s is hidden from %s%s", name, people(p), inBrackets(strings.Trim(p.Rule+", "+oneLine(p.Reason, maxReport), ", ")))
}

// people says whom a change concerns.
func people(p inspect.PromptChange) string {
	to := strings.Join(p.To, ", ")
	if to == string(config.Anybody) {
		to = "everybody"
	}
	if len(p.But) == 0 {
		return to
	}
	word := " but "
	if p.Kind == inspect.Exposed {
		word = ", as it was to "
	}
	return to + word + strings.Join(p.But, ", ")
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
