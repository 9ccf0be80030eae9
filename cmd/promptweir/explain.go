package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check a configuration; nothing is started or contacted", Args: takes(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load(true)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s is valid: %d teams, %d upstreams\n", a.config, len(cfg.Teams), len(cfg.Upstreams()))
			return err
		},
	}
}

func (a *app) explainCommand() *cobra.Command {
	from, asking := &origin{app: a}, &somebody{}
	command := &cobra.Command{
		Use: "explain NAME", Short: "Say whether somebody sees a prompt, and which rule decides",
		Args: takes(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args[0], asking, from) },
	}
	asking.flags(command, "who asks, for example user:alice,group:payments; without an auth block: anybody")
	from.flags(command)
	return command
}

// explain says what the policy makes of a name, and whether it is listed where that is known.
func (a *app) explain(ctx context.Context, name string, asking *somebody, from *origin) error {
	if err := from.check(); err != nil {
		return err
	}
	cfg, err := a.load(!from.live)
	if err != nil {
		return err
	}
	who, err := explained(cfg, asking)
	if err != nil {
		return err
	}
	return from.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		if err := printExplanations(a.out, s, who, name); err != nil {
			return err
		}
		return from.printListed(s, name)
	})
}

func explained(cfg *config.Config, asking *somebody) (policy.Principal, error) {
	switch {
	case asking.as != "":
		return asking.principal(cfg)
	case asking.claims != "":
		return policy.Principal{}, errClaims
	case cfg.Auth != nil:
		return policy.Principal{}, &usageError{"the configuration has an auth block: say who asks with --as"}
	}
	return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}, nil
}

func printExplanations(w io.Writer, s *snapshot.Snapshot, who policy.Principal, name string) error {
	explanations := inspect.Explain(s, who, name)
	if len(explanations) == 0 {
		_, err := fmt.Fprintf(w, "%s: no upstream's prefix fits this name, so nobody can have it\n", name)
		return err
	}
	var text strings.Builder
	for _, e := range explanations {
		verdict := "not visible"
		switch {
		case e.Visible:
			verdict = "visible"
		case e.Depends:
			verdict = "perhaps visible"
		}
		fmt.Fprintf(&text, "%s is %s to %s, as %q of upstream %s (team %s)\n", name, verdict, who.Subject, e.Own, e.Upstream, e.Team)
		rule := e.Rule
		if rule == "" {
			rule = "no rule"
		}
		fmt.Fprintf(&text, "  decided by %s: %s\n", rule, e.Reason)
		for _, step := range e.Chain {
			mark := " "
			if step.Decides {
				mark = "*"
			}
			fmt.Fprintf(&text, "  %s %s: %s\n", mark, step.Rule, step.Text)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// printListed says what the upstreams have to do with the name, as far as their lists are known.
func (o *origin) printListed(s *snapshot.Snapshot, name string) error {
	where, line := "live: ", "no upstream offers it now"
	switch {
	case o.state != "":
		where, line = "saved lists: ", "no upstream offers it there"
	case !o.live:
		where, line = "", "whether an upstream offers it is not known: "+remedy
	}
	for _, entry := range inspect.Entries(s, nil) {
		if entry.Name != name {
			continue
		}
		var owners []string
		for _, owner := range entry.Owners {
			owners = append(owners, owner.Upstream)
		}
		line = "offered by " + strings.Join(owners, ", ")
	}
	for _, report := range s.Reports() {
		if report.Name == name {
			line = oneLine(report.Text, maxReport)
		}
	}
	_, err := fmt.Fprintln(o.out, where+line)
	return err
}
